"""What is wrong with a run folder whose completions, scores, variants and items do not fit
together. Slow, and looked up only then.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from pipeline.core import tables
from pipeline.core.errors import StoreError


def check_distinct(known: pl.DataFrame, key: list[str]) -> None:
    """Raise where a table of the plan describes something twice."""
    if known.select(key).is_duplicated().any():
        raise StoreError(
            f"the run folder describes one {key[-1]} twice: "
            f"{_first(known.filter(known.select(key).is_duplicated()), key)}"
        )


def unknown(completions: pl.LazyFrame, known: pl.DataFrame, key: list[str]) -> StoreError:
    """The error for completions whose `key` is not in the table that describes it."""
    missing = completions.select(key).unique().join(known.lazy(), on=key, how="anti").collect()
    return StoreError(
        f"{missing.height} {key[-1]} value(s) of the completions are not described in the "
        "run folder, the first: "
        f"{_first(missing, key)}. The completions belong to another run; start the run in "
        "a new folder."
    )


def stored_twice(count: int, first: Mapping[str, Any], series: Mapping[str, Any]) -> StoreError:
    """The error for completions that are stored `count` times too often, the `first` under its
    item, variant and replicate.
    """
    return StoreError(
        f"{count} completion(s) are stored twice ({_where(series)}), the first: item "
        f"{first['item']}, variant {first['variant']}, "
        f"replicate {first['replicate']}. Delete the duplicate shard and run the stage again."
    )


def wrong_scores(
    completions: pl.LazyFrame, scores: pl.LazyFrame, series: Mapping[str, Any]
) -> StoreError:
    """The error for a series whose completions have no score, or two.

    Its metric is None where a run has none at all.
    """
    run = [pl.col(name) == series[name] for name in tables.RUN_KEY]
    asked = completions.filter(*run)
    here = scores.filter(*run, pl.col("metric") == (series["metric"] or ""))
    count = asked.select(pl.len()).collect().item()
    missing = asked.join(here, on=tables.OUTPUT_KEY, how="anti").select(tables.ROW_KEY).collect()
    if missing.height:
        first = _first(missing, tables.ROW_KEY)
        return StoreError(
            f"{missing.height} of {count} completions have no score ({_where(series)}), "
            f"the first: {first}. Score the run again."
        )
    twice = (
        here.group_by(tables.OUTPUT_KEY)
        .len()
        .filter(pl.col("len") > 1)
        .select(pl.len())
        .collect()
        .item()
    )
    return StoreError(
        f"{twice} output(s) have more than one score ({_where(series)}). Score the run "
        "again, which drops the old ones."
    )


def _where(series: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in series.items() if value is not None)


def _first(frame: pl.DataFrame, key: list[str]) -> str:
    return ", ".join(
        f"{name} {value}" for name, value in frame.select(key).sort(key).row(0, named=True).items()
    )
