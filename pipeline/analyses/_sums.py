"""Scores by variant from the sums that scoring left: a year of MMLU is some ten thousand rows,
where it has millions of completions.
"""

import numpy as np
import polars as pl

from pipeline import metrics
from pipeline.analyses._outcomes import CONDITION_KEY, SERIES_KEY
from pipeline.core import tables
from pipeline.core.errors import StoreError
from pipeline.core.records import STATUSES

_COUNTS = [f"num_{status}" for status in STATUSES]
_KEY = ["variant", "replicate"]


def by_variant(sums: pl.LazyFrame, variants: pl.DataFrame) -> pl.DataFrame:
    """The columns of `Evidence.by_variant`, unsorted, from rows of `records.PartialSum`."""
    found = sums.collect().sort([*SERIES_KEY, *_KEY], maintain_order=True)
    parts = [_series(part) for part in found.partition_by(SERIES_KEY, maintain_order=True)]
    scored = (
        pl.concat(parts)
        if parts
        else found.select(*SERIES_KEY, *_KEY, *_COUNTS, score=pl.lit(0.0), num_items=pl.lit(0))
    )
    return scored.join(
        variants.select("variant", "date", *CONDITION_KEY),
        on="variant",
        how="left",
        maintain_order="left",
    )


def check_same(found: pl.DataFrame, recounted: pl.DataFrame, tolerance: float = 1e-6) -> None:
    """Nothing, or StoreError where sums tell other scores than the rows that they are sums of.

    Both as `Evidence.by_variant`.

    `tolerance` is in points of a score: floats that are added in another order differ in their last
    digits.
    """
    key = [*SERIES_KEY, *_KEY]
    both = recounted.join(found.select(*key, "score", *_COUNTS), on=key, how="full", suffix="_sums")
    differs = [pl.col(name).ne_missing(pl.col(f"{name}_sums")) for name in _COUNTS]
    gap = (pl.col("score") - pl.col("score_sums")).abs().fill_null(0.0) > tolerance
    bad = both.filter(
        pl.any_horizontal(
            *differs, gap, pl.col("score").is_null() != pl.col("score_sums").is_null()
        )
    )
    if bad.height:
        first = ", ".join(f"{name} {bad[name][0]}" for name in key)
        raise StoreError(
            f"{bad.height} sums of scores differ from the scores themselves, the first: "
            f"{first}. Delete the folder `sums` and score again."
        )


def _series(part: pl.DataFrame) -> pl.DataFrame:
    """One row for each variant and replicate of one series; `part` is sorted by them."""
    metric = metrics.get(part["metric"][0])
    head = part.select(pl.struct(_KEY).rle_id()).to_series().to_numpy()
    values = part["sums"].explode().to_numpy().reshape(part.height, len(metric.stat_names))
    counted = part.select(_COUNTS).to_numpy()
    num_rows = int(head[-1]) + 1
    total, counts = (
        np.zeros((num_rows, values.shape[1])),
        np.zeros((num_rows, len(_COUNTS)), dtype=np.int64),
    )
    np.add.at(total, head, values)
    np.add.at(counts, head, counted)
    asked = counts.sum(axis=1)
    score = metric.combine(total, (asked - counts[:, STATUSES.index("failed")]).astype(np.float64))
    named = part.unique(_KEY, keep="first", maintain_order=True).select(
        *tables.RUN_KEY, "metric", *_KEY
    )
    columns = {name: pl.Series(counts[:, i]) for i, name in enumerate(_COUNTS)}
    return named.with_columns(
        score=pl.Series(score, dtype=pl.Float64).fill_nan(None),
        num_items=pl.Series(asked),
        **columns,
    )
