"""Score B minus score A over the same items and dates: its interval and its p-value.

Items are the sampling unit: each is asked on every date, so an item is drawn or swapped with all
its dates, never a single outcome. A score is the metric's, from summed statistics: a corpus score
such as BLEU is put together anew from the sums of each draw.

More than `MAX_GROUPS` items are dealt at random into as many groups, and groups are drawn and
swapped. It costs less and changes little: the width of an interval is then known to
1 / sqrt(2 * groups), 2.2%, about as much as `NUM_DRAWS` draws leave open.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.analyses import Cells, Combine, Floats, Ints, stats

SEED = 0
NUM_DRAWS = 1000
"""Draws of an interval, and of a p-value that is far from `ALPHA`."""
ALPHA = 0.05
"""Chance of a corrected p-value below it in any row of a table, where the runs differ in
nothing."""
DRAWS_PER_TEST = 2 / ALPHA
"""The smallest p-value is about 1 / draws, and the correction multiplies it by the number of rows:
twice the bare minimum."""
MAX_GROUPS = 1000
DRAWS_AT_ONCE = 250
"""Bounds the memory."""
_DIGITS = 9
"""Differences are rounded to so many, in points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSums:
    """Statistics of A and B, summed over groups of items: one each unless there are many."""

    a: Floats
    """(num_groups, num_dates, num_stats)"""
    b: Floats
    counts: Floats
    """(num_groups, num_dates) outcomes, the same in both."""
    combine: Combine


def group_sums(a: Cells, b: Cells, combine: Combine) -> GroupSums:
    """`a` and `b` in groups; they have the same items and dates, with gaps at the same places."""
    num_items = len(a.index)
    num_groups = min(num_items, MAX_GROUPS)
    # At random, since neighbours may be of one subject.
    group = np.random.default_rng(SEED).permutation(num_items) * num_groups // num_items
    order = np.argsort(group, kind="stable")
    begins = np.searchsorted(group[order], np.arange(num_groups))
    return GroupSums(
        a=a.group_sums(group, num_groups),
        b=b.group_sums(group, num_groups),
        counts=np.add.reduceat(a.present[order].astype(np.float64), begins, axis=0),
        combine=combine,
    )


def rounded(differences: Floats) -> Floats:
    """`differences` without the last bits, which depend on the order in which a processor adds.

    0 is never -0.
    """
    values: Floats = np.round(differences, _DIGITS) + 0.0
    return values


def interval(
    sums: GroupSums, *, num_draws: int = NUM_DRAWS, seed: int = SEED
) -> tuple[float, float]:
    """Ends of the 95% interval of the mean over dates of score B minus score A.

    It is what other items would give on the same dates. Items are drawn with replacement, in A and
    B the same ones (a paired percentile bootstrap; Efron 1979, doi:10.1214/aos/1176344552).
    """
    num_groups, rng = len(sums.a), np.random.default_rng(seed)
    draws = (rng.integers(num_groups, size=num_groups) for _ in range(num_draws))
    times = [np.bincount(groups, minlength=num_groups).astype(np.uint16) for groups in draws]

    def differences(weights: Floats) -> Floats:
        counts = weights @ sums.counts
        a, b = _weighed(weights, sums.a), _weighed(weights, sums.b)
        return sums.combine(b, counts) - sums.combine(a, counts)

    ends = np.nanquantile(_means(np.stack(times), differences), [0.025, 0.975])
    low, high = rounded(np.asarray(ends, dtype=np.float64))
    return float(low), float(high)


def p_value(sums: GroupSums, difference: float, *, max_draws: int = NUM_DRAWS) -> float:
    """Two-sided p-value of `difference`, where the runs could have each other's names.

    `difference` is the mean over dates of score B minus score A. In each draw every item's outcomes
    in A and B trade places or not, all dates together, by the toss of a coin (approximate
    randomisation; Noreen 1989, Computer-Intensive Methods for Testing Hypotheses).

    More than `NUM_DRAWS` draws are made only where the first could still lead to `ALPHA`. That
    cannot add false alarms: a small p-value always comes from the full set, which knows nothing of
    the first.
    """
    p = stats.p_value(swapped(sums, num_draws=NUM_DRAWS, seed=SEED), abs(difference))
    if p < 2 * ALPHA and max_draws > NUM_DRAWS:
        p = stats.p_value(swapped(sums, num_draws=max_draws, seed=SEED + 1), abs(difference))
    return p


def swapped(sums: GroupSums, *, num_draws: int, seed: int) -> Floats:
    """(num_draws,) sizes of the difference after some groups traded places."""
    swaps = np.random.default_rng(seed).integers(2, size=(num_draws, len(sums.a)), dtype=np.uint8)
    sums_a, sums_b = sums.a.sum(axis=0), sums.b.sum(axis=0)
    counts, change = sums.counts.sum(axis=0), sums.b - sums.a

    def differences(weights: Floats) -> Floats:
        moved = _weighed(weights, change)
        each = np.broadcast_to(counts, moved.shape[:2])
        return sums.combine(sums_b - moved, each) - sums.combine(sums_a + moved, each)

    return np.abs(_means(swaps, differences))


def _weighed(weights: Floats, groups: Floats) -> Floats:
    """(num_draws, num_dates, num_stats) sums over `groups`, each as often as `weights` says.

    `weights` are (num_draws, num_groups).
    """
    num_groups, num_dates, num_stats = groups.shape
    sums: Floats = weights @ groups.reshape(num_groups, -1)
    return sums.reshape(len(weights), num_dates, num_stats)


def _means(weights: Ints, differences: Callable[[Floats], Floats]) -> Floats:
    """(num_draws,) mean over the dates of `differences`, NaN where no date has a score."""
    starts = range(0, len(weights), DRAWS_AT_ONCE)
    parts = [differences(weights[i : i + DRAWS_AT_ONCE].astype(np.float64)) for i in starts]
    by_date = np.concatenate(parts)
    known = np.count_nonzero(~np.isnan(by_date), axis=1)
    means = np.full(len(weights), np.nan)
    np.divide(np.nansum(by_date, axis=1), known, out=means, where=known > 0)
    return rounded(means)
