"""Margin: how much more probable the chosen label is than the next one.

Near 0, a trifle turns the answer.

The difference of the two highest raw probabilities ("margin sampling", Scheffer et al. 2001,
https://doi.org/10.1007/3-540-44816-0_31).
"""

from typing import ClassVar, Literal

import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMean, margin


class Margin(LabelMean):
    """Mean margin in points, from 0 (a tie) to 100. It describes and does not judge."""

    name: ClassVar[str] = "margin"
    title: ClassVar[str] = "margin"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = ("margin",)
    higher_is_better: ClassVar[bool] = True
    probabilities: ClassVar[Literal["raw", "renormalised"]] = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) difference of the two highest probabilities."""
        return margin(logprobs)


METRIC = Margin()
