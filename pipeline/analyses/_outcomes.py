"""One benchmark run under one metric, as arrays over items and variants: what most analyses compute
on.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from pipeline import metrics
from pipeline.analyses._stats import Bools, Cells, Floats, Ints, paired_flips
from pipeline.core import tables
from pipeline.core.records import STATUSES

SERIES_KEY = [*tables.RUN_KEY, "metric"]
"""What makes one series of scores over the variants."""

AXES = ["date_format", "placement", "wording", "option_order", "location", "year"]
"""What may be varied beside the date, in the order in which tables are sorted; columns of every
table."""
CONDITION_KEY = ["condition", *AXES]
"""A condition by its name, and by its value on each axis; dates are compared only within one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of every item under every variant and replicate.

    Arrays have a row for each item and a column for each of `columns`. An item gives the same
    outputs again and again, so what an output is worth is stored once for each distinct one.
    """

    series: dict[str, str]
    """Values of `SERIES_KEY`."""
    item_ids: list[str]
    """(num_items,) sorted."""
    columns: pl.DataFrame
    """`variant`, `replicate`, `date` and `CONDITION_KEY`, sorted by the axes, date and replicate;
    the controls come first."""
    outputs: Ints
    """(num_items, num_columns) number of the output, equal for outputs of an item that are equal to
    the bit; -1 where it was not asked."""
    output_answers: Ints
    """(num_outputs + 1,) index into `answer_texts`; -1 where scoring failed, and at the end, for -1
    in `outputs`."""
    answer_texts: pl.Series
    """Distinct answers, sorted."""
    values: Floats
    """(num_outputs, width) as in `stats.Cells`."""
    places: Ints
    """(num_outputs, width) as in `stats.Cells`."""
    scores: Floats
    """(num_columns,) the metric's score, 0 to 100; NaN where nothing was scored."""
    status_counts: Ints = field(repr=False)
    """(num_columns, 4) items by status, in the order of `STATUSES`."""
    is_headline: bool
    """Whether the metric is the first of its task's own among those that were scored."""

    @property
    def metric(self) -> metrics.Metric:
        """The metric that judged."""
        return metrics.get(self.series["metric"])

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether the metric's only statistic says right (1) or wrong (0), as accuracy and pass@1
        do, and BLEU and ECE do not.
        """
        return len(self.metric.stat_names) == 1 and self.metric.reads in ("answer", "program")

    @property
    def stats(self) -> Cells:
        """Sufficient statistics; none where scoring failed or the item was not asked."""
        index = self.outputs if self._all_scored else np.where(self.present, self.outputs, -1)
        return Cells(
            index=index,
            values=self.values,
            places=self.places,
            num_stats=len(self.metric.stat_names),
        )

    @property
    def answers(self) -> Ints:
        """(num_items, num_columns) index into `answer_texts`.

        -1 where scoring failed or the item was not asked.
        """
        return self.output_answers[self.outputs]

    @property
    def present(self) -> Bools:
        """(num_items, num_columns) where there is an outcome: the item was asked and its scoring
        did not fail.
        """
        return self.outputs >= 0 if self._all_scored else self.answers >= 0

    @property
    def codes(self) -> Ints:
        """(num_items, num_columns) equal for equal outcomes: right or wrong where the metric says
        so, else the answer; -1 if none.
        """
        if not self.is_right_or_wrong:
            return self.answers
        right = np.append(self.values[:, 0], 0).astype(np.int8)
        return np.where(self.output_answers < 0, np.int8(-1), right)[self.outputs]

    @property
    def _all_scored(self) -> bool:
        return bool((self.output_answers[:-1] >= 0).all())

    def conditions(self) -> list[dict[str, Any]]:
        """`CONDITION_KEY` of each condition that has dates, sorted by the axes."""
        return self._conditions(pl.col("date").is_not_null())

    def controls(self) -> list[dict[str, Any]]:
        """`CONDITION_KEY` of each condition without dates, sorted by the axes."""
        return self._conditions(pl.col("date").is_null())

    def dates(self, condition: str) -> Ints:
        """(num_dates,) columns of one condition's dates (replicate 0), by date.

        None for a condition without dates.
        """
        return self._columns_where(
            (pl.col("condition") == condition)
            & pl.col("date").is_not_null()
            & (pl.col("replicate") == 0)
        )

    def control(self, condition: str) -> Ints:
        """(0,) or (1,) column of the control of a condition: no date, and the same wording, option
        order and location.
        """
        mine = (
            self.columns.filter(pl.col("condition") == condition)
            .select("wording", "option_order", "location")
            .head(1)
        )
        same = [pl.col(name) == value for name, value in mine.row(0, named=True).items()]
        return self._columns_where(
            pl.all_horizontal(pl.col("date").is_null(), pl.col("replicate") == 0, *same)
        )

    def placebos(self, condition: str) -> tuple[Ints, Ints]:
        """(num_copies,) columns of the placebo copies in one condition, and for each the column of
        the sweep that it repeats.

        Where a sweep has no dates, the copies are of controls.
        """
        here, columns = pl.col("condition") == condition, self.columns["variant"]
        sweep = {
            columns[int(c)]: int(c) for c in self._columns_where(here & (pl.col("replicate") == 0))
        }
        copies = self._columns_where(here & (pl.col("replicate") > 0))
        pairs = [(int(c), sweep[v]) for c in copies if (v := columns[int(c)]) in sweep]
        return np.array([c for c, _ in pairs], dtype=np.int64), np.array(
            [s for _, s in pairs], dtype=np.int64
        )

    def placebo_flips(self, condition: str) -> tuple[int, int]:
        """Placebo copies in one condition whose outcome differs from the sweep's, and copies that
        can be compared.
        """
        copies, originals = self.placebos(condition)
        if not copies.size:
            return 0, 0
        both = self.present[:, copies] & self.present[:, originals]
        return paired_flips(self.codes[:, copies], self.codes[:, originals], both)

    def by_variant(self) -> pl.DataFrame:
        """The part of `Evidence.by_variant` for this series."""
        return self.columns.with_columns(
            *(pl.lit(value).alias(name) for name, value in self.series.items()),
            score=pl.Series(self.scores, dtype=pl.Float64).fill_nan(None),
            num_items=pl.Series(self.status_counts.sum(axis=1)),
            **{
                f"num_{status}": pl.Series(self.status_counts[:, i])
                for i, status in enumerate(STATUSES)
            },
        )

    def _conditions(self, chosen: pl.Expr) -> list[dict[str, Any]]:
        return (
            self.columns.filter(chosen).select(CONDITION_KEY).unique(maintain_order=True).to_dicts()
        )

    def _columns_where(self, chosen: pl.Expr) -> Ints:
        return self.columns.select(chosen.arg_true()).to_series().to_numpy().astype(np.int64)
