"""Expected calibration error of the choice between the options: `ece`, with the probability of the
chosen label among the labels alone.

The paper (arXiv 2609.36931) does not say which of the two it reports; where the label mass is near
1 they are the same.
"""

from typing import ClassVar, Literal

import numpy as np

from pipeline.metrics import Array
from pipeline.metrics._labels import renormalised
from pipeline.metrics.ece import Ece


class EceRenormalised(Ece):
    """Calibration error with renormalised confidence in points, from 0 (perfect) to 100."""

    name: ClassVar[str] = "ece_renormalised"
    title: ClassVar[str] = "ECE renormalised"
    version: ClassVar[int] = 1
    probabilities: ClassVar[Literal["raw", "renormalised"]] = "renormalised"

    def confidence(self, logprobs: Array) -> Array:
        """(num_rows,) probability of the chosen label among the labels."""
        probability: Array = np.exp(renormalised(logprobs).max(axis=1))
        return probability


METRIC = EceRenormalised()
