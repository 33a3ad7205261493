"""One benchmark run under one metric, as arrays over items and variants: what most analyses compute on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import frames, metrics, tasks
from pipeline.errors import StoreError
from pipeline.stats import Bools, Floats, Ints, paired_flips, scores_by_date

SERIES_KEY = [*frames.RUN_KEY, "metric"]
"""What makes one series of scores over the variants."""

AXES = ["date_format", "placement", "wording", "option_order", "location", "year"]
"""What may be varied beside the date, in the order in which tables are sorted; columns of every table."""
CONDITION_KEY = ["condition", *AXES]
"""A condition by its name, and by its value on each axis; dates are compared only within one."""

_STATUS_COUNTS = {f"num_{status}": status for status in ("scored", "no_answer", "failed", "timeout")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of every item under every variant and replicate. Arrays have a row for each item and a column for each of `columns`."""

    series: dict[str, str]
    """Values of `SERIES_KEY`."""
    item_ids: list[str]
    """(num_items,) sorted."""
    columns: pl.DataFrame
    """`variant`, `replicate`, `date` and `CONDITION_KEY`, sorted by the axes, date and replicate; the controls come first."""
    stats: Floats
    """(num_items, num_columns, num_stats) sufficient statistics; NaN where scoring failed or the item was not asked."""
    answers: Ints
    """(num_items, num_columns) index into `answer_texts`; -1 where scoring failed or the item was not asked."""
    answer_texts: list[str]
    """Distinct answers, sorted."""
    outputs: npt.NDArray[np.uint64]
    """(num_items, num_columns) hash of `output_id`, equal for outputs that are equal to the bit; 0 where the item was not asked."""
    status_counts: dict[str, Ints] = field(repr=False)
    """`num_scored` and so on: (num_columns,) items by status."""

    @property
    def metric(self) -> metrics.Metric:
        """The metric that judged."""
        return metrics.get(self.series["metric"])

    @property
    def is_headline(self) -> bool:
        """Whether the metric is its task's first."""
        return tasks.get(self.series["task"], self.series["style"]).metrics[0] == self.series["metric"]

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether the metric's only statistic says right (1) or wrong (0), as accuracy and pass@1 do, and BLEU and ECE do not."""
        return len(self.metric.stat_names) == 1

    @property
    def present(self) -> Bools:
        """(num_items, num_columns) where there is an outcome: the item was asked and its scoring did not fail."""
        return self.answers >= 0

    @property
    def codes(self) -> Ints:
        """(num_items, num_columns) equal for equal outcomes: right or wrong where the metric says so, else the answer itself."""
        return np.where(self.present, self.stats[:, :, 0], -1).astype(np.int64) if self.is_right_or_wrong else self.answers

    def conditions(self) -> list[dict[str, Any]]:
        """`CONDITION_KEY` of each condition that has dates, sorted by the axes."""
        return self._conditions(pl.col("date").is_not_null())

    def controls(self) -> list[dict[str, Any]]:
        """`CONDITION_KEY` of each condition without dates, sorted by the axes."""
        return self._conditions(pl.col("date").is_null())

    def dates(self, condition: str) -> Ints:
        """(num_dates,) columns of one condition's dates (replicate 0), by date; none for a condition without dates."""
        return self._columns_where((pl.col("condition") == condition) & pl.col("date").is_not_null() & (pl.col("replicate") == 0))

    def control(self, condition: str) -> Ints:
        """(0,) or (1,) column of the control of a condition: no date, and the same wording, option order and location."""
        mine = self.columns.filter(pl.col("condition") == condition).select("wording", "option_order", "location").head(1)
        same = [pl.col(name) == value for name, value in mine.row(0, named=True).items()]
        return self._columns_where(pl.all_horizontal(pl.col("date").is_null(), pl.col("replicate") == 0, *same))

    def placebos(self, condition: str) -> tuple[Ints, Ints]:
        """(num_copies,) columns of the placebo copies in one condition, and for each the column of the sweep that it repeats.

        Where a sweep has no dates, the copies are of controls.
        """
        here, columns = pl.col("condition") == condition, self.columns["variant"]
        sweep = {columns[int(c)]: int(c) for c in self._columns_where(here & (pl.col("replicate") == 0))}
        copies = self._columns_where(here & (pl.col("replicate") > 0))
        pairs = [(int(c), sweep[v]) for c in copies if (v := columns[int(c)]) in sweep]
        return np.array([c for c, _ in pairs], dtype=np.int64), np.array([s for _, s in pairs], dtype=np.int64)

    def placebo_flips(self, condition: str) -> tuple[int, int]:
        """Placebo copies in one condition whose outcome differs from the sweep's, and copies that can be compared."""
        copies, originals = self.placebos(condition)
        if not copies.size:
            return 0, 0
        both = self.present[:, copies] & self.present[:, originals]
        return paired_flips(self.codes[:, copies], self.codes[:, originals], both)

    def by_variant(self) -> pl.DataFrame:
        """The part of `Evidence.by_variant` for this series."""
        scores = scores_by_date(self.stats, self.metric.combine)
        counts = {name: pl.Series(values) for name, values in self.status_counts.items()}
        return self.columns.with_columns(
            *(pl.lit(value).alias(name) for name, value in self.series.items()),
            score=pl.Series(scores, dtype=pl.Float64).fill_nan(None),
            num_items=pl.sum_horizontal(*(pl.lit(c) for c in counts.values())),
            **counts,
        )

    def _conditions(self, chosen: pl.Expr) -> list[dict[str, Any]]:
        return self.columns.filter(chosen).select(CONDITION_KEY).unique(maintain_order=True).to_dicts()

    def _columns_where(self, chosen: pl.Expr) -> Ints:
        return self.columns.select(chosen.arg_true()).to_series().to_numpy().astype(np.int64)


