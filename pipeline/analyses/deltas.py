"""Best minus worst date, and whether independent flips of the items alone would give as much."""

import datetime
from typing import Any

import numpy as np
import polars as pl

from pipeline import records, stats
from pipeline.analyses import SERIES_KEY, Evidence, Outcomes

TITLE = "Worst and best date"
QUESTION = "How far apart are a model's worst and best date, and is that more than chance would give?"

SEED = 0
NUM_DRAWS = 200
"""Enough for the median and the 95th percentile of what chance gives."""
ALPHA = 0.05
"""Chance of calling any row of the table more than chance when none is."""
MIN_FULL_DRAWS = 1000
_DRAWS_PER_TEST = 2 / ALPHA
"""The smallest p-value is about 1 / draws, and the correction multiplies it by the number of tests: twice the bare minimum."""

MORE, WITHIN, TOO_FEW, NO_SCORE = "more than chance", "within chance", "too few dates", "no score"

SCHEMA = pl.Schema(
    {name: pl.String() for name in [*SERIES_KEY, "date_format"]}
    | {"num_items": pl.Int64(), "num_dates": pl.Int64()}
    | {"worst": pl.Float64(), "worst_date": pl.Date(), "best": pl.Float64(), "best_date": pl.Date()}
    | {name: pl.Float64() for name in ("delta", "control", "mean", "sd", "chance_delta", "chance_delta_95", "p_value", "p_value_holm")}
    | {"placebo_flip_percent": pl.Float64(), "verdict": pl.String()}
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each series and date format.

    * `worst`, `best`: scores, and their dates; the first date wins ties; for a metric where less is better, `worst` is the highest score;
    * `delta`: best minus worst in points, never negative; `mean` and `sd` (n - 1) are over the dates, without placebo copies;
    * `chance_delta`, `chance_delta_95`: median and 95th percentile of the delta under `stats.chance_deltas`;
    * `p_value`: of the delta among those draws; `p_value_holm`: corrected for the number of rows tested, and what `verdict` goes by;
    * `placebo_flip_percent`: share of placebo copies whose outcome differs from the sweep's; null without placebo copies.
    """
    max_draws = _max_draws(evidence)
    rows = [_row(o, date_format, max_draws) for o in evidence.outcomes() for date_format in o.date_formats()]
    frame = pl.DataFrame(rows, schema=SCHEMA).sort(*SERIES_KEY, "date_format")
    adjusted = stats.holm(frame["p_value"].cast(pl.Float64).fill_null(np.nan).to_numpy())
    frame = frame.with_columns(p_value_holm=pl.Series(adjusted).fill_nan(None))
    is_more = pl.col("p_value_holm") < ALPHA
    return frame.with_columns(verdict=pl.when(is_more).then(pl.lit(MORE)).otherwise(pl.col("verdict")))


def _max_draws(evidence: Evidence) -> int:
    """Number of draws that lets even the first step of the correction reach `ALPHA`."""
    dated = evidence.by_variant.filter(pl.col("date").is_not_null())
    return max(MIN_FULL_DRAWS, int(_DRAWS_PER_TEST * dated.select(*SERIES_KEY, "date_format").n_unique()))


def _row(outcomes: Outcomes, date_format: str, max_draws: int) -> dict[str, Any]:
    """One row of the table, before the correction; columns left out are null."""
    columns = outcomes.dates(date_format)
    dates = outcomes.columns["date"].gather(columns).to_list()
    mine = outcomes.stats[:, columns]
    scores = stats.scores_by_date(mine, outcomes.metric.combine)
    num_dates = int(np.count_nonzero(~np.isnan(scores)))
    row: dict[str, Any] = {
        **outcomes.series,
        "date_format": date_format,
        "num_items": len(outcomes.item_ids),
        "num_dates": num_dates,
        "control": _control(outcomes),
        "placebo_flip_percent": _placebo_flip_percent(outcomes, date_format),
        "verdict": WITHIN if num_dates > 1 else TOO_FEW if num_dates else NO_SCORE,
    }
    if num_dates:
        row |= _extremes(scores, dates, outcomes.metric.higher_is_better)
    if num_dates > 1:
        row |= _chance(mine, outcomes, row["delta"], max_draws)
    return row


def _extremes(scores: stats.Floats, dates: list[datetime.date], higher_is_better: bool) -> dict[str, Any]:
    """Worst and best score and date, their distance, and the spread; some score is not NaN."""
    low, high = int(np.nanargmin(scores)), int(np.nanargmax(scores))
    worst, best = (low, high) if higher_is_better else (high, low)
    known = scores[~np.isnan(scores)]
    return {
        "worst": float(scores[worst]),
        "worst_date": dates[worst],
        "best": float(scores[best]),
        "best_date": dates[best],
        "delta": float(scores[high] - scores[low]),
        "mean": float(known.mean()),
        "sd": float(known.std(ddof=1)) if known.size > 1 else None,
    }


def _chance(mine: stats.Floats, outcomes: Outcomes, delta: float, max_draws: int) -> dict[str, float]:
    """What chance alone gives, and the p-value of `delta`.

    More draws are made only where the first could still lead to `ALPHA`. That cannot add false alarms: a row is called only by its full set
    of draws, which knows nothing of the first.
    """
    draws = stats.chance_deltas(mine, outcomes.metric.combine, num_draws=NUM_DRAWS, seed=SEED)
    p_value = stats.p_value(draws, delta)
    if p_value < 2 * ALPHA:
        p_value = stats.p_value(stats.chance_deltas(mine, outcomes.metric.combine, num_draws=max_draws, seed=SEED + 1), delta)
    return {"chance_delta": float(np.median(draws)), "chance_delta_95": float(np.quantile(draws, 0.95)), "p_value": p_value}


def _control(outcomes: Outcomes) -> float | None:
    """Score without a date; None when it was not asked or not scored."""
    column = np.flatnonzero((outcomes.columns["variant"] == records.CONTROL).to_numpy() & (outcomes.columns["replicate"] == 0).to_numpy())
    score = stats.scores_by_date(outcomes.stats[:, column], outcomes.metric.combine)
    return float(score[0]) if score.size and not np.isnan(score[0]) else None


def _placebo_flip_percent(outcomes: Outcomes, date_format: str) -> float | None:
    """Percent of placebo copies whose outcome differs from the sweep's; None without any."""
    num_flips, num_pairs = outcomes.placebo_flips(date_format)
    return 100.0 * num_flips / num_pairs if num_pairs else None
