"""What the smaller commands do: show, list, status, compare, join, doctor.

Each prints something and returns.
"""
