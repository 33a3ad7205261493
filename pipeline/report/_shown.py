"""Which rows of a run's tables the report and the terminal show."""

from collections.abc import Mapping

import polars as pl

from pipeline.analyses import AXES, COUNTS, SERIES_KEY

MAX_FLIPS_SHOWN = 40
"""Rows of the flip table on the page; the CSV has all."""

Tables = Mapping[str, pl.DataFrame]
"""The tables of all analyses by name."""


def is_undated(tables: Tables) -> bool:
    """Whether something was asked, and nothing under a date."""
    dates = tables["by_date"]["date"]
    return dates.len() > 0 and dates.null_count() == dates.len()


def beside_the_date(tables: Tables) -> pl.DataFrame:
    """The table `conditions`, or no rows where only the date was varied."""
    rows = tables["conditions"]
    return rows if (rows["axis"] != "date").any() else rows.clear()


def unread(tables: Tables) -> pl.DataFrame:
    """Number of answers by status, for each series in which some answer was not scored as usual."""
    counts = tables["by_date"].group_by(SERIES_KEY).agg(pl.col(COUNTS).sum()).sort(SERIES_KEY)
    return counts.filter(pl.col("num_scored") < pl.col("num_items"))


def dated_rates(tables: Tables) -> pl.DataFrame:
    """The flip rates of conditions with dates; a control's noise floor stands beside its score."""
    return tables["flip_rates"].filter(pl.col("num_dates") > 0)


def flips(tables: Tables) -> pl.DataFrame:
    """Up to `MAX_FLIPS_SHOWN` rows, as many from each run, those nearest to half right first."""
    key, rows = [*SERIES_KEY, *AXES], tables["flips"]
    per_run = max(1, MAX_FLIPS_SHOWN // max(1, rows.select(key).n_unique()))
    undecided = (pl.col("right_percent") - 50).abs()
    in_order = rows.sort(*key, undecided, "item_id", nulls_last=True)
    return in_order.group_by(key, maintain_order=True).head(per_run).head(MAX_FLIPS_SHOWN)
