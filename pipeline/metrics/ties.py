"""Ties: the share of outputs in which no single label is the most probable one.

Equal means equal to the bit. Engines that compute in 16 bits have ties now and then; the answer is
then one of the tied labels, chosen by the rule in `pipeline/tasks/_choice.py`, and its row of
scores has the rule `tie`.
"""

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMetric


class Ties(LabelMetric):
    """Percentage of outputs that are ties, from 0 to 100.

    It counts answers that the model did not decide, and does not judge them.
    """

    name = "ties"
    title = "ties"
    higher_is_better = False
    probabilities = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) 1 for a tie, else 0."""
        is_best = logprobs == logprobs.max(axis=1, keepdims=True)
        is_tied: Array = (is_best.sum(axis=1) > 1).astype(np.float64)
        return is_tied


METRIC = Ties()
