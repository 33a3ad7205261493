"""How much the score changes with each thing that is varied, the date among them: sd, coefficient
of variation, worst and best value.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses import AXES, SERIES_KEY, SPREAD, Evidence, Outcomes, _stats as stats, spread

TITLE = "Conditions beside the date"
QUESTION = "How much does the score change with each hidden detail?"

SEED = 0
NUM_DRAWS = 200
"""Enough for the median and the 95th percentile of what chance gives."""

HELD_ANY_FORMAT = "dated"
"""How `held` begins where the date format is what varies."""

_IN_NAMES = {"option_order": "order"}
"""Axes whose name in a condition is not that of their column."""

SCHEMA = pl.Schema(
    {name: pl.String() for name in [*SERIES_KEY, "axis", "held"]}
    | {"num_dates": pl.Int64()}
    | dict(SPREAD)
    | {name: pl.Float64() for name in ("chance_delta", "chance_delta_95", "placebo_flip_percent")}
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each series, axis, and combination of the other axes' values, where at least two
    values of the axis were asked.

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
    return pl.DataFrame(
        [row for outcomes in evidence.outcomes() for row in _rows(outcomes)], schema=SCHEMA
    )


def _rows(outcomes: Outcomes) -> Iterator[dict[str, Any]]:
    """Rows of one series, sorted by axis and by what is held fixed."""
    scored = outcomes.by_variant().with_row_index("column").filter(pl.col("replicate") == 0)
    scored = scored.with_columns(is_dated=pl.col("date").is_not_null())
    for axis in ("date", *AXES):
        wanted = scored.filter("is_dated") if axis == "date" else scored
        held = ["is_dated", *(name for name in AXES if name != axis)]
        for group in wanted.partition_by(held, maintain_order=True):
            if group[axis].n_unique() > 1:
                yield _row(outcomes, axis, group)


def _row(outcomes: Outcomes, axis: str, group: pl.DataFrame) -> dict[str, Any]:
    """One row: `group` holds the scores that differ in the axis, and by date where another axis
    varies.
    """
    values = group[axis].unique().sort()
    by_value = [group.filter(pl.col(axis) == value) for value in values]
    scores = np.array([_mean_score(one) for one in by_value])
    num_dates = 0 if axis == "date" else max(one["date"].count() for one in by_value)
    return {
        **outcomes.series,
        "axis": axis,
        "held": _held(str(group["condition"][0]), axis),
        "num_dates": num_dates,
        **spread(
            [str(value) for value in values],
            scores,
            higher_is_better=outcomes.metric.higher_is_better,
        ),
        **(_chance(outcomes, group) if axis != "date" and group.height == values.len() else {}),
        "placebo_flip_percent": _placebo_flip_percent(outcomes, group),
    }


def _mean_score(one: pl.DataFrame) -> float:
    """Mean of the scores that there are; NaN where there is none."""
    known = one["score"].drop_nulls().to_numpy()
    return float(known.mean()) if known.size else float("nan")


def _held(condition: str, axis: str) -> str:
    """The condition's name without what it says of the axis."""
    first, *others = condition.split(";")
    if axis == "date_format":
        first = HELD_ANY_FORMAT
    return ";".join(
        [first, *(part for part in others if not part.startswith(f"{_IN_NAMES.get(axis, axis)}="))]
    )


def _chance(outcomes: Outcomes, group: pl.DataFrame) -> dict[str, float]:
    """What chance alone gives, where every value has one column of outcomes."""
    mine = outcomes.stats.dates(group["column"].to_numpy())
    draws = stats.chance_deltas(mine, outcomes.metric.combine, num_draws=NUM_DRAWS, seed=SEED)
    return {
        "chance_delta": float(np.median(draws)),
        "chance_delta_95": float(np.quantile(draws, 0.95)),
    }


def _placebo_flip_percent(outcomes: Outcomes, group: pl.DataFrame) -> float | None:
    """Percent of the conditions' placebo copies whose outcome differs from the sweep's.

    None without any.
    """
    found = [
        outcomes.placebo_flips(condition)
        for condition in group["condition"].unique(maintain_order=True)
    ]
    num_flips, num_pairs = (sum(counts) for counts in zip(*found, strict=True))
    return 100.0 * num_flips / num_pairs if num_pairs else None
