"""Pure statistics on arrays: what chance alone does to a worst-to-best range, flip counts, intervals, corrections.

Nothing here knows of files, frames or models. Random draws come from a seed that the caller gives.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.integer]

Combine = Callable[[Floats, Floats], Floats]
"""`Metric.combine`: summed statistics (..., num_stats) and counts (...) to scores (...)."""

Z_95 = 1.959963984540054
"""Two-sided 95% point of the normal distribution."""

_TIE = 1e-9
"""Two ranges closer than this are one value: the same gap in right answers has other last digits at another place on the scale."""

_BLOCK_BYTES = 32 * 2**20
"""Outcomes shuffled together; bounds the memory that the draws need."""


def scores_by_date(stats: Floats, combine: Combine) -> Floats:
    """Score of each date, shape (num_dates,), NaN where a date has no outcome.

    Args:
        stats: (num_items, num_dates, num_stats) statistics of each outcome; NaN marks a missing one, which leaves the mean.
        combine: turns sums and counts into scores.
    """
    present = _present(stats)
    return combine(_sum_items(stats), present.sum(axis=0).astype(np.float64))


def chance_deltas(stats: Floats, combine: Combine, *, num_draws: int, seed: int) -> Floats:
    """Worst-to-best ranges, shape (num_draws,), that independent flips of the items alone would give.

    Each draw shuffles every item's outcomes over the dates on which it has one, independently of the other items: an item keeps how often
    it is right, and no date can favour many items at once. Missing outcomes stay where they are, so a date that lost half of its items is
    compared with draws that lost the same half. Only items that vary are shuffled; the sum of the others is the same in every draw.

    Args:
        stats: (num_items, num_dates, num_stats) statistics of each outcome; NaN marks a missing one.
        combine: turns sums and counts into scores.
        num_draws: number of shuffles.
        seed: of the generator; equal seeds give equal draws.
    """
    rng = np.random.default_rng(seed)
    present, varying = _present(stats), _varies(stats)
    sums = np.tile(_sum_items(stats[~varying]), (num_draws, 1, 1))
    for block, dates in _blocks(stats[varying], present[varying]):
        records = block.view(np.dtype((np.void, block.itemsize * block.shape[2])))[:, :, 0]  # one outcome moves as one value
        for draw in range(num_draws):
            rng.permuted(records, axis=1, out=records)  # a shuffle of a shuffle is as random as a fresh one
            sums[draw, dates] += block.sum(axis=0)
    counts = np.broadcast_to(present.sum(axis=0).astype(np.float64), sums.shape[:2])
    return value_range(combine(sums, counts))


def value_range(scores: Floats) -> Floats:
    """Largest minus smallest along the last axis, leaving NaN out; 0 where fewer than two values are left."""
    high = np.where(np.isnan(scores), -np.inf, scores).max(axis=-1, initial=-np.inf)
    low = np.where(np.isnan(scores), np.inf, scores).min(axis=-1, initial=np.inf)
    width: Floats = np.maximum(high - low, 0.0)
    return width


def p_value(draws: Floats, observed: float) -> float:
    """Share of values at least as large as `observed`, among the draws and the observed one itself.

    (1 + #{draw >= observed}) / (1 + draws), which is never 0 and keeps the error rate of the test at its level (Phipson and Smyth 2010,
    doi:10.2202/1544-6115.1585, equation 2).
    """
    return float((1 + np.count_nonzero(draws >= observed - _TIE)) / (1 + draws.size))


def holm(p_values: Floats) -> Floats:
    """Holm's step-down adjusted p-values, shape (num_tests,): comparing them with 0.05 keeps the chance of any false alarm below 5%.

    NaN marks a test that was not made; it stays NaN and does not count as one. Source: Holm 1979, https://www.jstor.org/stable/4615733.
    """
    adjusted = np.full(p_values.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    steps = p_values[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def wilson(successes: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """Lower and upper end of Wilson's interval for a proportion; (0, 1) when there are no trials.

    Unlike the textbook interval it stays inside [0, 1] and is not empty at 0 of n. Source: Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    if trials == 0:
        return 0.0, 1.0
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z * np.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def flips(codes: Ints, present: Bools) -> Bools:
    """Whether each item flips, shape (num_items,): its codes are not the same on all dates on which it has one.

    Args:
        codes: (num_items, num_dates) numbers that are equal for equal outcomes.
        present: (num_items, num_dates) where there is an outcome; the other codes are ignored.
    """
    if codes.shape[1] == 0:
        return np.zeros(codes.shape[0], dtype=np.bool_)
    first = np.take_along_axis(codes, present.argmax(axis=1)[:, None], axis=1)
    flipping: Bools = ((codes != first) & present).any(axis=1)
    return flipping


def pairwise_flips(codes: Ints, present: Bools) -> tuple[int, int]:
    """Number of (item, two dates) pairs whose outcomes differ, and number of such pairs; arguments as for `flips`.

    Their ratio is the chance that a random item flips between two random dates. Counted through group sizes, so a year of dates costs no
    more than a sort: n outcomes of which n_c are c hold (n² - Σ n_c²) / 2 unequal pairs.
    """
    item, date = np.nonzero(present)
    values, code = np.unique(codes[item, date], return_inverse=True)
    sizes = np.unique(item * max(values.size, 1) + code, return_counts=True)[1].astype(np.int64)
    per_item = present.sum(axis=1).astype(np.int64)
    num_pairs = int((per_item * (per_item - 1) // 2).sum())
    return num_pairs - int((sizes * (sizes - 1) // 2).sum()), num_pairs


def paired_flips(codes: Ints, other: Ints, present: Bools) -> tuple[int, int]:
    """Number of cells that differ between two copies of one array, and number of cells that both have (`present`)."""
    return int(np.count_nonzero((codes != other) & present)), int(np.count_nonzero(present))


def _present(stats: Floats) -> Bools:
    """(num_items, num_dates) where there is an outcome; a missing one has NaN in every statistic."""
    return ~np.isnan(stats[:, :, 0])


def _varies(stats: Floats) -> Bools:
    """(num_items,) whether an item's statistics differ between the dates on which it has any."""
    present = _present(stats)
    first = np.take_along_axis(stats, present.argmax(axis=1)[:, None, None], axis=1)
    varying: Bools = ((stats != first).any(axis=2) & present).any(axis=1)
    return varying


def _sum_items(stats: Floats) -> Floats:
    """(num_dates, num_stats) sums over the items in their order, missing outcomes left out."""
    # Contiguous, so that the order of addition, and with it the last digit, is the same for a part of the dates as for all.
    sums: Floats = np.nansum(np.ascontiguousarray(stats), axis=0)
    return sums


def _blocks(stats: Floats, present: Bools) -> Iterator[tuple[Floats, Ints]]:
    """Items that have outcomes on the same dates, with those dates: (block_items, block_dates, num_stats) and (block_dates,).

    Such a block has no gaps, so its rows can be shuffled in place.
    """
    if not stats.size:
        return
    patterns, which = np.unique(present, axis=0, return_inverse=True)
    per_block = max(1, _BLOCK_BYTES // (stats[0].nbytes))
    for number, pattern in enumerate(patterns):
        items, dates = np.flatnonzero(which == number), np.flatnonzero(pattern)
        for start in range(0, items.size, per_block):
            yield np.ascontiguousarray(stats[np.ix_(items[start : start + per_block], dates)]), dates
