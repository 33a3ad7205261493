"""Intervals and p-values of paired differences, under simulated nulls and effects."""

import numpy as np
import pytest

from pipeline import metrics
from pipeline.analyses import stats
from pipeline.commands.compare import _paired


def cells(values: np.ndarray) -> stats.Cells:
    """(num_items, num_dates) outcomes as `Cells`; NaN where there is none."""
    return stats.Cells(
        index=np.where(np.isnan(values), -1, np.nan_to_num(values)).astype(np.int64),
        values=np.array([[0.0], [1.0]]),
        stat_numbers=np.zeros((2, 1), dtype=np.uint8),
        num_stats=1,
    )


def pairs(a: np.ndarray, b: np.ndarray) -> _paired.GroupSums:
    return _paired.group_sums(cells(a), cells(b), metrics.get("accuracy").combine)


def of_null(
    rng: np.random.Generator, num_items: int, num_dates: int, effect: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of two runs that are equally good, up to `effect`.

    Each has its own strength at each item, which all of its dates share.
    """
    share_a, share_b = rng.beta(0.5, 0.5, (2, num_items, 1))
    draws_a, draws_b = rng.random((2, num_items, num_dates))
    gained = rng.random((num_items, 1)) < effect
    return (draws_a < share_a).astype(float), ((draws_b < share_b) | gained).astype(float)


def test_the_interval_equals_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(1)
    a, b = (
        np.where(rng.random((30, 5)) < 0.1, np.nan, rng.random((30, 5)) < 0.5) for _ in range(2)
    )
    both = np.where(np.isnan(a + b), np.nan, 1.0)
    a, b = a * both, b * both
    low, high = _paired.interval(pairs(a, b), num_draws=4000)
    drawn = [rng.integers(30, size=30) for _ in range(4000)]
    plain = [np.mean(100 * (np.nanmean(b[d], axis=0) - np.nanmean(a[d], axis=0))) for d in drawn]
    assert [low, high] == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.8)
    assert high - low > 8


def test_the_interval_covers_no_difference_95_times_in_100_though_dates_depend_on_each_other() -> (
    None
):
    rng, covered, called, naive = np.random.default_rng(0), 0, 0, 0
    repetitions = 300
    for _ in range(repetitions):
        a, b = of_null(rng, 60, 6)
        low, high = _paired.interval(pairs(a, b), num_draws=300)
        covered += low <= 0 <= high
        difference = float(100 * (b - a).mean())
        naive += abs(difference) <= 1.96 * 100 * (b - a).std() / np.sqrt(a.size)
        draws = _paired.swapped(pairs(a, b), num_draws=300, seed=0)
        called += stats.p_value(draws, abs(difference)) < 0.05
    assert 0.92 <= covered / repetitions <= 0.975
    assert 0.025 <= called / repetitions <= 0.08, "the p-value keeps its level"
    assert naive / repetitions < 0.75, "taking outcomes as independent would not do"


def test_a_planted_effect_lies_in_the_interval_and_is_found() -> None:
    rng, covered = np.random.default_rng(3), 0
    for _ in range(40):
        a, b = of_null(rng, 200, 5, effect=0.5)
        low, high = _paired.interval(pairs(a, b))
        covered += low <= 25 <= high  # half of the items become right, and half of them were
        assert low > 0
        assert _paired.p_value(pairs(a, b), float(100 * (b - a).mean())) < 0.01
    assert covered >= 36


def test_the_p_value_is_that_of_all_swaps() -> None:
    rng = np.random.default_rng(8)
    gaps = rng.integers(-2, 4, 8)  # of 3 dates
    a, b = (
        np.array([[gap * sign > i for i in range(3)] for gap in gaps], dtype=float)
        for sign in (-1, 1)
    )
    signs = np.array([[1 - 2 * (n >> i & 1) for i in range(8)] for n in range(256)])
    exact = np.mean(np.abs(signs @ (b - a).mean(axis=1)) >= abs((b - a).mean(axis=1).sum()) - 1e-9)
    assert 0.02 < exact < 0.6
    difference = float(100 * (b - a).mean())
    assert _paired.p_value(pairs(a, b), difference, max_draws=8000) == pytest.approx(
        exact, abs=0.04
    )


def test_many_items_are_drawn_in_groups_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = of_null(np.random.default_rng(4), 900, 4)
    alone = _paired.interval(pairs(a, b), num_draws=3000)
    monkeypatch.setattr(_paired, "MAX_GROUPS", 400)
    grouped = pairs(a, b)
    assert grouped.counts.shape == (400, 4)
    assert grouped.counts.sum() == a.size
    assert (grouped.b.sum(axis=0)[:, 0] == b.sum(axis=0)).all()
    assert _paired.interval(grouped, num_draws=3000) == pytest.approx(
        alone, abs=0.12 * (alone[1] - alone[0])
    )


def test_how_many_draws_are_made_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = pairs(*of_null(np.random.default_rng(4), 50, 9))
    whole = (_paired.interval(sums), _paired.p_value(sums, 3.0))
    monkeypatch.setattr(_paired, "DRAWS_AT_ONCE", 77)
    assert (_paired.interval(sums), _paired.p_value(sums, 3.0)) == whole


def test_a_small_p_value_comes_from_as_many_draws_as_the_correction_needs() -> None:
    wrong, right = (np.full((40, 2), value) for value in (0.0, 1.0))
    assert _paired.p_value(pairs(wrong, right), 100.0) == pytest.approx(1 / 1001)
    assert _paired.p_value(pairs(wrong, right), 100.0, max_draws=5000) == pytest.approx(1 / 5001)
    assert _paired.p_value(pairs(wrong, wrong), 0.0, max_draws=5000) == 1.0
