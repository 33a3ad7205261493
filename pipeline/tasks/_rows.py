"""Checked access to the rows of a Hub data set: a wrong value is an error that says where it is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.core.errors import DataError

_WIDTH = 80
"""Characters of a wrong value that an error shows."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and where it stands, so that every error can name both.

    Methods raise DataError where there is no such column, or its value is not as they say.
    """

    task: str
    index: int
    """Place in the split, from 0."""
    columns: Mapping[str, Any]

    def item_id(self, split: str) -> str:
        """`<split>-<index>`, padded so that ids sort as rows do; real splits repeat some texts."""
        return f"{split}-{self.index:05d}"

    def text(self, column: str) -> str:
        """The text in `column`, exactly as stored, which must be more than white space."""
        value = self._value(column)
        if not _is_text(value):
            raise self.fault(column, "a text that is not empty", value)
        return str(value)

    def integer(self, column: str, *, low: int, high: int) -> int:
        """The integer in `column`, which must lie in `low` to `high`, both included."""
        value = self._value(column)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.fault(column, f"an integer from {low} to {high}", value)
        return value

    def texts(self, column: str, *, count: int | None = None) -> list[str]:
        """The list of texts in `column`, exactly as stored: `count` of them, or at least two."""
        value = self._value(column)
        texts = list(value) if isinstance(value, list | tuple) and all(map(_is_text, value)) else []
        if len(texts) < 2 if count is None else len(texts) != count:
            raise self.fault(column, f"a list of {count or 'two or more'} texts", value)
        return texts

    def mapping(self, column: str) -> "Row":
        """The mapping in `column`, with the same checks."""
        value = self._value(column)
        if not isinstance(value, Mapping):
            raise self.fault(column, "a mapping of texts", value)
        return Row(self.task, self.index, value)

    def _value(self, column: str) -> Any:
        if column not in self.columns:
            columns = ", ".join(map(str, self.columns)) or "none"
            raise DataError(f"{self._where()}: no column {column!r}; the row has: {columns}")
        return self.columns[column]

    def fault(self, column: str, expected: str, given: object) -> DataError:
        """The error to raise about a value that is not as `expected`."""
        shown = repr(given) if len(repr(given)) <= _WIDTH else repr(given)[: _WIDTH - 3] + "..."
        return DataError(f"{self._where()}, column {column!r}: expected {expected}, found {shown}")

    def _where(self) -> str:
        return f"task {self.task!r}, row {self.index}"


def checked(task: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """`rows` of `task`, numbered from 0 and with checked access."""
    return (Row(task, index, columns) for index, columns in enumerate(rows))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
