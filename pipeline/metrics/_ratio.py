"""Means of sums, shared by the metrics whose score is a share of segments."""

import numpy as np

from pipeline.metrics import Array


def percent(sums: Array, counts: Array) -> Array:
    """`100 * sums / counts`, elementwise; NaN where a count is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, 100.0 * sums / counts, np.nan)
