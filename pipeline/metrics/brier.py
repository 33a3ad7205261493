"""Brier score: the squared distance between the labels' probabilities and the truth.

For an output it is the sum over the labels k of (p_k - y_k)^2, with y_k = 1 for the right label and
0 for the others: the original, multi-category definition of Brier 1950
(https://doi.org/10.1175/1520-0493(1950)078%3C0001:VOFEIT%3E2.0.CO;2), from 0 to 2. Some libraries
halve it. The p_k are the renormalised probabilities, for which it is a proper score of the choice
between the options; `label_mass` says what they leave out.
"""

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMetric, target_indices


class Brier(LabelMetric):
    """100 times the mean Brier score, from 0 (certain and right) to 200 (certain and wrong).

    Equal chances for four labels get 75.
    """

    name = "brier"
    title = "Brier"
    scale = "0–200"
    higher_is_better = False
    probabilities = "renormalised"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) squared distance, from 0 to 2."""
        distance = np.exp(logprobs)
        distance[np.arange(len(distance)), target_indices(answers)] -= 1
        squared: Array = np.square(distance).sum(axis=1)
        return squared


METRIC = Brier()
