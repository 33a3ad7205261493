"""Ties: the share of outputs in which no single label is the most probable one.

Equal means equal to the bit. Engines that compute in 16 bits have ties now and then; the answer is
then one of the tied labels, chosen by the rule in `pipeline/tasks/_choice.py`, and its row of
scores has the rule `tie`.
"""

from typing import ClassVar, Literal

import numpy as np
import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMean, is_tied


class Ties(LabelMean):
    """Percentage of outputs that are ties, from 0 to 100.

    It counts answers that the model did not decide, and does not judge them.
    """

    name: ClassVar[str] = "ties"
    title: ClassVar[str] = "ties"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = ("ties",)
    higher_is_better: ClassVar[bool] = False
    probabilities: ClassVar[Literal["raw", "renormalised"]] = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) 1 for a tie, else 0."""
        return is_tied(logprobs).astype(np.float64)


METRIC = Ties()
