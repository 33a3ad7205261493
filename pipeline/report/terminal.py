"""The tables for the end of a run, in 80 columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from pipeline.analyses import deltas
from pipeline.report import conditions, wording

if TYPE_CHECKING:
    from rich.table import Table

_CAPTION = (
    "chance: 95 times in 100, chance alone gives less. again: flips when the same {} is asked again"
)
STYLES: dict[str, str] = {deltas.MORE: "bold red", deltas.WITHIN: "green"}


def delta_table(tables: Mapping[str, pl.DataFrame]) -> "Table":
    """The table `deltas` for a terminal: one row for each model, task, metric and condition.

    The verdict is that of the table, corrected for the number of rows tested. A sweep without dates
    has no such rows; its table `conditions` is shown instead, and where nothing was varied either,
    its scores.
    """
    if conditions.is_undated(tables["by_date"]):
        found = conditions.beside_the_date(tables)
        return (
            _spread_table(found, tables["by_date"])
            if found.height
            else _score_table(tables["by_date"])
        )
    found = tables["deltas"]
    names, has_gaps = wording.Names(found), (found["no_answer_percent"] > 0).any()
    numbers = ["worst", "best", "delta", "chance", "again", *(["no ans."] if has_gaps else [])]
    table = _Lines(
        "Worst and best date",
        found,
        names,
        numbers,
        [*filter(None, (_CAPTION.format("date"), _lost(found)))],
        last="verdict",
    )
    for row in found.iter_rows(named=True):
        scores = [
            wording.number(row[name]) for name in ("worst", "best", "delta", "chance_delta_95")
        ]
        shares = [
            wording.percent(row["placebo_flip_percent"]),
            *([wording.percent(row["no_answer_percent"])] if has_gaps else []),
        ]
        table.add(row, names.short(row), [*scores, *shares], row["verdict"])
    return table.table


def _lost(found: pl.DataFrame) -> str:
    """The largest shares of answers that ran too long or could not be scored.

    Empty where there are none.
    """
    said = {"timeout_percent": "ran too long", "failed_percent": "could not be scored"}
    largest = {words: max(found[name].to_list(), default=0.0) for name, words in said.items()}
    return ", ".join(
        f"up to {wording.percent(share)} of answers {words}"
        for words, share in largest.items()
        if share
    )


def _spread_table(found: pl.DataFrame, by_date: pl.DataFrame) -> "Table":
    """The table `conditions` of a sweep without dates."""
    names = wording.Names(by_date)
    table = _Lines(
        "Conditions, without a date",
        found,
        names,
        ["worst", "best", "delta", "cv", "chance", "again"],
        [_CAPTION.format("prompt")],
    )
    for row in found.iter_rows(named=True):
        scores = [wording.number(row[name]) for name in ("worst", "best", "delta")]
        cv = wording.DASH if row["cv_percent"] is None else f"{row['cv_percent']:.2f}%"
        numbers = [
            *scores,
            cv,
            wording.number(row["chance_delta_95"]),
            wording.percent(row["placebo_flip_percent"]),
        ]
        name = (
            f"{names.short(row, with_condition=False)}, {row['num_values']} values of "
            f"{wording.AXIS_TITLES[row['axis']]}"
        )
        table.add(
            row,
            name + (f" ({wording.held(row['held'])})" if row["held"] != "control" else ""),
            numbers,
        )
    return table.table


def _score_table(by_date: pl.DataFrame) -> "Table":
    """The scores of a sweep that varied nothing."""
    names = wording.Names(by_date)
    table = _Lines("Scores without a date", by_date, names, ["score", "items", "no ans."], [])
    for row in by_date.filter(pl.col("replicate") == 0).iter_rows(named=True):
        share = wording.percent(100 * row["num_no_answer"] / row["num_items"])
        table.add(
            row, names.short(row), [wording.number(row["score"]), f"{row['num_items']:,}", share]
        )
    return table.table


class _Lines:
    """A table whose first columns name the model, unless there is only one, and the task."""

    def __init__(
        self,
        title: str,
        found: pl.DataFrame,
        names: wording.Names,
        numbers: list[str],
        captions: list[str],
        *,
        last: str = "",
    ) -> None:
        from rich.table import Table
        from rich.text import Text

        models = sorted({names.model(row) for row in found.iter_rows(named=True)})
        self.names, self.has_models = names, len(models) != 1
        # One model's name goes into the title: long ones would be folded in a column. Text, not
        # str: a name may hold square brackets, which rich would read as mark-up.
        heading = Text(title if self.has_models else f"{title}: {models[0]}")
        self.table = Table(
            title=heading, caption="\n".join(captions) or None, pad_edge=False, box=None
        )
        for name in ("model", "task") if self.has_models else ("task",):
            self.table.add_column(name, overflow="fold")
        for name in numbers:
            self.table.add_column(name, justify="right", no_wrap=True)
        if last:
            self.table.add_column(last, overflow="fold")

    def add(
        self, row: Mapping[str, object], task: str, numbers: list[str], verdict: str = ""
    ) -> None:
        """One line for `row`, with its numbers as they are shown."""
        from rich.text import Text

        keys = [Text(self.names.model(row)), Text(task)] if self.has_models else [Text(task)]
        tail = [Text(verdict, style=STYLES.get(verdict, ""))] if verdict else []
        self.table.add_row(*keys, *numbers, *tail)
