"""A table for a terminal of 80 columns: a line for each row, names first and numbers behind."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text


class Lines:
    """A table whose first columns name the model and more, and fold; numbers never do."""

    def __init__(
        self,
        title: str,
        names: Sequence[str],
        numbers: Sequence[str],
        *,
        models: Collection[str] = (),
        caption: "str | Text | None" = None,
        last: str = "",
    ) -> None:
        """The columns: the model, `names`, `numbers`, and a `last` one of words if it has a name.

        Where `models` are known and only one, its name goes into the title: long ones would be
        folded in a column.
        """
        from rich.table import Table
        from rich.text import Text

        self._has_models = len(models) != 1
        # Text, not str: a name may hold square brackets, which rich would read as mark-up.
        heading = Text(title if self._has_models else f"{title}: {next(iter(models))}")
        self.table = Table(title=heading, caption=caption, pad_edge=False, box=None)
        for name in (*(("model",) if self._has_models else ()), *names):
            self.table.add_column(name, overflow="fold")
        for name in numbers:
            self.table.add_column(name, justify="right", no_wrap=True)
        if last:
            self.table.add_column(last, overflow="fold")

    def add(self, model: str, names: Sequence[str], numbers: Sequence[str], *last: "Text") -> None:
        """One line, with its numbers as they are shown."""
        from rich.text import Text

        shown = [model, *names] if self._has_models else names
        self.table.add_row(*map(Text, shown), *numbers, *last)
