"""Label mass: how probable it is that the model answers with any of the labels at all.

It is the sum of the labels' raw probabilities. Where it is small, the model wanted to write
something else, and its choice of a label says little ("surface form competition", Holtzman et al.
2021, https://arxiv.org/abs/2104.08315).
"""

from typing import ClassVar, Literal

import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMean, label_mass


class LabelMass(LabelMean):
    """Mean label mass in percent, from 0 to 100.

    It describes how a model answers, and does not judge what.
    """

    name: ClassVar[str] = "label_mass"
    title: ClassVar[str] = "label mass"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = ("label_mass",)
    higher_is_better: ClassVar[bool] = True
    probabilities: ClassVar[Literal["raw", "renormalised"]] = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) sum of the labels' probabilities."""
        return label_mass(logprobs)


METRIC = LabelMass()
