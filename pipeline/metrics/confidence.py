"""Mean confidence: how probable a model's own answers are to it, right or wrong.

The confidence of an output is the raw probability of the chosen label, over the whole vocabulary:
the "token probability of the selected answer" of the paper's Table 7 (arXiv 2609.36931).
"""

from typing import ClassVar

import polars as pl

from pipeline.metrics import Array
from pipeline.metrics._labels import LabelMetric, Probabilities, top_probability


class Confidence(LabelMetric):
    """Mean probability of the chosen label in percent, from 0 to 100.

    It describes and does not judge: high is good only if right.
    """

    name = "confidence"
    title = "confidence"
    probabilities: ClassVar[Probabilities] = "raw"

    def values(self, logprobs: Array, answers: pl.DataFrame) -> Array:
        """(num_rows,) probability of the chosen label."""
        return top_probability(logprobs)


METRIC = Confidence()
