"""Scores as arrays: for each benchmark run and metric, a row for each distinct output of an item.

They may be far larger than memory: they are read in a stream, and of the statistics only what is
not 0 stays, and of the texts only the answers.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import metrics
from pipeline.analyses._grid import BENCHMARK_KEY, OUTPUT, OutputIds, item_number
from pipeline.analyses._stats import Floats, Ints, nonzero
from pipeline.core.records import STATUSES

_BATCH_ROWS = 2**17
"""Scores read at once; those of ECE have 30 numbers each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of one series, sorted by item and output; arrays are (num_outputs,) or start so."""

    item: Ints
    """Row of the item, as in `Outcomes`."""
    output: OutputIds
    status: Ints
    """Index into `STATUSES`."""
    answer: pl.Series
    values: Floats
    """(num_outputs, width) as in `stats.Cells`."""
    stat_numbers: Ints
    """(num_outputs, width) as in `stats.Cells`."""


@dataclass(slots=True)
class ScoreBatches:
    """Scores of one series, as they are read."""

    metric: str
    frames: list[pl.DataFrame] = field(default_factory=list)
    """`item`, `output`, `status` and `answer` of each batch."""
    stats: list[tuple[Floats, Ints]] = field(default_factory=list)
    """`values` and `stat_numbers` of each batch."""

    def add(self, batch: pl.DataFrame) -> None:
        """Take some more; those without statistics count as failed."""
        is_failed = batch["stats"].is_null() | (batch["status"] == "failed")
        if is_failed.any():  # lists are slow to copy
            zeros = [0.0] * len(metrics.get(self.metric).stat_names)
            failed = pl.when(is_failed)
            batch = batch.with_columns(
                stats=failed.then(pl.lit(zeros, pl.List(pl.Float64))).otherwise("stats"),
                status=failed.then(pl.lit("failed", batch.schema["status"])).otherwise("status"),
            )
        self.stats.append(nonzero(batch["stats"].explode().to_numpy().reshape(batch.height, -1)))
        status, answer = pl.col("status").to_physical(), pl.col("answer").fill_null("")
        self.frames.append(batch.select("item", "output", status, answer))

    def scores(self, item_rows: Ints) -> Scores:
        """All of them that are of an item with a row in `Grid.item_rows`, sorted."""
        width = max(values.shape[1] for values, _ in self.stats)
        values = np.concatenate([_widened(values, width) for values, _ in self.stats])
        stat_numbers = np.concatenate(
            [_widened(stat_numbers, width) for _, stat_numbers in self.stats]
        )
        frame = pl.concat(self.frames)
        item, output = item_rows[frame["item"].to_numpy()], frame["output"].to_numpy()
        if not _is_sorted(item, output):
            order = np.lexsort((output, item))
            order = order[item[order] >= 0]
            frame, item, output = frame[order], item[order], output[order]
            values, stat_numbers = values[order], stat_numbers[order]
        return Scores(
            item=item,
            output=output,
            status=frame["status"].to_numpy(),
            answer=frame["answer"],
            values=values,
            stat_numbers=stat_numbers,
        )


def read_scores(
    scores: pl.LazyFrame, items: pl.DataFrame
) -> dict[tuple[str, ...], dict[str, ScoreBatches]]:
    """Scores of a model by `BENCHMARK_KEY` and metric; those of unknown items are left out."""
    key = [*BENCHMARK_KEY, "metric"]
    names = [pl.col(name).cast(pl.Categorical) for name in key]
    status = pl.col("status").cast(pl.Enum(STATUSES))
    rows = scores.select(*names, item_number(items), OUTPUT, status, "answer", "stats")
    known = rows.drop_nulls("item")
    batches: dict[tuple[str, ...], dict[str, ScoreBatches]] = {}
    for batch in known.collect_batches(chunk_size=_BATCH_ROWS, engine="streaming"):
        series = batch.select(key).unique().rows()
        for *benchmark, metric in series:
            of_benchmark = batches.setdefault(tuple(benchmark), {})
            values = dict(zip(key, (*benchmark, metric), strict=True))
            # Most batches are of one series, and lists are slow to copy.
            part = batch if len(series) == 1 else batch.filter(**values)
            of_benchmark.setdefault(metric, ScoreBatches(metric)).add(part)
    return batches


def _widened(array: npt.NDArray[np.generic], width: int) -> npt.NDArray[np.generic]:
    missing = width - array.shape[1]
    return np.pad(array, ((0, 0), (0, missing))) if missing else array


def _is_sorted(item: Ints, output: OutputIds) -> bool:
    """Whether scores are sorted by item and output, none of an item that was not asked."""
    same_item = item[1:] == item[:-1]
    in_order = (item[1:] > item[:-1]) | (same_item & (output[1:] >= output[:-1]))
    return bool((item[:1] >= 0).all() and in_order.all())
