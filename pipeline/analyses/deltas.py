"""How far apart are a model's worst and best date, and is that more than chance would give?

Chance is what independent flips of the items alone would give.
"""

from typing import Any, Literal

import numpy as np
import polars as pl

from pipeline.analyses._evidence import Evidence
from pipeline.analyses._outcomes import AXES, CONDITION, SERIES, SERIES_KEY, Outcomes
from pipeline.analyses._spread import SEED, chance, spread
from pipeline.analyses._stats import Cells, Ints, chance_deltas, holm, p_value, percent
from pipeline.core.records import STATUSES

ALPHA = 0.05
"""Chance of calling any row of the table more than chance when none is."""
MIN_FULL_DRAWS = 1000
_DRAWS_PER_TEST = 2 / ALPHA
"""The smallest p-value is about 1 / draws, and the correction multiplies it by the number of tests:
twice the bare minimum."""

Verdict = Literal["more than chance", "within chance", "too few dates", "no score"]
MORE: Verdict = "more than chance"
WITHIN: Verdict = "within chance"
TOO_FEW: Verdict = "too few dates"
NO_SCORE: Verdict = "no score"

_NUMBERS = ("delta", "control", "mean", "sd", "chance_delta", "chance_delta_95", "p_value")
_SHARES = ("no_answer_percent", "no_answer_percent_max", "timeout_percent", "failed_percent")

SCHEMA = pl.Schema(
    SERIES
    | CONDITION
    | {"num_items": pl.Int64(), "num_dates": pl.Int64()}
    | {"worst": pl.Float64(), "worst_date": pl.Date(), "best": pl.Float64(), "best_date": pl.Date()}
    | dict.fromkeys((*_NUMBERS, "p_value_holm", "placebo_flip_percent", *_SHARES), pl.Float64())
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
    rows = [_row(o, name, max_draws) for o in evidence.outcomes() for name in o.conditions()]
    frame = pl.DataFrame(rows, schema=SCHEMA).sort(*SERIES_KEY, *AXES)
    corrected = holm(frame["p_value"].fill_null(np.nan).to_numpy())
    frame = frame.with_columns(p_value_holm=pl.Series(corrected).fill_nan(None))
    is_more = pl.col("p_value_holm") < ALPHA
    return frame.with_columns(verdict=pl.when(is_more).then(pl.lit(MORE)).otherwise("verdict"))


def _max_draws(evidence: Evidence) -> int:
    """Number of draws that lets even the first step of the correction reach `ALPHA`."""
    dated = evidence.by_variant.filter(pl.col("date").is_not_null())
    num_tests = dated.select(*SERIES_KEY, "condition").n_unique()
    return max(MIN_FULL_DRAWS, int(_DRAWS_PER_TEST * num_tests))


def _row(outcomes: Outcomes, condition: str, max_draws: int) -> dict[str, Any]:
    """One row of the table, before the correction; columns left out are null."""
    columns = outcomes.dates(condition)
    dates = outcomes.columns["date"].gather(columns).to_list()
    scores, control = outcomes.scores[columns], outcomes.scores[outcomes.control(condition)]
    num_dates = int(np.count_nonzero(~np.isnan(scores)))
    spread_of_dates = spread(dates, scores, higher_is_better=outcomes.metric.higher_is_better)
    row: dict[str, Any] = {
        **outcomes.key(condition),
        "num_items": len(outcomes.item_ids),
        "num_dates": num_dates,
        "worst_date": spread_of_dates["worst_value"],
        "best_date": spread_of_dates["best_value"],
        **{name: spread_of_dates[name] for name in ("worst", "best", "delta", "mean", "sd")},
        "control": None if np.isnan(control).all() else float(control[0]),
        "placebo_flip_percent": percent(*outcomes.placebo_flips(condition)),
        **_unread(outcomes, columns),
        "verdict": WITHIN if num_dates > 1 else TOO_FEW if num_dates else NO_SCORE,
    }
    if num_dates > 1:
        row |= _chance(outcomes.stats.dates(columns), outcomes, row["delta"], max_draws)
    return row


def _unread(outcomes: Outcomes, columns: Ints) -> dict[str, float]:
    """Percent of the answers on some columns that were not scored as usual, by status."""
    counts = outcomes.status_counts[columns]
    asked, by_status = counts.sum(axis=1), dict(zip(STATUSES, counts.T, strict=True))
    shares = {
        f"{status}_percent": 100 * float(by_status[status].sum() / asked.sum())
        for status in ("no_answer", "timeout", "failed")
    }
    most = 100 * float((by_status["no_answer"] / asked).max())
    return shares | {"no_answer_percent_max": most}


def _chance(cells: Cells, outcomes: Outcomes, delta: float, max_draws: int) -> dict[str, float]:
    """What chance alone gives, and the p-value of `delta`.

    More draws are made only where the first could still lead to `ALPHA`. That cannot add false
    alarms: a row is called only by its full set of draws, which knows nothing of the first.
    """
    combine = outcomes.metric.combine
    draws, columns = chance(cells, combine)
    p = p_value(draws, delta)
    if p < 2 * ALPHA:
        p = p_value(chance_deltas(cells, combine, num_draws=max_draws, seed=SEED + 1), delta)
    return columns | {"p_value": p}
