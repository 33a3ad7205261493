"""The tables for the end of a run, in 80 columns."""

from typing import TYPE_CHECKING

import polars as pl

from pipeline.analyses import deltas
from pipeline.report import wording
from pipeline.report._shown import Tables, beside_the_date, is_undated
from pipeline.report.lines import Lines
from pipeline.report.wording import Names, number, percent

if TYPE_CHECKING:
    from rich.table import Table

_CAPTION = (
    "chance: 95 times in 100, chance alone gives less. again: flips when the same {} is asked again"
)
_STYLES: dict[str, str] = {deltas.MORE: "bold red", deltas.WITHIN: "green"}


def delta_table(tables: Tables) -> "Table":
    """The table `deltas` for a terminal: one row for each model, task, metric and condition.

    The verdict is that of the table, corrected for the number of rows tested. A sweep without dates
    has no such rows; its table `conditions` is shown instead, and where nothing was varied either,
    its scores.
    """
    if not is_undated(tables):
        return _delta_table(tables["deltas"])
    spreads = beside_the_date(tables)
    return _spread_table(spreads, tables["by_date"]) if spreads.height else _score_table(tables)


def _delta_table(rows: pl.DataFrame) -> "Table":
    from rich.text import Text

    names, has_gaps = Names(rows), (rows["no_answer_percent"] > 0).any()
    lines = Lines(
        "Worst and best date",
        ["task"],
        ["worst", "best", "delta", "chance", "again", *(["no ans."] if has_gaps else [])],
        models=_models(rows, names),
        caption="\n".join(filter(None, (_CAPTION.format("date"), _lost(rows)))),
        last="verdict",
    )
    for row in rows.iter_rows(named=True):
        scores = [number(row[name]) for name in ("worst", "best", "delta", "chance_delta_95")]
        shares = ["placebo_flip_percent", *(["no_answer_percent"] if has_gaps else [])]
        verdict = Text(row["verdict"], style=_STYLES.get(row["verdict"], ""))
        numbers = [*scores, *(percent(row[name]) for name in shares)]
        lines.add(names.model(row), [names.short(row)], numbers, verdict)
    return lines.table


def _models(rows: pl.DataFrame, names: Names) -> set[str]:
    return {names.model(row) for row in rows.iter_rows(named=True)}


def _lost(rows: pl.DataFrame) -> str:
    """The largest shares of answers that ran too long or could not be scored; empty without any."""
    words = {"timeout_percent": "ran too long", "failed_percent": "could not be scored"}
    largest = {name: max(rows[name].to_list(), default=0.0) for name in words}
    return ", ".join(
        f"up to {percent(share)} of answers {words[name]}"
        for name, share in largest.items()
        if share
    )


def _spread_table(rows: pl.DataFrame, by_date: pl.DataFrame) -> "Table":
    """The table `conditions` of a sweep without dates."""
    names = Names(by_date)
    lines = Lines(
        "Conditions, without a date",
        ["task"],
        ["worst", "best", "delta", "cv", "chance", "again"],
        models=_models(rows, names),
        caption=_CAPTION.format("prompt"),
    )
    for row in rows.iter_rows(named=True):
        numbers = [
            *(number(row[name]) for name in ("worst", "best", "delta")),
            percent(row["cv_percent"], 2),
            number(row["chance_delta_95"]),
            percent(row["placebo_flip_percent"]),
        ]
        values = f"{row['num_values']} values of {wording.AXIS_TITLES[row['axis']]}"
        held = f" ({wording.held(row['held'])})" if row["held"] != "control" else ""
        task = f"{names.short(row, with_condition=False)}, {values}{held}"
        lines.add(names.model(row), [task], numbers)
    return lines.table


def _score_table(tables: Tables) -> "Table":
    """The scores of a sweep that varied nothing."""
    rows = tables["by_date"].filter(replicate=0)
    names = Names(tables["by_date"])
    models = _models(rows, names)
    lines = Lines("Scores without a date", ["task"], ["score", "items", "no ans."], models=models)
    for row in rows.iter_rows(named=True):
        share = percent(100 * row["num_no_answer"] / row["num_items"])
        numbers = [number(row["score"]), f"{row['num_items']:,}", share]
        lines.add(names.model(row), [names.short(row)], numbers)
    return lines.table
