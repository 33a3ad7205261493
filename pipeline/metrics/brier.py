"""Brier score: the squared distance between the labels' probabilities and the truth.

For an output it is the sum over the labels k of (p_k - y_k)^2, with y_k = 1 for the right label and
0 for the others: the original, multi- category definition of Brier 1950
(https://doi.org/10.1175/1520-0493(1950)078%3C0001:VOFEIT%3E2.0.CO;2), from 0 to 2. Some libraries
halve it. The p_k are the renormalised probabilities, for which it is a proper score of the choice
between the options; `label_mass` says what they leave out.
"""

from typing import ClassVar, Literal

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMean, renormalised, target_places


class Brier(LabelMean):
    """100 times the mean Brier score, from 0 (certain and right) to 200 (certain and wrong).

    Equal chances for four labels get 75.
    """

    name: ClassVar[str] = "brier"
    title: ClassVar[str] = "Brier"
    scale: ClassVar[str] = "0–200"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = ("brier",)
    higher_is_better: ClassVar[bool] = False
    probabilities: ClassVar[Literal["raw", "renormalised"]] = "renormalised"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) squared distance, from 0 to 2."""
        away = np.exp(renormalised(logprobs))
        away[np.arange(len(away)), target_places(answers)] -= 1
        distance: Array = np.square(away).sum(axis=1)
        return distance


METRIC = Brier()
