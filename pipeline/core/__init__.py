"""What every room uses: errors, row types and their table schemas, dates, conditions, progress.

Its modules are imported by name and not from here, so that whoever needs an error does not load
Polars.
"""
