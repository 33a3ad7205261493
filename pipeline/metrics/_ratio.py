"""Means of sums, shared by the metrics whose score is a mean over segments."""

import numpy as np

from pipeline.metrics import Array


def mean(sums: Array, counts: Array) -> Array:
    """`sums / counts`, elementwise; NaN where a count is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def percent(sums: Array, counts: Array) -> Array:
    """`100 * sums / counts`, elementwise; NaN where a count is 0."""
    return mean(100.0 * sums, counts)
