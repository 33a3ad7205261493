"""One benchmark run under one metric, as arrays over items and variants: a series.

It is what most analyses compute on.
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
SERIES = pl.Schema(dict.fromkeys(SERIES_KEY, pl.String()))

AXES = ["date_format", "placement", "wording", "option_order", "location", "year"]
"""What may be varied beside the date, in the order in which tables are sorted; columns of every
table."""
CONDITION_KEY = ["condition", *AXES]
"""A condition by its name, and by its value on each axis; dates are compared only within one."""
CONDITION = pl.Schema(
    {
        name: pl.Int64() if name in ("option_order", "year") else pl.String()
        for name in CONDITION_KEY
    }
)


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
    stat_numbers: Ints
    """(num_outputs, width) as in `stats.Cells`."""
    scores: Floats
    """(num_columns,) the metric's score, 0 to 100; NaN where nothing was scored."""
    status_counts: Ints = field(repr=False)
    """(num_columns, 4) items by status, in the order of `STATUSES`."""
    is_headline: bool
    """Whether the metric is the first of its task's own among those that were scored."""

    @property
    def metric(self) -> metrics.Metric:
        """The metric of the scores."""
        return metrics.get(self.series["metric"])

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether the metric's only statistic says right (1) or wrong (0).

        Accuracy and pass@1 do; BLEU and ECE do not.
        """
        return len(self.metric.stat_names) == 1 and self.metric.reads in ("answer", "program")

    @property
    def stats(self) -> Cells:
        """Sufficient statistics; none where scoring failed or the item was not asked."""
        return Cells(
            index=self.outputs if self._all_scored else np.where(self.present, self.outputs, -1),
            values=self.values,
            stat_numbers=self.stat_numbers,
            num_stats=len(self.metric.stat_names),
        )

    @property
    def answers(self) -> Ints:
        """(num_items, num_columns) index into `answer_texts`; -1 where there is no outcome."""
        return self.output_answers[self.outputs]

    @property
    def present(self) -> Bools:
        """(num_items, num_columns) whether the item was asked and its scoring did not fail."""
        return self.outputs >= 0 if self._all_scored else self.answers >= 0

    @property
    def codes(self) -> Ints:
        """(num_items, num_columns) equal for equal outcomes; -1 where there is none.

        An outcome is right or wrong where the metric says so, else the answer.
        """
        if not self.is_right_or_wrong:
            return self.answers
        right = np.append(self.values[:, 0], 0).astype(np.int8)
        return np.where(self.output_answers < 0, np.int8(-1), right)[self.outputs]

    @property
    def _all_scored(self) -> bool:
        return bool((self.output_answers[:-1] >= 0).all())

    def conditions(self) -> list[str]:
        """Each condition that has dates, sorted by the axes."""
        return self._conditions(pl.col("date").is_not_null())

    def controls(self) -> list[str]:
        """Each condition without dates, sorted by the axes."""
        return self._conditions(pl.col("date").is_null())

    def key(self, condition: str) -> dict[str, Any]:
        """`SERIES_KEY` and `CONDITION_KEY`: how a row of a table about a condition begins."""
        rows = self.columns.filter(condition=condition).select(CONDITION_KEY)
        return self.series | rows.row(0, named=True)

    def dates(self, condition: str) -> Ints:
        """(num_dates,) columns of a condition's dates by date, without copies; may be empty."""
        return self._asked(pl.col("condition") == condition, pl.col("date").is_not_null())

    def control(self, condition: str) -> Ints:
        """(0,) or (1,) column of the control of a condition.

        It has no date, and the same wording, option order and location.
        """
        key = self.key(condition)
        shared = [pl.col(name) == key[name] for name in ("wording", "option_order", "location")]
        return self._asked(pl.col("date").is_null(), *shared)

    def placebos(self, condition: str) -> tuple[Ints, Ints]:
        """(num_copies,) columns of a condition's placebo copies, and of what each repeats.

        Where a sweep has no dates, the copies are of controls.
        """
        asked = self.columns.with_row_index("column").filter(condition=condition)
        originals = asked.filter(replicate=0).select("variant", original="column")
        pairs = asked.filter(pl.col("replicate") > 0).join(
            originals, on="variant", maintain_order="left"
        )
        copies, repeated = (
            pairs[name].to_numpy().astype(np.int64) for name in ("column", "original")
        )
        return copies, repeated

    def placebo_flips(self, *conditions: str) -> tuple[int, int]:
        """How many placebo copies differ from what they repeat, and how many can be compared."""
        pairs = [self.placebos(condition) for condition in conditions]
        copies, originals = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        if not copies.size:
            return 0, 0
        codes, present = self.codes, self.present
        both = present[:, copies] & present[:, originals]
        return paired_flips(codes[:, copies], codes[:, originals], both)

    def by_variant(self) -> pl.DataFrame:
        """The part of `Evidence.by_variant` for this series."""
        by_status = zip(STATUSES, self.status_counts.T, strict=True)
        return self.columns.with_columns(
            *(pl.lit(value).alias(name) for name, value in self.series.items()),
            score=pl.Series(self.scores, dtype=pl.Float64).fill_nan(None),
            num_items=pl.Series(self.status_counts.sum(axis=1)),
            **{f"num_{status}": pl.Series(counts) for status, counts in by_status},
        )

    def _conditions(self, is_chosen: pl.Expr) -> list[str]:
        return self.columns.filter(is_chosen)["condition"].unique(maintain_order=True).to_list()

    def _asked(self, *is_chosen: pl.Expr) -> Ints:
        """Columns that are no copies."""
        rows = self.columns.with_row_index("column").filter(*is_chosen, replicate=0)
        return rows["column"].to_numpy().astype(np.int64)
