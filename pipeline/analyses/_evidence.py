"""Everything measured in a run, joined by key: what analyses may ask of."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from pipeline.analyses import _faults
from pipeline.analyses._loading import load
from pipeline.analyses._outcomes import CONDITION, SERIES, SERIES_KEY, Outcomes
from pipeline.analyses._spill import Spill
from pipeline.store import Run

VARIANT_KEY = [*SERIES_KEY, "variant", "replicate"]
"""What has a score."""

COUNTS = ("num_items", "num_scored", "num_no_answer", "num_failed", "num_timeout")

BY_VARIANT = pl.Schema(
    SERIES
    | {"variant": pl.String(), "replicate": pl.Int64(), "date": pl.Date()}
    | CONDITION
    | {"score": pl.Float64()}
    | dict.fromkeys(COUNTS, pl.Int64())
)
"""Columns of `Evidence.by_variant`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What analyses may ask of: everything measured in a run, joined by key."""

    by_variant: pl.DataFrame
    """One row for each `VARIANT_KEY`: `date` (null for controls), `CONDITION_KEY`, `score` (0 to
    100, null where nothing was scored), `num_items`, `num_scored`, `num_no_answer`, `num_failed`,
    `num_timeout`. The last four count items by status and add up to `num_items`."""
    items: pl.DataFrame
    """The items asked, with the columns of `records.Item`."""
    spill: Spill = field(repr=False)
    """What `outcomes` yields."""

    def outcomes(self) -> Iterator[Outcomes]:
        """Arrays over items and variants for each series, in the order of `SERIES_KEY`."""
        yield from self.spill


def evidence_of_run(run: Run) -> Evidence:
    """Everything measured in `run`.

    Raises:
        StoreError: as for `evidence`; or the run has no completions or no scores.
    """
    variants, items = run.plan_table("variants"), run.plan_table("items")
    return evidence(run.completions(), run.scores(), variants, items)


def evidence(
    completions: pl.LazyFrame, scores: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame
) -> Evidence:
    """Everything measured in a run, joined by key.

    The frames have the columns of the record classes of the same names.

    Raises:
        StoreError: a completion has no score, or two, under one of its run's metrics; or its
            variant or item is unknown.
    """
    _faults.check_distinct(variants, ["variant"])
    _faults.check_distinct(items, ["task", "item_id"])
    spill, tables = Spill(), [pl.DataFrame(schema=BY_VARIANT)]
    for outcomes in load(completions, scores, variants, items):
        spill.add(outcomes)
        tables.append(outcomes.by_variant().match_to_schema(BY_VARIANT))
    return Evidence(by_variant=pl.concat(tables).sort(VARIANT_KEY), items=items, spill=spill)
