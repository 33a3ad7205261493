"""datesweep: does a hidden detail of the prompt, today's date above all, change a benchmark score?

`cli.py` is the way in; the README's tree says what each module holds. Importing this package
imports nothing heavy.
"""

__version__ = "0.1.0"
