"""Best minus worst date within each condition, and whether independent flips of the items alone
would give as much.
"""

from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses import (
    AXES,
    CONDITION,
    SERIES_KEY,
    STATUSES,
    Evidence,
    Outcomes,
    _stats as stats,
    spread,
)

TITLE = "Worst and best date"
QUESTION = (
    "How far apart are a model's worst and best date, and is that more than chance would give?"
)

SEED = 0
NUM_DRAWS = 200
"""Enough for the median and the 95th percentile of what chance gives."""
ALPHA = 0.05
"""Chance of calling any row of the table more than chance when none is."""
MIN_FULL_DRAWS = 1000
_DRAWS_PER_TEST = 2 / ALPHA
"""The smallest p-value is about 1 / draws, and the correction multiplies it by the number of tests:
twice the bare minimum."""

MORE, WITHIN, TOO_FEW, NO_SCORE = "more than chance", "within chance", "too few dates", "no score"

SCHEMA = pl.Schema(
    {name: pl.String() for name in SERIES_KEY}
    | dict(CONDITION)
    | {"num_items": pl.Int64(), "num_dates": pl.Int64()}
    | {"worst": pl.Float64(), "worst_date": pl.Date(), "best": pl.Float64(), "best_date": pl.Date()}
    | {
        name: pl.Float64()
        for name in (
            "delta",
            "control",
            "mean",
            "sd",
            "chance_delta",
            "chance_delta_95",
            "p_value",
            "p_value_holm",
        )
    }
    | {"placebo_flip_percent": pl.Float64()}
    | {
        name: pl.Float64()
        for name in (
            "no_answer_percent",
            "no_answer_percent_max",
            "timeout_percent",
            "failed_percent",
        )
    }
    | {"verdict": pl.String()}
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each series and condition that has dates; none for a sweep without dates.

    * `worst`, `best`: scores, and their dates; the first date wins ties; for a metric where less is
      better, `worst` is the highest score;
    * `delta`: best minus worst in points, never negative; `mean` and `sd` (n - 1) are over the
      dates, without placebo copies;
    * `control`: the score without a date, with equal wording, option order and location;
    * `chance_delta`, `chance_delta_95`: median and 95th percentile of the delta under
      `stats.chance_deltas`;
    * `p_value`: of the delta among those draws; `p_value_holm`: corrected for the number of rows
      tested, and what `verdict` goes by;
    * `placebo_flip_percent`: share of placebo copies whose outcome differs from the sweep's; null
      without placebo copies;
    * `no_answer_percent`, `timeout_percent`, `failed_percent`: share of the answers on the dates
      that had that status; `no_answer_percent_max`: the largest share on one date.
    """
    max_draws = _max_draws(evidence)
    rows = [
        _row(o, condition, max_draws) for o in evidence.outcomes() for condition in o.conditions()
    ]
    frame = pl.DataFrame(rows, schema=SCHEMA).sort(*SERIES_KEY, *AXES)
    adjusted = stats.holm(frame["p_value"].cast(pl.Float64).fill_null(np.nan).to_numpy())
    frame = frame.with_columns(p_value_holm=pl.Series(adjusted).fill_nan(None))
    is_more = pl.col("p_value_holm") < ALPHA
    return frame.with_columns(
        verdict=pl.when(is_more).then(pl.lit(MORE)).otherwise(pl.col("verdict"))
    )


def _max_draws(evidence: Evidence) -> int:
    """Number of draws that lets even the first step of the correction reach `ALPHA`."""
    dated = evidence.by_variant.filter(pl.col("date").is_not_null())
    return max(
        MIN_FULL_DRAWS, int(_DRAWS_PER_TEST * dated.select(*SERIES_KEY, "condition").n_unique())
    )


def _row(outcomes: Outcomes, condition: dict[str, Any], max_draws: int) -> dict[str, Any]:
    """One row of the table, before the correction; columns left out are null."""
    name = condition["condition"]
    columns = outcomes.dates(name)
    dates = outcomes.columns["date"].gather(columns).to_list()
    scores = outcomes.scores[columns]
    num_dates = int(np.count_nonzero(~np.isnan(scores)))
    row: dict[str, Any] = {
        **outcomes.series,
        **condition,
        "num_items": len(outcomes.item_ids),
        "num_dates": num_dates,
        "control": _control(outcomes, name),
        "placebo_flip_percent": _placebo_flip_percent(outcomes, name),
        **_unread(outcomes, columns),
        "verdict": WITHIN if num_dates > 1 else TOO_FEW if num_dates else NO_SCORE,
    }
    row |= _extremes(spread(dates, scores, higher_is_better=outcomes.metric.higher_is_better))
    if num_dates > 1:
        row |= _chance(outcomes.stats.dates(columns), outcomes, row["delta"], max_draws)
    return row


def _extremes(found: dict[str, Any]) -> dict[str, Any]:
    """Columns of the table for a `spread` over dates."""
    named = {"worst_date": found["worst_value"], "best_date": found["best_value"]}
    return named | {name: found[name] for name in ("worst", "best", "delta", "mean", "sd")}


def _unread(outcomes: Outcomes, columns: stats.Ints) -> dict[str, float | None]:
    """Percent of the answers on some columns by what kept them from being scored as usual, and the
    largest share of no answers.
    """
    counts = outcomes.status_counts[columns]
    asked, by_status = counts.sum(axis=1), dict(zip(STATUSES, counts.T, strict=True))
    return {
        "no_answer_percent": 100 * float(by_status["no_answer"].sum() / asked.sum()),
        "no_answer_percent_max": 100 * float((by_status["no_answer"] / asked).max()),
        "timeout_percent": 100 * float(by_status["timeout"].sum() / asked.sum()),
        "failed_percent": 100 * float(by_status["failed"].sum() / asked.sum()),
    }


def _chance(
    mine: stats.Cells, outcomes: Outcomes, delta: float, max_draws: int
) -> dict[str, float]:
    """What chance alone gives, and the p-value of `delta`.

    More draws are made only where the first could still lead to `ALPHA`. That cannot add false
    alarms: a row is called only by its full set of draws, which knows nothing of the first.
    """
    draws = stats.chance_deltas(mine, outcomes.metric.combine, num_draws=NUM_DRAWS, seed=SEED)
    p_value = stats.p_value(draws, delta)
    if p_value < 2 * ALPHA:
        p_value = stats.p_value(
            stats.chance_deltas(mine, outcomes.metric.combine, num_draws=max_draws, seed=SEED + 1),
            delta,
        )
    return {
        "chance_delta": float(np.median(draws)),
        "chance_delta_95": float(np.quantile(draws, 0.95)),
        "p_value": p_value,
    }


def _control(outcomes: Outcomes, condition: str) -> float | None:
    """Score without a date; None when it was not asked or not scored."""
    score = outcomes.scores[outcomes.control(condition)]
    return float(score[0]) if score.size and not np.isnan(score[0]) else None


def _placebo_flip_percent(outcomes: Outcomes, condition: str) -> float | None:
    """Percent of placebo copies whose outcome differs from the sweep's; None without any."""
    num_flips, num_pairs = outcomes.placebo_flips(condition)
    return 100.0 * num_flips / num_pairs if num_pairs else None
