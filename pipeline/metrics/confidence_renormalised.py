"""Mean confidence in the choice between the options: `confidence`, with the probability of the
chosen label among the labels alone.

It is the raw confidence divided by the label mass.
"""

from typing import ClassVar, Literal

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMean, renormalised


class ConfidenceRenormalised(LabelMean):
    """Mean renormalised probability of the chosen label in percent, from 100 / number of labels to
    100. It describes and does not judge.
    """

    name: ClassVar[str] = "confidence_renormalised"
    title: ClassVar[str] = "confidence renormalised"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = ("confidence_renormalised",)
    higher_is_better: ClassVar[bool] = True
    probabilities: ClassVar[Literal["raw", "renormalised"]] = "renormalised"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) probability of the chosen label among the labels."""
        probability: Array = np.exp(renormalised(logprobs).max(axis=1))
        return probability


METRIC = ConfidenceRenormalised()
