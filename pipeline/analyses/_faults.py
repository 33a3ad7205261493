"""What is wrong with a run folder whose completions, scores, variants and items do not fit.

Slow, and looked up only then.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from pipeline.core import tables
from pipeline.core.errors import StoreError


def check_distinct(known: pl.DataFrame, key: list[str]) -> None:
    """Raise where a table of the plan describes something twice."""
    twice = known.filter(known.select(key).is_duplicated())
    if twice.height:
        raise StoreError(f"the run folder describes one {key[-1]} twice: {_first(twice, key)}")


def unknown(completions: pl.LazyFrame, known: pl.DataFrame, key: list[str]) -> StoreError:
    """The error for completions whose `key` is not in the table that describes it."""
    missing = completions.select(key).unique().join(known.lazy(), on=key, how="anti").collect()
    return StoreError(
        f"{missing.height} {key[-1]} value(s) of the completions are not described in the run "
        f"folder, the first: {_first(missing, key)}. The completions belong to another run; start "
        "the run in a new folder."
    )


def stored_twice(count: int, first: Mapping[str, Any], run: Mapping[str, str]) -> StoreError:
    """The error for `count` surplus completions of a benchmark run.

    `first` has the item, variant and replicate of one of them.
    """
    return StoreError(
        f"{count} completion(s) are stored twice ({_listed(run)}), the first: item "
        f"{first['item']}, variant {first['variant']}, replicate {first['replicate']}. Delete the "
        "duplicate shard and run the stage again."
    )


def wrong_scores(
    completions: pl.LazyFrame, scores: pl.LazyFrame, series: Mapping[str, str]
) -> StoreError:
    """The error for a series whose completions have no score, or two.

    `series` lacks the metric where a benchmark run has none at all.
    """
    in_run = [pl.col(name) == series[name] for name in tables.RUN_KEY]
    asked = completions.filter(*in_run)
    scored = scores.filter(*in_run, pl.col("metric") == series.get("metric", ""))
    missing = asked.join(scored, on=tables.OUTPUT_KEY, how="anti").select(tables.ROW_KEY).collect()
    if missing.height:
        count = asked.select(pl.len()).collect().item()
        return StoreError(
            f"{missing.height} of {count} completions have no score ({_listed(series)}), the "
            f"first: {_first(missing, tables.ROW_KEY)}. Score the run again."
        )
    counts = scored.group_by(tables.OUTPUT_KEY).len()
    twice = counts.select((pl.col("len") > 1).sum()).collect().item()
    return StoreError(
        f"{twice} output(s) have more than one score ({_listed(series)}). Score the run again, "
        "which drops the old ones."
    )


def _first(frame: pl.DataFrame, key: list[str]) -> str:
    return _listed(frame.select(key).sort(key).row(0, named=True))


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