def outcomes(rows: pl.LazyFrame, series: Mapping[str, Any]) -> Outcomes:
    """The outcomes of one series, from `Evidence.rows`.

    Raises:
        StoreError: one item was asked twice under one variant and replicate.
    """
    mine = rows.filter(*(pl.col(name) == value for name, value in series.items()))
    frame = mine.select("item_id", "variant", "replicate", "date", *CONDITION_KEY, "output_id", "answer", "status", "stats").collect()
    item_ids = frame["item_id"].unique().sort()
    columns = _columns(frame)
    item = frame["item_id"].cast(pl.Enum(item_ids)).to_physical().to_numpy()
    column = frame.join(columns.with_row_index(), on=["variant", "replicate"], how="left", maintain_order="left")["index"].to_numpy()
    shape = (item_ids.len(), columns.height)
    _check_unique(frame, item.astype(np.int64) * shape[1] + column, series)
    texts, answers = _answer_codes(frame)
    return Outcomes(
        series={name: str(series[name]) for name in SERIES_KEY},
        item_ids=item_ids.to_list(),
        columns=columns,
        stats=_placed(_stats_array(frame, len(metrics.get(series["metric"]).stat_names)), item, column, shape, np.nan),
        answers=_placed(answers, item, column, shape, -1),
        answer_texts=texts,
        outputs=_placed(frame["output_id"].hash(seed=0).to_numpy(), item, column, shape, 0),
        status_counts={name: _count(frame, column, status, shape[1]) for name, status in _STATUS_COUNTS.items()},
    )


def _columns(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for each variant and replicate, the controls first, then by the axes and date."""
    distinct = frame.select("variant", "replicate", "date", *CONDITION_KEY).unique()
    return distinct.sort(pl.col("date").is_not_null(), *AXES, "date", "variant", "replicate", nulls_last=False)


def _check_unique(frame: pl.DataFrame, cells: Ints, series: Mapping[str, Any]) -> None:
    """Raise where two rows claim one cell of the arrays."""
    order = np.argsort(cells, kind="stable")
    twice = order[1:][np.diff(cells[order]) == 0]
    if twice.size:
        row = frame.row(int(twice[0]), named=True)
        where = ", ".join(f"{name} {value}" for name, value in series.items())
        raise StoreError(
            f"{twice.size} completion(s) are stored twice ({where}), the first: item {row['item_id']}, variant {row['variant']}, "
            f"replicate {row['replicate']}. Delete the duplicate shard and run the stage again."
        )


def _stats_array(frame: pl.DataFrame, num_stats: int) -> Floats:
    """(num_rows, num_stats) statistics, NaN for rows that have none."""
    failed = pl.col("stats").is_null() | (pl.col("status") == "failed")
    gaps = pl.lit([float("nan")] * num_stats, dtype=pl.List(pl.Float64))
    filled = frame.select(pl.when(failed).then(gaps).otherwise(pl.col("stats"))).to_series()
    return filled.explode().to_numpy().reshape(frame.height, num_stats)


def _answer_codes(frame: pl.DataFrame) -> tuple[list[str], Ints]:
    """Distinct answers, sorted, and for each row the index of its own; -1 for rows whose scoring failed."""
    answer = frame["answer"].fill_null("")
    texts = answer.unique().sort()
    codes = answer.cast(pl.Enum(texts)).to_physical().to_numpy().astype(np.int64)
    failed = frame.select(pl.col("stats").is_null() | (pl.col("status") == "failed")).to_series().to_numpy()
    return texts.to_list(), np.where(failed, -1, codes)


def _placed(values: npt.NDArray[Any], item: Ints, column: Ints, shape: tuple[int, int], missing: float) -> npt.NDArray[Any]:
    """`values` (num_rows, ...) at their item and column of an array (num_items, num_columns, ...)."""
    array = np.full((*shape, *values.shape[1:]), missing, dtype=values.dtype)
    array[item, column] = values
    return array


def _count(frame: pl.DataFrame, column: Ints, status: str, num_columns: int) -> Ints:
    """(num_columns,) rows of one status in each column."""
    return np.bincount(column[(frame["status"] == status).to_numpy()], minlength=num_columns)
