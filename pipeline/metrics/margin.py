"""Margin: how much more probable the chosen label is than the next one; near 0, a trifle turns it.

The difference of the two highest raw probabilities ("margin sampling", Scheffer et al. 2001,
https://doi.org/10.1007/3-540-44816-0_31).
"""

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMetric


class Margin(LabelMetric):
    """Mean margin in points, from 0 (a tie) to 100. It describes and does not judge."""

    name = "margin"
    title = "margin"
    probabilities = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) difference of the two highest probabilities; a single label's own."""
        padded = np.pad(logprobs, ((0, 0), (1, 0)), constant_values=-np.inf)
        best: Array = np.minimum(np.exp(np.sort(padded, axis=1)[:, -2:]), 1.0)
        return best[:, 1] - best[:, 0]


METRIC = Margin()
