"""Expected calibration error: how far a model's probability for its own answer is from its share of right answers.

As in the paper, with M = 10 bins of equal width: ECE = sum over bins m of |B_m| / N * |acc(B_m) - conf(B_m)|, an estimator of Naeini et
al. 2015 (https://ojs.aaai.org/index.php/AAAI/article/view/9602).
The confidence is the probability of the chosen label over the whole vocabulary, not shared out among the labels again.
"""

from typing import ClassVar

import numpy as np
import polars as pl

from pipeline import tasks
from pipeline.errors import ConfigError, DataError
from pipeline.metrics import SEGMENT_SCHEMA, Array, Metric, Segment
from pipeline.metrics._ratio import percent
from pipeline.records import Item

NUM_BINS = 10
_RIGHT_EDGES = np.arange(1, NUM_BINS + 1) / NUM_BINS
"""Bins are closed on the right: 0.7 lies in (0.6, 0.7], and 1 in the last bin. Division gives the doubles nearest to the decimals."""


class Ece(Metric):
    """Calibration error of label tasks, in points of 100; 0 is perfect."""

    name: ClassVar[str] = "ece"
    title: ClassVar[str] = "ECE"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = tuple(
        f"{part}_{m}" for part in ("count", "confidence", "correct") for m in range(1, NUM_BINS + 1)
    )
    higher_is_better: ClassVar[bool] = False

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """Nothing: an answer alone has no confidence.

        Raises:
            NotImplementedError: always; `segments` has the log-probabilities.
        """
        raise NotImplementedError("ece reads log-probabilities of labels, which an answer does not carry; call `segments` with a frame")

    def combine(self, sums: Array, counts: Array) -> Array:
        """ECE times 100. |B_m|/N * |acc - conf| is |correct - confidence| / N in sums, so that empty bins add nothing."""
        _, confidence, correct = np.split(sums, 3, axis=-1)
        return percent(np.abs(correct - confidence).sum(axis=-1), counts)

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """One bin's count, confidence and outcome for each row.

        Raises:
            ConfigError: the task has no labels.
            DataError: a log-probability is NaN, or all of a row are missing or minus infinity.
        """
        confidence = _confidence(answers)
        correct = (answers["answer"] == answers["target"]).to_numpy().astype(np.float64)
        status = answers.select(pl.when(pl.col("answer") != "").then(pl.lit("scored")).otherwise(pl.lit("no_answer"))).to_series()
        columns = {"status": status, "stats": _binned(confidence, correct), "detail": [""] * len(answers)}
        return pl.DataFrame(columns, schema=SEGMENT_SCHEMA)


def _confidence(answers: pl.DataFrame) -> Array:
    """(num_rows,) probability of the chosen label, the most probable one; at most 1, which rounding of a logarithm may pass."""
    logprobs = pl.col("label_logprobs")
    empty = answers.filter(logprobs.list.len() == 0)
    if len(empty):
        raise ConfigError(
            f"metric 'ece' needs label log-probabilities; task {empty['task'][0]!r} writes text. Only tasks of kind 'label' may name it"
        )
    highest = pl.when(logprobs.list.eval(pl.element().is_nan()).list.any()).then(None).otherwise(logprobs.list.max())
    highest = pl.when(highest.is_finite()).then(highest)
    found = answers.select(highest=highest).to_series()
    if found.has_nulls():
        row = answers.filter(found.is_null()).row(0, named=True)
        raise DataError(f"{row['task']} item {row['item_id']}: label log-probabilities must be numbers, got {row['label_logprobs']}")
    confidence: Array = np.minimum(np.exp(found.to_numpy()), 1.0)
    return confidence


def _binned(confidence: Array, correct: Array) -> pl.Series:
    """List column, per row (3 * NUM_BINS,): count, confidence and outcome at the row's bin, 0 elsewhere."""
    rows, bins = np.arange(len(confidence)), np.searchsorted(_RIGHT_EDGES, confidence, side="left")
    stats = np.zeros((len(confidence), 3, NUM_BINS))
    for part, values in enumerate((np.ones_like(confidence), confidence, correct)):
        stats[rows, part, bins] = values
    return pl.Series(stats.reshape(-1, 3 * NUM_BINS), dtype=pl.Array(pl.Float64, 3 * NUM_BINS)).cast(pl.List(pl.Float64))


METRIC = Ece()
