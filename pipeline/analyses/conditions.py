"""How much does the score change with each hidden detail, the date among them?"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses._evidence import Evidence
from pipeline.analyses._outcomes import AXES, SERIES, Outcomes
from pipeline.analyses._spread import SPREAD, chance, mean_score, spread
from pipeline.analyses._stats import percent
from pipeline.prompts.condition import Condition

HELD_ANY_FORMAT = "dated"
"""How `held` begins where the date format is what varies."""

SCHEMA = pl.Schema(
    SERIES
    | {"axis": pl.String(), "held": pl.String(), "num_dates": pl.Int64()}
    | SPREAD
    | dict.fromkeys(("chance_delta", "chance_delta_95", "placebo_flip_percent"), pl.Float64())
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each series, axis, and combination of the other axes' values.

    Only where at least two values of the axis were asked.

    * `axis`: what varies: `date`, or one of `AXES`; everything else is held fixed at `held`, which
      is the condition without that axis, and begins with `control` for prompts without a date;
    * `num_dates`: for an axis other than the date, each value's score is first averaged over this
      many dates, at most: those of the condition that have a score, each counting once; 0 where
      prompts have no date, and for the axis `date` itself;
    * `num_values`, `mean`, `sd` (n - 1), `cv_percent`, `worst_value`, `worst`, `best_value`,
      `best`, `delta`: see `spread`;
    * `chance_delta`, `chance_delta_95`: median and 95th percentile of the delta under
      `stats.chance_deltas`, which shuffles each item's outcomes over the values; null for averages
      over several dates, and for dates, whose chance is in the table `deltas`;
    * `placebo_flip_percent`: share of the placebo copies in these conditions whose outcome differs
      from the sweep's; null without any.

    Placebo copies are no values of their own.
    """
    rows = [row for outcomes in evidence.outcomes() for row in _rows(outcomes)]
    return pl.DataFrame(rows, schema=SCHEMA)


def _rows(outcomes: Outcomes) -> Iterator[dict[str, Any]]:
    """Rows of one series, sorted by axis and by what is held fixed."""
    scored = outcomes.by_variant().with_row_index("column").filter(replicate=0)
    scored = scored.with_columns(is_dated=pl.col("date").is_not_null())
    for axis in ("date", *AXES):
        asked = scored.filter("is_dated") if axis == "date" else scored
        held = ["is_dated", *(name for name in AXES if name != axis)]
        for group in asked.partition_by(held, maintain_order=True):
            if group[axis].n_unique() > 1:
                yield _row(outcomes, axis, group)


def _row(outcomes: Outcomes, axis: str, group: pl.DataFrame) -> dict[str, Any]:
    """One row: `group` has the scores that differ in the axis, or in the axis and the date."""
    values = group[axis].unique().sort()
    by_value = [group.filter(pl.col(axis) == value) for value in values]
    scores = np.array([mean_score(one["score"]) for one in by_value])
    names, higher_is_better = [str(value) for value in values], outcomes.metric.higher_is_better
    conditions = group["condition"].unique(maintain_order=True)
    by_chance: dict[str, float] = {}
    if axis != "date" and group.height == values.len():  # every value has one column of outcomes
        cells = outcomes.stats.dates(group["column"].to_numpy())
        _, by_chance = chance(cells, outcomes.metric.combine)
    return {
        **outcomes.series,
        "axis": axis,
        "held": _held(group.row(0, named=True), axis),
        "num_dates": 0 if axis == "date" else max(one["date"].count() for one in by_value),
        **spread(names, scores, higher_is_better=higher_is_better),
        **by_chance,
        "placebo_flip_percent": percent(*outcomes.placebo_flips(*conditions)),
    }


def _held(row: Mapping[str, Any], axis: str) -> str:
    """The name of the row's condition without what it says of the axis."""
    values = {name: row[name] for name in AXES if name != axis and row[name]}
    values["order"] = values.pop("option_order", 0)
    if axis == "date_format":
        values["date_format"] = HELD_ANY_FORMAT
    return Condition(**values).name
