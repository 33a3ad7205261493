"""A comparison for a terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from pipeline.commands.compare._comparison import Comparison
from pipeline.report import Lines, wording

if TYPE_CHECKING:
    from rich.table import Table

_CAPTION = (
    "95%: where B - A would lie with other items, on the same dates.",
    "p: of as large a difference when A and B swap at random within items, corrected for the "
    "number of rows.",
    "flips: outcomes right in B only (+), in A only (-); of graded answers, those that are not the "
    "same.",
    "again: outcomes that change when a run asks the same prompt again; the larger of the two.",
)


def table_of(comparison: Comparison) -> "Table":
    """The rows of a comparison for a terminal.

    The caption names the runs, what was left out, and the settings that differ.
    """
    from rich.text import Text

    rows, (a, b) = comparison.rows, comparison.names
    names = wording.Names(rows.with_columns(model=pl.col("model_a"), engine=pl.col("engine_a")))
    lines = Lines(
        "B minus A",
        ["task"],
        ["A", "B", "B - A", "95%", "p", "flips", "again"],
        models={_models(row) for row in rows.iter_rows(named=True)},
        caption=Text("\n".join([f"A: {a}", f"B: {b}", *_CAPTION, *comparison.notes])),
    )
    lines.table.caption_justify = "left"
    for row in rows.iter_rows(named=True):
        task = names.short(row) + ("" if row["num_dates"] else ", no date")
        lines.add(_models(row), [task], _numbers(row))
    return lines.table


def _models(row: Mapping[str, Any]) -> str:
    """The model, or the two of a pair."""
    a, b = row["model_a"], row["model_b"]
    return str(a) if a == b else f"{a} and {b}"


def _numbers(row: Mapping[str, Any]) -> list[str]:
    """The cells of one row of the table."""
    low, high = wording.number(row["low"]), wording.number(row["high"])
    gained, lost = row["num_right_only_b"], row["num_right_only_a"]
    flips = f"+{_count(gained)} -{_count(lost)}" if gained is not None else None
    again = [share for side in "ab" if (share := row[f"placebo_flip_percent_{side}"]) is not None]
    return [
        *(wording.number(row[name]) for name in ("score_a", "score_b", "difference")),
        wording.DASH if row["low"] is None else f"{low} to {high}",
        wording.p_value(row["p_value_holm"]),
        flips or _count(row["num_differing"]),
        wording.percent(max(again, default=None)),
    ]


def _count(value: int) -> str:
    """`value` in at most five characters, up to hundreds of millions."""
    if value < 10_000:
        return f"{value:,}"
    return f"{value / 1e3:.0f}k" if value < 999_500 else f"{value / 1e6:.2f}M"
