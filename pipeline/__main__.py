"""`python -m pipeline`: the same as the `datesweep` command."""

from pipeline.cli import main

main()
