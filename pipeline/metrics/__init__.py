"""A metric turns answers into sufficient statistics, and sums of those into a score.

In: a frame of answers. Out: a status and statistics for each, and a score of their sums. To add
one, write `pipeline/metrics/<name>.py` with one `Metric` subclass and `METRIC = ThatClass()`, and
name it in a task's `metrics`. Because a score is a function of summed statistics, a score per date
is a group-by sum, and every resampling the same sum again. Scores are on a scale from 0 to 100, but
for two that keep the unit by which they are known: `brier` (0 to 200) and `log_loss` (nats).
"""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import tasks
from pipeline.core import registry
from pipeline.core.records import Item, Status
from pipeline.sandbox.run import Sandbox

Array = npt.NDArray[np.float64]

Reads = Literal["answer", "logprobs", "references", "program"]
"""What a metric reads: the answer beside the item's target, the labels' log-probabilities,
references, or a program that is run."""

SEGMENT_SCHEMA = pl.Schema(
    {"status": pl.String(), "stats": pl.List(pl.Float64()), "detail": pl.String()}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What one answer contributes to a score."""

    status: Status
    stats: list[float] | None
    """(num_stats,) in the order of `Metric.stat_names`; None where status is `failed`."""
    detail: str = ""
    """Why a program failed, or the cause of `failed`."""


class Metric(abc.ABC):
    """One way to score answers: a mean of one statistic, unless it has others and its `combine`.

    A subclass has `segments` for whole columns, or `segment` for one answer after the other.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """As a report heads a column, e.g. `pass@1`."""
    version: ClassVar[int] = 1
    """Raised whenever a score could change; stored scores of another version are made anew."""
    stat_names: ClassVar[tuple[str, ...]] = ("value",)
    """Names of the sufficient statistics."""
    reads: ClassVar[Reads] = "answer"
    """A metric fits the tasks that already have one that reads the same."""
    scale: ClassVar[str] = "0–100"
    """Range or unit of the score, for the axis of a chart."""
    factor: ClassVar[float] = 100.0
    """Score of a mean of 1."""
    higher_is_better: ClassVar[bool] = True
    """Which end of its scale tables call best.

    Metrics that describe and do not judge (`confidence`, `label_mass`, ...) say so in their
    docstring; their best is only what they are for an output that is certain of the right label.
    """

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """What `answer` to `item` contributes."""
        raise NotImplementedError(f"{self.name} scores whole columns; call `segments`")

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """Columns of `SEGMENT_SCHEMA` for `answers`, row by row in the same order.

        `answers` has an item's columns, `answer`, `rule`, `text`, `label_logprobs` and
        `option_order`; where the last is missing, options were shown as published.
        """
        pairs = zip(tasks.items_of(answers), answers["answer"], answers["rule"], strict=True)
        rows = [self.segment(item, tasks.Answer(answer=a, rule=r)) for item, a, r in pairs]
        columns = {name: [getattr(row, name) for row in rows] for name in SEGMENT_SCHEMA}
        return pl.DataFrame(columns, schema=SEGMENT_SCHEMA)

    def combine(self, sums: Array, counts: Array) -> Array:
        """Scores, shape (...); NaN where a count is 0.

        Args:
            sums: (..., num_stats) statistics summed over segments.
            counts: (...) how many segments were summed.
        """
        return ratio(self.factor * sums[..., 0], counts)

    def signature(self) -> str:
        """Settings and versions that decide the score, to store beside it."""
        return f"{self.name}|version:{self.version}"

    def signature_for(self, items: pl.DataFrame) -> str:
        """The signature where these `items` (an item's columns) are asked; few depend on them."""
        return self.signature()

    def within(self, sandbox: Sandbox) -> "Metric":
        """The same metric, which runs programs, if it runs any, in `sandbox`."""
        return self


def ratio(sums: Array, counts: Array) -> Array:
    """`sums / counts`, elementwise; NaN where a count is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def scored(answers: pl.DataFrame, stats: Array) -> pl.DataFrame:
    """A frame of `SEGMENT_SCHEMA` for statistics (num_rows, num_stats) of `answers`.

    They are `scored` unless they are empty.
    """
    status = pl.when(pl.col("answer") == "").then(pl.lit("no_answer")).otherwise(pl.lit("scored"))
    column = pl.Series(stats, dtype=pl.Array(pl.Float64, stats.shape[1])).cast(pl.List(pl.Float64))
    return answers.select(status=status, stats=column, detail=pl.lit("", pl.String))


def get(name: str) -> Metric:
    """The metric `name`.

    Raises:
        ConfigError: there is no such metric.
    """
    return cast(Metric, registry.module("metrics", name).METRIC)
