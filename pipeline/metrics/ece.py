"""Expected calibration error: the gap between confidence and the share of right answers.

As in the paper (arXiv 2609.36931), with M = 10 bins of equal width: ECE = sum over bins m of |B_m|
/ N * |acc(B_m) - conf(B_m)|, an estimator of Naeini et al. 2015
(https://ojs.aaai.org/index.php/AAAI/article/view/9602). The confidence is the raw probability of
the chosen label, over the whole vocabulary; `ece_renormalised` shares it out among the labels.
"""

from typing import ClassVar

import numpy as np
import polars as pl

from pipeline.metrics import Array, ratio
from pipeline.metrics._labels import LabelMetric, Probabilities, top_probability

NUM_BINS = 10
_RIGHT_EDGES = np.arange(1, NUM_BINS + 1) / NUM_BINS
"""Bins are closed on the right: 0.7 lies in (0.6, 0.7], and 1 in the last bin. Division gives the
doubles nearest to the decimals."""


class Ece(LabelMetric):
    """Calibration error of label tasks in points, from 0 (perfect) to 100."""

    name = "ece"
    title = "ECE"
    stat_names = tuple(
        f"{part}_{m}" for part in ("count", "confidence", "correct") for m in range(1, NUM_BINS + 1)
    )
    higher_is_better = False
    probabilities: ClassVar[Probabilities] = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) probability of the chosen label."""
        return top_probability(logprobs)

    def stats(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """One bin's count, confidence and outcome for each row."""
        is_right = (answers["answer"] == answers["target"]).to_numpy()
        return binned(self.values(logprobs, answers), is_right.astype(np.float64))

    def combine(self, sums: Array, counts: Array) -> Array:
        """ECE times 100: |B_m|/N * |acc - conf| is |correct - confidence| / N in sums.

        Empty bins thus add nothing.
        """
        _, confidence, correct = np.split(sums, 3, axis=-1)
        return ratio(100.0 * np.abs(correct - confidence).sum(axis=-1), counts)


def binned(confidence: Array, correct: Array) -> Array:
    """(num_rows, 3 * NUM_BINS) count, confidence and outcome at each row's bin, 0 elsewhere."""
    rows = np.arange(len(confidence))
    bins = np.searchsorted(_RIGHT_EDGES, confidence, side="left")
    stats = np.zeros((len(confidence), 3, NUM_BINS))
    for part, values in enumerate((np.ones_like(confidence), confidence, correct)):
        stats[rows, part, bins] = values
    return stats.reshape(len(confidence), 3 * NUM_BINS)


METRIC = Ece()
