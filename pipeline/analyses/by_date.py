"""Scores by date, with the control and the placebo copies: the data behind the charts."""

import polars as pl

from pipeline.analyses import COUNTS, SERIES_KEY, Evidence

TITLE = "Scores by date"
QUESTION = "What does each model score on each date?"


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each score: the series, what was asked, the score, and items by status.

    The control has no date, and a placebo copy has a replicate above 0.
    """
    columns = [*SERIES_KEY, "date_format", "date", "variant", "replicate", "score", *COUNTS]
    order = [*SERIES_KEY, "date_format", "date", "variant", "replicate"]
    return evidence.by_variant.select(columns).sort(order, nulls_last=False)
