"""The delta table for the end of a run, in 80 columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from pipeline.analyses import deltas
from pipeline.report import wording

if TYPE_CHECKING:
    from rich.table import Table

_CAPTION = "chance: 95 times in 100, chance alone gives less. again: flips when the same date is asked again"
STYLES = {deltas.MORE: "bold red", deltas.WITHIN: "green"}


def delta_table(tables: Mapping[str, pl.DataFrame]) -> "Table":
    """The table `deltas` for a terminal: one row for each model, task and metric.

    The verdict is that of the table, corrected for the number of rows tested.
    """
    from rich.table import Table
    from rich.text import Text

    found = tables["deltas"]
    names = wording.Names(found)
    models = sorted({names.model(row) for row in found.iter_rows(named=True)})
    # One model's name goes into the title: long ones would be folded in a column.
    title = Text(f"Worst and best date: {models[0]}" if len(models) == 1 else "Worst and best date")
    table = Table(title=title, caption=_CAPTION, pad_edge=False, box=None)
    for heading in ("model", "task") if len(models) > 1 else ("task",):
        table.add_column(heading, overflow="fold")
    for heading in ("worst", "best", "delta", "chance", "again"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for row in found.iter_rows(named=True):
        scores = [wording.number(row[name]) for name in ("worst", "best", "delta", "chance_delta_95")]
        verdict = Text(row["verdict"], style=STYLES.get(row["verdict"], ""))
        # Text, not str: a name may hold square brackets, which rich would read as mark-up.
        keys = [Text(names.model(row)), Text(names.short(row))][len(models) == 1 :]
        table.add_row(*keys, *scores, wording.percent(row["placebo_flip_percent"]), verdict)
    return table
