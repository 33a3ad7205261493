"""What log-probabilities of labels say, for whole columns at once: confidence, label mass, margin,
ties, and distance from the truth.

Two distributions are in use. *Raw* is the engine's own, over the whole vocabulary: labels share
what other tokens leave them, the label mass. *Renormalised* is raw divided by the label mass, the
choice between the options alone. Each metric says which one it takes.

All functions take the matrix that `logprobs_of` makes: (num_rows, most labels) raw natural-log
probabilities in the order shown, -inf where a row has fewer labels. Sums start from the largest
entry, so that labels of tiny probability keep their ratios.
"""

import abc
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import tasks
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.records import Item
from pipeline.metrics import Array, Metric, Reads, Segment, judged
from pipeline.metrics._ratio import percent

_ROUNDING = 1e-3
"""How far above 0 a log-probability may lie; an engine's single precision is a thousand times
closer, and logits are no probabilities."""


class LabelMetric(Metric):
    """A metric of what the model's log-probabilities of the labels say.

    For tasks of kind `label`.
    """

    reads: ClassVar[Reads] = "logprobs"
    probabilities: ClassVar[Literal["raw", "renormalised"]]
    """The distribution that the metric takes."""

    @abc.abstractmethod
    def stats(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows, num_stats) statistics for the rows of `answers`, whose labels have the
        log-probabilities `logprobs`.
        """

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """Nothing: an answer alone has no probability.

        Raises:
            NotImplementedError: always; `segments` has the log-probabilities.
        """
        raise NotImplementedError(
            f"{self.name} reads log-probabilities of labels, which an answer does not "
            "carry; call `segments` with a frame"
        )

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """Statistics of every row.

        Raises:
            ConfigError: the task has no labels. DataError: a log-probability is missing, NaN or
                above 0, or all of a row are minus infinity.
        """
        return judged(answers, self.stats(logprobs_of(answers, self.name), answers))

    def signature(self) -> str:
        """Name, distribution and version."""
        return f"{self.name}|probabilities:{self.probabilities}|version:{self.version}"


class LabelMean(LabelMetric):
    """A `LabelMetric` that is a mean over the rows.

    Its one statistic is called as the metric is.
    """

    @abc.abstractmethod
    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) what each row contributes to the mean."""

    def stats(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows, 1) the values."""
        return self.values(logprobs, answers)[:, None]

    def combine(self, sums: Array, counts: Array) -> Array:
        """100 times the mean."""
        return percent(sums[..., 0], counts)


def logprobs_of(answers: pl.DataFrame, metric: str) -> Array:
    """The matrix of log-probabilities of the rows of `answers`.

    Raises:
        ConfigError: the task has no labels.
        DataError: a log-probability is missing, NaN or above 0, or all of a row are minus infinity.
    """
    lists = answers["label_logprobs"]
    lengths = lists.list.len().fill_null(0).to_numpy()
    if (lengths == 0).any():
        raise ConfigError(
            f"metric {metric!r} needs label log-probabilities; task "
            f"{answers['task'][int(lengths.argmin())]!r} writes text. "
            "Only tasks of kind 'label' may name it"
        )
    matrix = np.full((len(lengths), lengths.max(initial=1)), -np.inf)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = lists.explode().to_numpy()
    highest = matrix.max(axis=1)  # NaN where the row has one
    if (bad := ~(np.isfinite(highest) & (highest <= _ROUNDING))).any():
        row = answers.row(int(bad.argmax()), named=True)
        raise DataError(
            f"{row['task']} item {row['item_id']}: label log-probabilities must be numbers "
            "of at most 0, one of them finite, got "
            f"{row['label_logprobs']}"
        )
    return matrix


def confidence(logprobs: Array) -> Array:
    """(num_rows,) raw probability of the most probable label.

    At most 1, which rounding of a logarithm may pass.
    """
    probability: Array = np.exp(logprobs.max(axis=1))
    return np.minimum(probability, 1.0)


def label_mass(logprobs: Array) -> Array:
    """(num_rows,) sum of the raw probabilities of all labels; at most 1."""
    mass: Array = np.exp(logprobs).sum(axis=1)
    return np.minimum(mass, 1.0)


def margin(logprobs: Array) -> Array:
    """(num_rows,) raw probability of the most probable label less that of the next.

    0 for a tie, the confidence for a single label.
    """
    top = np.sort(np.pad(logprobs, ((0, 0), (1, 0)), constant_values=-np.inf), axis=1)[:, -2:]
    best: Array = np.minimum(np.exp(top), 1.0)
    return best[:, 1] - best[:, 0]


def is_tied(logprobs: Array) -> npt.NDArray[np.bool_]:
    """(num_rows,) whether more than one label has the highest log-probability, to the bit."""
    tied: npt.NDArray[np.bool_] = (logprobs == logprobs.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return tied


def renormalised(logprobs: Array) -> Array:
    """(num_rows, most labels) log-probabilities of the labels among themselves: their probabilities
    add up to 1.
    """
    shifted: Array = logprobs - logprobs.max(axis=1, keepdims=True)
    log_mass: Array = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted - log_mass


def target_places(answers: pl.DataFrame) -> npt.NDArray[np.int64]:
    """(num_rows,) the place of the right label in the order in which each row's options were shown.

    Raises:
        DataError: a target is no label of its row.
    """
    place = {letter: place for place, letter in enumerate(tasks.LETTERS)}
    places = (
        _shown_targets(answers)
        .replace_strict(place, default=len(place), return_dtype=pl.Int64)
        .to_numpy()
    )
    if (bad := places >= answers["label_logprobs"].list.len().to_numpy()).any():
        row = answers.row(int(bad.argmax()), named=True)
        raise DataError(
            f"{row['task']} item {row['item_id']}: the target {row['target']!r} is none of "
            f"{len(row['label_logprobs'])} labels"
        )
    return places


def _shown_targets(answers: pl.DataFrame) -> pl.Series:
    """The target's letter as each row shows it.

    Only distinct pairs of an item and an order other than 0 are looked at one by one.
    """
    if "option_order" not in answers.columns or not (answers["option_order"] != 0).any():
        return answers["target"]
    key = ["task", "item_id", "option_order"]
    pairs = answers.filter(pl.col("option_order") != 0).unique(subset=key, maintain_order=True)
    shown = [
        tasks.reordered(i, order).target
        for i, order in zip(tasks.items_of(pairs), pairs["option_order"], strict=True)
    ]
    moved = pairs.select(*key, shown=pl.Series(shown, dtype=pl.String))
    joined = answers.select(*key, "target").join(moved, on=key, how="left", maintain_order="left")
    return joined.select(pl.coalesce("shown", "target")).to_series()
