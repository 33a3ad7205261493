"""How far apart scores lie that differ in one thing: the date, a condition, the engine."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses._stats import Cells, Combine, Floats, chance_deltas

SEED = 0
NUM_DRAWS = 200
"""Enough for the median and the 95th percentile of what chance gives."""

SPREAD = pl.Schema(
    {"num_values": pl.Int64()}
    | dict.fromkeys(("mean", "sd", "cv_percent"), pl.Float64())
    | {"worst_value": pl.String(), "worst": pl.Float64()}
    | {"best_value": pl.String(), "best": pl.Float64(), "delta": pl.Float64()}
)
"""Columns of `spread`, for values that are texts."""


def spread(values: Sequence[Any], scores: Floats, *, higher_is_better: bool) -> dict[str, Any]:
    """Columns of `SPREAD` for the scores (num_values,) of `values`, those that are not NaN.

    * `num_values`: how many have a score; with none, the other columns are None;
    * `mean`, and `sd` with n - 1 in the denominator (ddof = 1), both over the values; `sd` is None
      for a single value;
    * `cv_percent`: the coefficient of variation in percent, 100 * sd / mean; None where the mean is
      0;
    * `worst`, `best`: scores, and their values; the first of `values` wins ties; where less is
      better, `worst` is the highest score;
    * `delta`: best minus worst in points, never negative.
    """
    known = scores[~np.isnan(scores)]
    row: dict[str, Any] = dict.fromkeys(SPREAD.names()) | {"num_values": int(known.size)}
    if not known.size:
        return row
    low, high = int(np.nanargmin(scores)), int(np.nanargmax(scores))
    worst, best = (low, high) if higher_is_better else (high, low)
    mean = float(known.mean())
    sd = float(known.std(ddof=1)) if known.size > 1 else None
    return row | {
        "mean": mean,
        "sd": sd,
        "cv_percent": None if sd is None or mean == 0 else 100 * sd / mean,
        "worst_value": values[worst],
        "worst": float(scores[worst]),
        "best_value": values[best],
        "best": float(scores[best]),
        "delta": float(scores[high] - scores[low]),
    }


def mean_score(scores: pl.Series) -> float:
    """Mean of the scores that there are; NaN where there is none."""
    known = scores.drop_nulls().to_numpy()
    return float(known.mean()) if known.size else float("nan")


def chance(cells: Cells, combine: Combine) -> tuple[Floats, dict[str, float]]:
    """Deltas that chance alone gives, and their median and 95th percentile as columns.

    The columns are `chance_delta` and `chance_delta_95`.
    """
    draws = chance_deltas(cells, combine, num_draws=NUM_DRAWS, seed=SEED)
    median, most = float(np.median(draws)), float(np.quantile(draws, 0.95))
    return draws, {"chance_delta": median, "chance_delta_95": most}
