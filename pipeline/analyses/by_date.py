"""Scores by date and condition, with the controls and the placebo copies: the data behind the
charts.
"""

import polars as pl

from pipeline.analyses import AXES, CONDITION_KEY, COUNTS, SERIES_KEY, Evidence

TITLE = "Scores by date"
QUESTION = "What does each model score on each date, and under each condition?"


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each score: the series, what was asked, the score, and items by status.

    A control has no date, and a placebo copy has a replicate above 0. Every axis has its own
    column.
    """
    columns = [*SERIES_KEY, *CONDITION_KEY, "date", "variant", "replicate", "score", *COUNTS]
    order = [*SERIES_KEY, *AXES, "date", "variant", "replicate"]
    return evidence.by_variant.select(columns).sort(order, nulls_last=False)
