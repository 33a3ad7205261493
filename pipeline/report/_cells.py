"""What the parts of the page share: a cell of a table, and counts with their noun."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
"""A row of an analysis table, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a table."""

    text: str
    note: str = ""
    """Shown smaller, below the text."""
    kind: str = ""
    """Class of the cell: `number`, `more`, `within`."""


def count(number: int, noun: str) -> str:
    """As in `1 date` or `1,200 dates`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
