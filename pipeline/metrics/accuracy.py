"""Accuracy: the share of items whose answer is the target."""

from typing import ClassVar

import polars as pl

from pipeline import tasks
from pipeline.core.records import Item
from pipeline.metrics import Array, Metric, Segment
from pipeline.metrics._ratio import percent


class Accuracy(Metric):
    """Right or wrong by equality of text.

    A task's extraction has already brought answer and target to one form.
    """

    name: ClassVar[str] = "accuracy"
    title: ClassVar[str] = "accuracy"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = ("correct",)

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """1 where `answer` equals the target, else 0; no answer counts as 0."""
        if not answer.answer:
            return Segment(status="no_answer", stats=[0.0])
        return Segment(status="scored", stats=[float(answer.answer == item.target)])

    def combine(self, sums: Array, counts: Array) -> Array:
        """Percentage of right answers."""
        return percent(sums[..., 0], counts)

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """As `segment`, for whole columns at once."""
        given = pl.col("answer") != ""
        correct = given & (pl.col("answer") == pl.col("target"))
        status = pl.when(given).then(pl.lit("scored")).otherwise(pl.lit("no_answer"))
        stats = pl.concat_list(correct.cast(pl.Float64))
        return answers.select(status=status, stats=stats, detail=pl.lit("", pl.String))


METRIC = Accuracy()
