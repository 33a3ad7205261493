"""Log loss: how surprising the right label is to the model.

For an output it is -ln(p) of the renormalised probability p of the right label: the logarithmic
score of Good 1952 (https://doi.org/10.1111/j.2517-6161.1952.tb00104.x), also known as
cross-entropy. A p below 2^-52, the spacing of doubles at 1, counts as 2^-52, as in scikit-learn's
`log_loss`: a label of probability 0 costs 36.04 nats, and one output cannot make a mean infinite.
"""

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMetric, target_indices

_LEAST = float(np.log(np.finfo(np.float64).eps))
"""What a log-probability counts as at least."""


class LogLoss(LabelMetric):
    """Mean log loss in nats, from 0 (certain and right) to 36.04.

    Equal chances for four labels get ln 4 = 1.386.
    """

    name = "log_loss"
    title = "log loss"
    scale = "nats"
    factor = 1.0
    higher_is_better = False
    probabilities = "renormalised"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) loss in nats."""
        right: Array = logprobs[np.arange(len(logprobs)), target_indices(answers)]
        return -np.maximum(right, _LEAST)


METRIC = LogLoss()
