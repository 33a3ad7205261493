"""What metrics of labels' log-probabilities share, for whole columns at once.

Two distributions are in use. *Raw* is the engine's own, over the whole vocabulary: labels share
what other tokens leave them, the label mass. *Renormalised* is raw divided by the label mass, the
choice between the options alone. Each metric names the one that it takes.

A matrix of log-probabilities is (num_rows, most labels), natural logarithms in the order shown,
-inf where a row has fewer labels. Sums start from the largest entry, so that labels of tiny
probability keep their ratios.
"""

import abc
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import tasks
from pipeline.core.errors import ConfigError, DataError
from pipeline.metrics import Array, Metric, Reads, scored

Probabilities = Literal["raw", "renormalised"]
_ROUNDING = 1e-3
"""How far above 0 a log-probability may lie; an engine's single precision is a thousand times
closer, and logits are no probabilities."""


class LabelMetric(Metric):
    """A metric of what the model's log-probabilities of the labels say.

    For tasks of kind `label`. A subclass has `values`, of which it is the mean, or `stats`.
    """

    reads: ClassVar[Reads] = "logprobs"
    probabilities: ClassVar[Probabilities]
    """The distribution that the metric takes."""

    @abc.abstractmethod
    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) what each row contributes to the mean.

        Args:
            logprobs: matrix of the distribution that the metric takes.
            answers: as `segments` gets them.
        """

    def stats(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows, num_stats) statistics; arguments as for `values`."""
        return self.values(logprobs, answers)[:, None]

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """Statistics of every row.

        Raises:
            ConfigError: the task has no labels.
            DataError: a log-probability is missing, NaN or above 0, or all of a row are -inf.
        """
        logprobs = _matrix(answers, self.name)
        if self.probabilities == "renormalised":
            logprobs = _renormalised(logprobs)
        return scored(answers, self.stats(logprobs, answers))

    def signature(self) -> str:
        """Name, distribution and version."""
        return f"{self.name}|probabilities:{self.probabilities}|version:{self.version}"


def _matrix(answers: pl.DataFrame, metric: str) -> Array:
    """The raw log-probabilities of the labels of `answers`."""
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
            f"of at most 0, one of them finite, got {row['label_logprobs']}"
        )
    return matrix


def _renormalised(logprobs: Array) -> Array:
    shifted: Array = logprobs - logprobs.max(axis=1, keepdims=True)
    log_mass: Array = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted - log_mass


def top_probability(logprobs: Array) -> Array:
    """(num_rows,) probability of the most probable label; rounding cannot bring it above 1."""
    probability: Array = np.exp(logprobs.max(axis=1))
    return np.minimum(probability, 1.0)


def target_indices(answers: pl.DataFrame) -> npt.NDArray[np.int64]:
    """(num_rows,) index of the right label in the order in which each row's options were shown.

    Raises:
        DataError: a target is no label of its row.
    """
    index = {letter: i for i, letter in enumerate(tasks.LETTERS)}
    targets = _shown_targets(answers)
    indices = targets.replace_strict(index, default=len(index), return_dtype=pl.Int64).to_numpy()
    if (bad := indices >= answers["label_logprobs"].list.len().to_numpy()).any():
        row = answers.row(int(bad.argmax()), named=True)
        raise DataError(
            f"{row['task']} item {row['item_id']}: the target {row['target']!r} is none of "
            f"{len(row['label_logprobs'])} labels"
        )
    return indices


def _shown_targets(answers: pl.DataFrame) -> pl.Series:
    """The target's letter as each row shows it.

    Only distinct pairs of an item and an order other than 0 are looked at one by one.
    """
    if "option_order" not in answers.columns or not (answers["option_order"] != 0).any():
        return answers["target"]
    key = ["task", "item_id", "option_order"]
    pairs = answers.filter(pl.col("option_order") != 0).unique(subset=key, maintain_order=True)
    items = zip(tasks.items_of(pairs), pairs["option_order"], strict=True)
    shown = [tasks.reordered(item, order).target for item, order in items]
    moved = pairs.select(*key, shown=pl.Series(shown, dtype=pl.String))
    joined = answers.select(*key, "target").join(moved, on=key, how="left", maintain_order="left")
    return joined.select(pl.coalesce("shown", "target")).to_series()
