"""Accuracy: the share of items whose answer is the target."""

import numpy as np
import polars as pl

from pipeline.metrics import Metric, scored


class Accuracy(Metric):
    """Percentage of answers that equal the target; no answer counts as wrong.

    A task's extraction has already brought answer and target to one form.
    """

    name = "accuracy"
    title = "accuracy"

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """1 where the answer is the target, else 0."""
        is_right = (answers["answer"] == answers["target"]) & (answers["answer"] != "")
        return scored(answers, is_right.to_numpy().astype(np.float64)[:, None])


METRIC = Accuracy()
