"""What does each model score on each date, and under each condition?

The data behind the charts, with the controls and the placebo copies.
"""

import polars as pl

from pipeline.analyses._evidence import BY_VARIANT, COUNTS, Evidence
from pipeline.analyses._outcomes import AXES, CONDITION_KEY, SERIES_KEY

_COLUMNS = [*SERIES_KEY, *CONDITION_KEY, "date", "variant", "replicate", "score", *COUNTS]
SCHEMA = pl.Schema({name: BY_VARIANT[name] for name in _COLUMNS})


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each score: the series, what was asked, the score, and items by status.

    A control has no date, and a placebo copy has a replicate above 0. Every axis has its own
    column.
    """
    order = [*SERIES_KEY, *AXES, "date", "variant", "replicate"]
    return evidence.by_variant.select(_COLUMNS).sort(order, nulls_last=False)
