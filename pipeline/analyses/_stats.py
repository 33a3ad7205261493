"""Pure statistics on arrays: what chance does to a worst-to-best range, flips, intervals, tests.

Nothing here knows of files, frames or models. Random draws come from a seed that the caller gives.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
"""Two ranges closer than this are one value: the same gap in right answers has other last digits at
another height of the scale."""

BLOCK_CELLS = 2**18
"""Outcomes whose statistics are looked up together; bounds memory, and keeps them near the
processor."""
GROUP_CELLS = 2**15
"""Groups times dates of one pattern of gaps, see `chance_deltas`."""
DRAWS_PER_SHUFFLE = 100
"""Draws that share the shuffle of the single items, see `chance_deltas`; bounds the memory that
draws need, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Sufficient statistics of every item on every date.

    Equal outcomes of an item are stored once, and of each only what is not 0.
    """

    index: Ints
    """(num_items, num_dates) row of the other two arrays; -1 where there is no outcome."""
    values: Floats
    """(num_outcomes, width) the statistics that are not 0, padded with 0."""
    stat_numbers: Ints
    """(num_outcomes, width) which of the statistics each value is."""
    num_stats: int

    @property
    def present(self) -> Bools:
        """(num_items, num_dates) where there is an outcome."""
        return self.index >= 0

    @property
    def counts(self) -> Floats:
        """(num_dates,) outcomes on each date."""
        counts: Floats = np.count_nonzero(self.present, axis=0).astype(np.float64)
        return counts

    def dates(self, chosen: Ints) -> "Cells":
        """The same items on the `chosen` dates only."""
        return dataclasses.replace(self, index=self.index[:, chosen])

    def items(self, chosen: Bools | Ints) -> "Cells":
        """The `chosen` items only, on the same dates."""
        return dataclasses.replace(self, index=self.index[chosen])

    def sums(self) -> Floats:
        """(num_dates, num_stats) sums over the items.

        They are added one after the other, so that a sum does not depend on the other dates.
        """
        sums: Floats = self.group_sums(np.zeros(len(self.index), dtype=np.int64), 1)[0]
        return sums

    def group_sums(self, group: Ints, num_groups: int) -> Floats:
        """(num_groups, num_dates, num_stats) the same for each group; `group` is (num_items,)."""
        shape = (num_groups, self.index.shape[1], self.num_stats)
        total = np.zeros(np.prod(shape, dtype=np.int64))
        dates = np.arange(shape[1]) * self.num_stats
        for block in self._blocks():
            rows = self.index[block]
            cells = group[block, None] * (shape[1] * self.num_stats) + dates
            if (rows < 0).any():
                rows, cells = rows[rows >= 0], cells[rows >= 0]
            targets = cells[..., None] + self.stat_numbers[rows]
            np.add.at(total, targets.ravel(), self.values[rows].ravel())
        return total.reshape(shape)

    def varying(self) -> Bools:
        """(num_items,) whether an item's statistics differ between dates on which it has any."""
        is_varying = np.zeros(len(self.index), dtype=np.bool_)
        for block in self._blocks():
            rows, present = self.index[block], self.present[block]
            first = np.take_along_axis(rows, present.argmax(axis=1)[:, None], axis=1)
            differs = self.values[rows] != self.values[first]
            differs |= self.stat_numbers[rows] != self.stat_numbers[first]
            is_varying[block] = (differs.any(axis=2) & present).any(axis=1)
        return is_varying

    def _blocks(self) -> Iterator[slice]:
        """Ranges of items, of a size that bounds what is looked up at once."""
        num_items, num_dates = self.index.shape
        if num_dates:
            step = max(1, BLOCK_CELLS // num_dates)
            yield from (slice(start, start + step) for start in range(0, num_items, step))


def nonzero(stats: Floats) -> tuple[Floats, Ints]:
    """`values` and `stat_numbers` of `Cells`, each (num_rows, width), of (num_rows, num_stats)."""
    is_set = stats != 0
    cell, per_row = np.flatnonzero(is_set), np.count_nonzero(is_set, axis=1)
    row, number = np.divmod(cell, stats.shape[1])
    column = np.arange(cell.size) - np.repeat(np.cumsum(per_row) - per_row, per_row)
    width = int(per_row.max(initial=1))
    values = np.zeros((len(stats), width))
    stat_numbers = np.zeros((len(stats), width), dtype=np.min_scalar_type(stats.shape[1]))
    values[row, column], stat_numbers[row, column] = stats[row, number], number
    return values, stat_numbers


def scores_by_date(cells: Cells, combine: Combine) -> Floats:
    """(num_dates,) scores, NaN where a date has no outcome."""
    return combine(cells.sums(), cells.counts)


def chance_deltas(cells: Cells, combine: Combine, *, num_draws: int, seed: int) -> Floats:
    """(num_draws,) worst-to-best ranges that independent flips of the items alone would give.

    Each draw shuffles every item's outcomes over the dates on which it has one, independently of
    the other items: an item keeps how often it is right, and no date can favour many items at once.
    Missing outcomes stay where they are, so a date that lost half of its items is compared with
    draws that lost the same half. Only items that vary are shuffled; the sum of the others is the
    same in every draw.

    Where many items vary, they are shuffled one by one and added up in groups, and
    `DRAWS_PER_SHUFFLE` draws shuffle the sums of the groups. A shuffle after a shuffle is a
    shuffle, so each draw by itself is distributed exactly as if every item had been shuffled anew.
    Draws that share the first shuffle are a little alike: the variance of a date's sum, given that
    shuffle, is off by a random share with a standard deviation of sqrt(2 / (groups * dates)), 0.8%,
    which is small beside the error of any number of draws made here.

    Args:
        cells: outcomes of items on dates.
        combine: turns sums and counts into scores.
        num_draws: number of shuffles.
        seed: of the generator; equal seeds give equal draws.
    """
    rng, varying = np.random.default_rng(seed), cells.varying()
    fixed, counts = cells.items(~varying).sums(), cells.counts
    moving = list(_patterns(cells.items(varying)))
    ranges = np.empty(num_draws)
    for start in range(0, num_draws, DRAWS_PER_SHUFFLE):
        sums = np.tile(fixed, (min(DRAWS_PER_SHUFFLE, num_draws - start), 1, 1))
        for block, dates in moving:
            sums[:, dates] += _shuffled_sums(block, len(sums), rng)
        scores = combine(sums, np.broadcast_to(counts, sums.shape[:2]))
        ranges[start : start + len(sums)] = value_range(scores)
    return ranges


def value_range(scores: Floats) -> Floats:
    """Largest minus smallest along the last axis without NaN; 0 of fewer than two values."""
    high = np.where(np.isnan(scores), -np.inf, scores).max(axis=-1, initial=-np.inf)
    low = np.where(np.isnan(scores), np.inf, scores).min(axis=-1, initial=np.inf)
    width: Floats = np.maximum(high - low, 0.0)
    return width


def p_value(draws: Floats, observed: float) -> float:
    """Share of the draws and the observed value itself that are at least as large as that.

    (1 + #{draw >= observed}) / (1 + draws), which is never 0 and keeps the error rate of the test
    at its level (Phipson and Smyth 2010, doi:10.2202/1544-6115.1585, equation 2).
    """
    return float((1 + np.count_nonzero(draws >= observed - _TIE)) / (1 + draws.size))


def holm(p_values: Floats) -> Floats:
    """(num_tests,) Holm's step-down adjusted p-values.

    Comparing them with 0.05 keeps the chance of any false alarm below 5%. NaN marks a test that was
    not made; it stays NaN and does not count as one. Source: Holm 1979,
    https://www.jstor.org/stable/4615733.
    """
    adjusted = np.full(p_values.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    steps = p_values[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def percent(count: int, total: int) -> float | None:
    """`count` in percent of `total`; None of nothing."""
    return 100.0 * count / total if total else None


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Ends of Wilson's 95% interval for a proportion; (0, 1) when there are no trials.

    Unlike the textbook interval it stays inside [0, 1] and is not empty at 0 of n. Source: Wilson
    1927, doi:10.1080/01621459.1927.10502953.
    """
    if trials == 0:
        return 0.0, 1.0
    z, share, spread = Z_95, successes / trials, Z_95 * Z_95 / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z * np.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def flips(codes: Ints, present: Bools) -> Bools:
    """(num_items,) whether an item's codes differ between dates on which it has one.

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
    """Number of (item, two dates) pairs whose outcomes differ, and number of such pairs.

    Arguments as for `flips`. Their ratio is the chance that a random item flips between two random
    dates. Counted through group sizes, so a year of dates costs no more than a sort: n outcomes of
    which n_c are c hold (n² - Σ n_c²) / 2 unequal pairs.
    """
    if not codes.size:
        return 0, 0
    missing = codes.min() - 1 if codes.min() > np.iinfo(codes.dtype).min else codes.max() + 1
    ordered = np.sort(np.where(present, codes, missing), axis=1)
    begins = np.ones(ordered.shape, dtype=np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.flatnonzero(begins)
    sizes = np.diff(first, append=ordered.size)[ordered.ravel()[first] != missing]
    per_item = np.count_nonzero(present, axis=1)
    num_pairs = int((per_item * (per_item - 1) // 2).sum())
    return num_pairs - int((sizes * (sizes - 1) // 2).sum()), num_pairs


def paired_flips(codes: Ints, other: Ints, present: Bools) -> tuple[int, int]:
    """Number of `present` cells that differ between two copies, and number of `present` cells."""
    return int(np.count_nonzero((codes != other) & present)), int(np.count_nonzero(present))


def _patterns(cells: Cells) -> Iterator[tuple[Cells, Ints]]:
    """Items that have outcomes on the same dates, and those dates.

    Such a block has no gaps, so its rows can be shuffled.
    """
    if not cells.index.size:
        return
    present = cells.present
    bits = np.packbits(present, axis=1)
    _, example, which = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    for number, pattern in enumerate(present[example]):
        dates = np.flatnonzero(pattern)
        yield cells.items(np.flatnonzero(which == number)).dates(dates), dates


def _shuffled_sums(block: Cells, num_draws: int, rng: np.random.Generator) -> Floats:
    """(num_draws, num_dates, num_stats) sums over a block whose items are shuffled each time."""
    groups = _shuffled_groups(block, rng)
    num_groups, num_dates, num_stats = groups.shape
    cells = groups.reshape(-1, num_stats)
    order = np.arange(num_groups * num_dates).reshape(num_groups, num_dates)
    sums, shuffled = np.empty((num_draws, num_dates, num_stats)), np.empty(groups.shape)
    for draw in range(num_draws):
        rng.permuted(order, axis=1, out=order)  # a shuffle of a shuffle is as random as a fresh one
        np.take(cells, order, axis=0, out=shuffled, mode="clip")  # other modes copy once more
        sums[draw] = shuffled.sum(axis=0)
    return sums


def _shuffled_groups(block: Cells, rng: np.random.Generator) -> Floats:
    """(num_groups, num_dates, num_stats) sums over groups of shuffled items.

    If there are few, each is a group, and needs no shuffle yet.
    """
    num_items, num_dates = block.index.shape
    most = max(1, GROUP_CELLS // num_dates)
    if num_items <= most:
        return block.group_sums(np.arange(num_items), num_items)
    shuffled = dataclasses.replace(block, index=rng.permuted(block.index, axis=1))
    return shuffled.group_sums(np.arange(num_items) * most // num_items, most)
