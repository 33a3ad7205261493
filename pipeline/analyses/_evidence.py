"""Everything measured in a run, joined by key: what analyses may ask of."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from pipeline.analyses import _faults
from pipeline.analyses._kept import Kept
from pipeline.analyses._loading import load
from pipeline.analyses._outcomes import CONDITION_KEY, SERIES_KEY, Outcomes
from pipeline.core import tables

VARIANT_KEY = [*SERIES_KEY, "variant", "replicate"]
"""What has a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What analyses may ask of: everything measured in a run, joined by key."""

    rows: pl.LazyFrame
    """One row for each completion and metric: `tables.ROW_KEY`, `date` (null for controls),
    `CONDITION_KEY`, `group`, `output_id`, `answer`, `rule`, `metric`, `status`, `stats`. A join of
    the stored tables: for a large run, `outcomes` is far quicker and smaller."""
    by_variant: pl.DataFrame
    """One row for each `VARIANT_KEY`: `date`, `CONDITION_KEY`, `score` (0 to 100, null where nothing
    was scored), `num_items`, `num_scored`, `num_no_answer`, `num_failed`, `num_timeout`. The last
    four count items by status and add up to `num_items`."""
    items: pl.DataFrame
    """The items asked, with the columns of `records.Item`."""
    kept: Kept = field(repr=False)
    """What `outcomes` yields."""

    def outcomes(self) -> Iterator[Outcomes]:
        """Arrays over items and variants, for one benchmark run under one metric at a time, in the
        order of `SERIES_KEY`.
        """
        yield from self.kept


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
    kept = Kept()
    tables = [one.by_variant() for one in kept.keeping(load(completions, scores, variants, items))]
    by_variant = pl.concat(tables) if tables else pl.DataFrame(schema=BY_VARIANT)
    by_variant = by_variant.match_to_schema(BY_VARIANT).sort(VARIANT_KEY)
    return Evidence(
        rows=_join(completions, scores, variants, items),
        by_variant=by_variant,
        items=items,
        kept=kept,
    )


COUNTS = ("num_items", "num_scored", "num_no_answer", "num_failed", "num_timeout")

CONDITION = pl.Schema(
    {
        name: pl.Int64() if name in ("option_order", "year") else pl.String()
        for name in CONDITION_KEY
    }
)
"""Types of the columns `CONDITION_KEY`."""

BY_VARIANT = pl.Schema(
    {name: pl.String() for name in [*SERIES_KEY, "variant"]}
    | {"replicate": pl.Int64(), "date": pl.Date()}
    | CONDITION
    | {"score": pl.Float64()}
    | {name: pl.Int64() for name in COUNTS}
)


def _join(
    completions: pl.LazyFrame, scores: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame
) -> pl.LazyFrame:
    """`Evidence.rows`. Texts stay on disk: only keys are taken from the completions."""
    scored = completions.select(*tables.ROW_KEY, "output_id").join(
        scores.drop("detail", "signature", "extraction_version"), on=tables.OUTPUT_KEY, how="inner"
    )
    dated = scored.join(
        variants.lazy().select("variant", "date", *CONDITION_KEY), on="variant", how="left"
    )
    return dated.join(
        items.lazy().select("task", "item_id", "group"), on=["task", "item_id"], how="left"
    )
