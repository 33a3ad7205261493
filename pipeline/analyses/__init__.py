"""Analyses: one file per question asked of a run's completions and scores.

To add one, write `pipeline/analyses/<name>.py` with

    TITLE     what a heading says
    QUESTION  the question it answers, one sentence in a reader's words
    table     function of an `Evidence` that returns a Polars frame

It is found by its file name. Start from `Evidence.outcomes()`, which gives one benchmark run under one metric at a time as arrays over
items and dates. The contract tests (`tests/test_analyses.py`) then check that its table does not depend on the order of the rows and comes
out equal to the byte each time; so sort it by a key, and add up floats along `Outcomes.stats`, whose items are in a fixed order. All scores
are 0 to 100. Dates are compared only within one condition (`Outcomes.conditions()`), in which nothing but the date differs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import polars as pl

from pipeline import frames, registry
from pipeline.analyses._outcomes import AXES as AXES  # `as`: plug-ins import these names from here
from pipeline.analyses._outcomes import CONDITION_KEY as CONDITION_KEY
from pipeline.analyses._outcomes import SERIES_KEY as SERIES_KEY
from pipeline.analyses._outcomes import Outcomes as Outcomes
from pipeline.analyses._outcomes import outcomes
from pipeline.analyses._spread import SPREAD as SPREAD
from pipeline.analyses._spread import spread as spread
from pipeline.errors import StoreError

VARIANT_KEY = [*SERIES_KEY, "variant", "replicate"]
"""What has a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What analyses may ask of: everything measured in a run, joined by key."""

    rows: pl.LazyFrame
    """One row for each completion and metric: `frames.ROW_KEY`, `date` (null for controls), `CONDITION_KEY`, `group`, `output_id`,
    `answer`, `rule`, `metric`, `status`, `stats`."""
    by_variant: pl.DataFrame
    """One row for each `VARIANT_KEY`: `date`, `CONDITION_KEY`, `score` (0 to 100, null where nothing was scored), `num_items`,
    `num_scored`, `num_no_answer`, `num_failed`, `num_timeout`. The last four count items by status and add up to `num_items`."""
    items: pl.DataFrame
    """The items asked, with the columns of `records.Item`."""

    def outcomes(self) -> Iterator[Outcomes]:
        """Arrays over items and variants, for one benchmark run under one metric at a time, in the order of `SERIES_KEY`."""
        for series in self.by_variant.select(SERIES_KEY).unique().sort(SERIES_KEY).iter_rows(named=True):
            yield outcomes(self.rows, series)


def evidence(completions: pl.LazyFrame, scores: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame) -> Evidence:
    """Everything measured in a run, joined by key; the frames have the columns of the record classes of the same names.

    Raises:
        StoreError: a completion has no score, or two, under one of its run's metrics; or its variant or item is unknown.
    """
    _check_known(completions, variants, ["variant"])
    _check_known(completions, items, ["task", "item_id"])
    rows = _join(completions, scores, variants, items)
    series = _check_scored(completions, scores, rows)
    tables = [outcomes(rows, one).by_variant() for one in series.iter_rows(named=True)]
    by_variant = pl.concat(tables) if tables else pl.DataFrame(schema=BY_VARIANT)
    return Evidence(rows=rows, by_variant=by_variant.match_to_schema(BY_VARIANT).sort(VARIANT_KEY), items=items)


COUNTS = ("num_items", "num_scored", "num_no_answer", "num_failed", "num_timeout")

CONDITION = pl.Schema({name: pl.Int64() if name in ("option_order", "year") else pl.String() for name in CONDITION_KEY})
"""Types of the columns `CONDITION_KEY`."""

BY_VARIANT = pl.Schema(
    {name: pl.String() for name in [*SERIES_KEY, "variant"]}
    | {"replicate": pl.Int64(), "date": pl.Date()}
    | CONDITION
    | {"score": pl.Float64()}
    | {name: pl.Int64() for name in COUNTS}
)


def get(name: str) -> Callable[[Evidence], pl.DataFrame]:
    """The `table` function of the analysis `name`.

    Raises:
        ConfigError: there is no such analysis.
    """
    return cast(Callable[[Evidence], pl.DataFrame], registry.module("analyses", name).table)


def _join(completions: pl.LazyFrame, scores: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame) -> pl.LazyFrame:
    """`Evidence.rows`. Texts stay on disk: only keys are taken from the completions."""
    scored = completions.select(*frames.ROW_KEY, "output_id").join(scores.drop("detail"), on=frames.OUTPUT_KEY, how="inner")
    dated = scored.join(variants.lazy().select("variant", "date", *CONDITION_KEY), on="variant", how="left")
    return dated.join(items.lazy().select("task", "item_id", "group"), on=["task", "item_id"], how="left")


def _check_known(completions: pl.LazyFrame, known: pl.DataFrame, key: list[str]) -> None:
    """Raise where a key of the completions is not in the table that describes it, or is there twice."""
    if known.select(key).is_duplicated().any():
        raise StoreError(f"the run folder describes one {key[-1]} twice: {_first(known.filter(known.select(key).is_duplicated()), key)}")
    unknown = completions.select(key).unique().join(known.lazy(), on=key, how="anti").collect()
    if unknown.height:
        raise StoreError(
            f"{unknown.height} {key[-1]} value(s) of the completions are not described in the run folder, the first: "
            f"{_first(unknown, key)}. The completions belong to another run; start the run in a new folder."
        )


def _check_scored(completions: pl.LazyFrame, scores: pl.LazyFrame, rows: pl.LazyFrame) -> pl.DataFrame:
    """The `SERIES_KEY` values of the run, sorted; raises unless every completion has one score under every metric of its run.

    Counting is enough: a join that loses or repeats nothing gives each metric as many rows as there are completions.
    """
    asked = completions.group_by(frames.RUN_KEY).agg(asked=pl.len()).collect()
    found = rows.group_by(SERIES_KEY).agg(found=pl.len()).collect()
    counts = asked.join(found, on=frames.RUN_KEY, how="left").sort(SERIES_KEY)
    for row in counts.filter(pl.col("asked") != pl.col("found").fill_null(0)).iter_rows(named=True):
        raise StoreError(_mismatch(completions, scores, row))
    return counts.select(SERIES_KEY)


def _mismatch(completions: pl.LazyFrame, scores: pl.LazyFrame, row: dict[str, object]) -> str:
    """What is wrong where the numbers of completions and scores of one series differ."""
    run = [pl.col(name) == row[name] for name in frames.RUN_KEY]
    here = scores.filter(*run, pl.col("metric") == (row["metric"] or ""))
    missing = completions.filter(*run).join(here, on=frames.OUTPUT_KEY, how="anti").select(frames.ROW_KEY).sort(frames.ROW_KEY).collect()
    where = ", ".join(f"{name} {row[name]}" for name in SERIES_KEY if row[name] is not None)
    if missing.height:
        first = _first(missing, frames.ROW_KEY)
        return f"{missing.height} of {row['asked']} completions have no score ({where}), the first: {first}. Score the run again."
    return f"{row['found']} scores for {row['asked']} completions ({where}): some have two. Delete the scores and score the run again."


def _first(frame: pl.DataFrame, key: list[str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in frame.select(key).sort(key).row(0, named=True).items())
