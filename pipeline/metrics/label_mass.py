"""Label mass: how probable it is that the model answers with any of the labels at all.

It is the sum of the labels' raw probabilities. Where it is small, the model wanted to write
something else, and its choice of a label says little ("surface form competition", Holtzman et al.
2021, https://arxiv.org/abs/2104.08315).
"""

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMetric


class LabelMass(LabelMetric):
    """Mean label mass in percent, from 0 to 100.

    It describes how a model answers, and does not judge what.
    """

    name = "label_mass"
    title = "label mass"
    probabilities = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) sum of the labels' probabilities; rounding cannot bring it above 1."""
        mass: Array = np.exp(logprobs).sum(axis=1)
        return np.minimum(mass, 1.0)


METRIC = LabelMass()
