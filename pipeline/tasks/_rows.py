"""Checked access to the rows of a Hub dataset: a value of the wrong kind is an error that says
where it stands.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pipeline.core.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """One row and its place, so that every complaint can name both."""

    task: str
    index: int
    """Place in the split, from 0."""
    columns: Mapping[str, Any]

    def item_id(self, split: str) -> str:
        """`<split>-<index>`, padded so that ids sort as the rows do.

        Texts are no keys: real splits repeat some.
        """
        return f"{split}-{self.index:05d}"

    def text(self, column: str) -> str:
        """The text in `column`, exactly as stored.

        Raises:
            DataError: no such column, not a string, or nothing but white space.
        """
        value = self._value(column)
        return (
            value
            if isinstance(value, str) and value.strip()
            else self.reject(column, "a text that is not empty", value)
        )

    def integer(self, column: str, *, low: int, high: int) -> int:
        """The integer in `column`, which must lie in `low` to `high`, both included.

        Raises:
            DataError: no such column, not an integer, or out of range.
        """
        value = self._value(column)
        valid = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return (
            int(value) if valid else self.reject(column, f"an integer from {low} to {high}", value)
        )

    def texts(self, column: str, *, count: int | None = None) -> list[str]:
        """The list of texts in `column`, exactly as stored: `count` of them, or at least two.

        Raises:
            DataError: no such column, not a list, another length, or a member that is not a text.
        """
        value = self._value(column)
        texts = (
            value
            if isinstance(value, list | tuple)
            and all(isinstance(v, str) and v.strip() for v in value)
            else ()
        )
        valid = len(texts) >= 2 if count is None else len(texts) == count
        return (
            list(texts)
            if valid
            else self.reject(column, f"a list of {count or 'two or more'} texts", value)
        )

    def mapping(self, column: str) -> "Row":
        """The mapping in `column`, with the same checks.

        Raises:
            DataError: no such column, or not a mapping.
        """
        value = self._value(column)
        nested = (
            value
            if isinstance(value, Mapping)
            else self.reject(column, "a mapping of texts", value)
        )
        return Row(self.task, self.index, nested)

    def _value(self, column: str) -> Any:
        if column not in self.columns:
            raise DataError(
                f"{self._place}: no column {column!r}; the row has: "
                f"{', '.join(map(str, self.columns)) or 'none'}"
            )
        return self.columns[column]

    def reject(self, column: str, expected: str, given: object) -> NoReturn:
        """Complain about a value that is not as `expected`.

        Raises:
            DataError: always.
        """
        raise DataError(
            f"{self._place}, column {column!r}: expected {expected}, found {_shortened(given)}"
        )

    @property
    def _place(self) -> str:
        return f"task {self.task!r}, row {self.index}"


def checked(task: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """`rows` of `task`, numbered from 0 and with checked access."""
    return (Row(task, index, columns) for index, columns in enumerate(rows))


def _shortened(value: object, width: int = 80) -> str:
    shown = repr(value)
    return shown if len(shown) <= width else shown[: width - 3] + "..."
