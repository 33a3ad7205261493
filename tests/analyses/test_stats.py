"""Statistics against brute force, published examples and SciPy."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.analyses import stats


def mean_percent(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """A score as the metrics make it: NaN where nothing was counted."""
    return np.where(counts > 0, 100 * sums[..., 0] / np.maximum(counts, 1), np.nan)


def dense(outcomes: list[list[float]]) -> np.ndarray:
    return np.array(outcomes, dtype=np.float64)[:, :, None]


def cells(outcomes: np.ndarray) -> stats.Cells:
    """(num_items, num_dates, num_stats) statistics, NaN where there is no outcome."""
    rows, is_missing = outcomes.reshape(-1, outcomes.shape[2]), np.isnan(outcomes[:, :, 0])
    values, stat_numbers = stats.nonzero(np.nan_to_num(rows))
    index = np.where(is_missing, -1, np.arange(len(rows)).reshape(is_missing.shape))
    return stats.Cells(
        index=index, values=values, stat_numbers=stat_numbers, num_stats=outcomes.shape[2]
    )


def score(outcomes: np.ndarray) -> np.ndarray:
    return stats.scores_by_date(cells(outcomes), mean_percent)


def chance(outcomes: np.ndarray, num_draws: int = 200, seed: int = 0) -> np.ndarray:
    return stats.chance_deltas(cells(outcomes), mean_percent, num_draws=num_draws, seed=seed)


def all_deltas(outcomes: np.ndarray) -> list[float]:
    """Deltas of every way to shuffle each item's outcomes over the dates on which it has one."""
    ways = []
    for item in outcomes[:, :, 0]:
        have = np.flatnonzero(~np.isnan(item))
        shuffled = []
        for order in itertools.permutations(have):
            row = item.copy()
            row[have] = item[list(order)]
            shuffled.append(row)
        ways.append(shuffled)
    return [
        float(stats.value_range(score(np.stack(rows)[:, :, None])))
        for rows in itertools.product(*ways)
    ]


outcome_arrays = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 7), st.just(1)),
    elements=st.sampled_from([0.0, 1.0, float("nan")]),
)


@pytest.mark.parametrize(
    "outcomes",
    [
        [[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 1]],
        [[1, 0, np.nan], [np.nan, 1, 0], [0, 1, 0], [1, np.nan, np.nan], [1, 0, 1]],
    ],
    ids=["complete", "with gaps"],
)
def test_chance_deltas_follow_the_distribution_over_all_shuffles(
    outcomes: list[list[float]],
) -> None:
    values = np.round(all_deltas(dense(outcomes)), 6)
    draws = np.round(chance(dense(outcomes), num_draws=8000), 6)
    assert set(draws) <= set(values)
    for value in set(values):
        assert np.mean(draws == value) == pytest.approx(np.mean(values == value), abs=0.025)


@given(outcome_arrays, st.integers(1, 40), st.integers(1, 5))
def test_a_draw_moves_outcomes_but_keeps_each_dates_count_and_the_total(
    outcomes: np.ndarray, group_cells: int, per_shuffle: int
) -> None:
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def spy(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        seen.append((sums, counts))
        return mean_percent(sums, counts)

    outcome_cells = cells(outcomes)
    before = outcome_cells.index.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "GROUP_CELLS", group_cells)
        patch.setattr(stats, "DRAWS_PER_SHUFFLE", per_shuffle)
        stats.chance_deltas(outcome_cells, spy, num_draws=3, seed=1)
    present = ~np.isnan(outcomes[:, :, 0])
    assert sum(len(sums) for sums, _ in seen) == 3
    for sums, counts in seen:
        assert (counts == present.sum(axis=0)).all()
        assert (sums[:, :, 0].sum(axis=1) == np.nansum(outcomes)).all()
        assert (sums[:, :, 0] <= counts).all()
    np.testing.assert_array_equal(outcome_cells.index, before)


@pytest.mark.parametrize("per_shuffle", [1, 40])
def test_draws_by_groups_of_items_follow_the_same_distribution(
    per_shuffle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    outcomes = (rng.random((300, 12, 1)) < rng.uniform(0.05, 0.95, (300, 1, 1))).astype(np.float64)
    outcomes[:40, :3] = np.nan
    alone = chance(outcomes, num_draws=4000, seed=1)
    monkeypatch.setattr(stats, "GROUP_CELLS", 24 * 12)
    monkeypatch.setattr(stats, "DRAWS_PER_SHUFFLE", per_shuffle)
    grouped = chance(outcomes, num_draws=4000, seed=2)
    assert grouped.mean() == pytest.approx(alone.mean(), rel=0.02)
    assert grouped.std() == pytest.approx(alone.std(), rel=0.08)
    for share in (0.05, 0.5, 0.95):
        assert np.quantile(grouped, share) == pytest.approx(np.quantile(alone, share), rel=0.04)


def test_groups_do_not_keep_what_their_items_have_in_common(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All items are right on the same date: sums of groups that were not shuffled first would keep
    # that peak, and no group has fewer items.
    outcomes = np.zeros((200, 10, 1))
    outcomes[:, 4] = 1
    monkeypatch.setattr(stats, "GROUP_CELLS", 10)
    assert chance(outcomes, num_draws=20).max() < 50


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 9), st.integers(0, 5), st.integers(1, 6)),
        elements=st.floats(-9, 9),
    ),
    st.data(),
)
def test_cells_stand_for_the_statistics_they_were_made_of(
    outcomes: np.ndarray, data: st.DataObject
) -> None:
    missing = data.draw(hnp.arrays(np.bool_, outcomes.shape[:2]))
    outcomes[missing] = np.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "BLOCK_CELLS", data.draw(st.integers(1, 20)))
        outcome_cells = cells(outcomes)
        np.testing.assert_array_equal(outcome_cells.counts, (~missing).sum(axis=0))
        expected = np.zeros(outcomes.shape[1:])
        for item in np.nan_to_num(outcomes):
            expected += item  # one after the other: equal to the last bit
        np.testing.assert_array_equal(outcome_cells.sums(), expected)
        shown = [item[~np.isnan(item[:, 0])] for item in outcomes]
        assert outcome_cells.varying().tolist() == [
            bool(len(item)) and bool((item != item[0]).any()) for item in shown
        ]


def test_the_statistics_of_one_outcome_move_together() -> None:
    first = np.random.default_rng(0).integers(0, 9, (20, 8)).astype(np.float64)
    both = np.stack([first, 9 - first], axis=2)
    draws = stats.chance_deltas(
        cells(both), lambda sums, counts: sums.sum(axis=-1) / counts, num_draws=20, seed=0
    )
    assert (draws == 0).all()


def test_equal_seeds_give_equal_draws_and_others_do_not() -> None:
    outcomes = (np.random.default_rng(3).random((40, 12, 1)) < 0.5).astype(np.float64)
    np.testing.assert_array_equal(chance(outcomes, seed=1), chance(outcomes, seed=1))
    assert (chance(outcomes, seed=1) != chance(outcomes, seed=2)).any()


def test_items_that_never_vary_leave_no_range() -> None:
    outcomes = np.repeat(np.array([1.0, 0, 1])[:, None, None], 5, axis=1)
    assert (chance(outcomes) == 0).all()


def test_a_date_that_lost_items_is_compared_with_draws_that_lost_the_same() -> None:
    # The last date has only the items that are always right: its score of 100 is an effect of what
    # is missing, not of the date.
    outcomes = np.array([[1.0] * 6] * 5 + [[0, 0, 0, 0, 0, np.nan]] * 5)[:, :, None]
    observed = float(stats.value_range(score(outcomes)))
    assert observed == 50
    assert stats.p_value(chance(outcomes), observed) == 1


def test_a_true_null_is_rejected_no_more_often_than_stated() -> None:
    rng, num_sets = np.random.default_rng(11), 120
    rejected = 0
    for seed in range(num_sets):
        outcomes = (rng.random((30, 10, 1)) < rng.uniform(0.1, 0.9, (30, 1, 1))).astype(np.float64)
        delta = float(stats.value_range(score(outcomes)))
        rejected += stats.p_value(chance(outcomes, num_draws=99, seed=seed), delta) <= 0.05
    assert rejected <= scipy.stats.binom.ppf(0.999, num_sets, 0.05)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1.0, 4.0, 2.0], 3.0),
        ([1.0, np.nan, 2.5], 1.5),
        ([np.nan, 7.0], 0.0),
        ([np.nan, np.nan], 0.0),
        ([], 0.0),
    ],
)
def test_value_range_leaves_dates_without_a_score_out(scores: list[float], expected: float) -> None:
    assert float(stats.value_range(np.array(scores))) == expected


def test_p_value_counts_the_observed_one_and_takes_last_digits_for_ties() -> None:
    draws = np.array([1.0, 2.0, 3.0])
    assert stats.p_value(draws, 9.0) == 0.25
    assert stats.p_value(draws, 2.0 + 1e-12) == 0.75
    assert stats.p_value(draws, 0.0) == 1


def test_holm_gives_the_adjusted_values_of_a_worked_case() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1; the last is raised to its predecessor.
    np.testing.assert_allclose(
        stats.holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02]
    )


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_rejects_what_the_step_down_procedure_rejects(values: list[float]) -> None:
    adjusted, remaining, level = stats.holm(np.array(values)), sorted(values), 0.05
    rejected = 0
    while remaining and remaining[0] * len(remaining) < level:
        remaining.pop(0)
        rejected += 1
    assert int((adjusted < level).sum()) == rejected
    assert (adjusted >= np.array(values)).all()
    assert (adjusted <= 1).all()


def test_holm_does_not_count_tests_that_were_not_made() -> None:
    np.testing.assert_array_equal(
        stats.holm(np.array([np.nan, 0.02, np.nan])), [np.nan, 0.02, np.nan]
    )


@given(st.integers(0, 400), st.integers(1, 400))
def test_wilson_agrees_with_scipy(successes: int, extra: int) -> None:
    oracle = scipy.stats.binomtest(successes, successes + extra).proportion_ci(method="wilson")
    assert stats.wilson(successes, successes + extra) == pytest.approx(
        (oracle.low, oracle.high), abs=1e-12
    )


def test_wilson_knows_nothing_without_trials() -> None:
    assert stats.wilson(0, 0) == (0.0, 1.0)


@given(outcome_arrays)
def test_flip_counts_agree_with_comparing_all_pairs(outcomes: np.ndarray) -> None:
    present = ~np.isnan(outcomes[:, :, 0])
    codes = np.where(present, outcomes[:, :, 0], -7).astype(np.int64)
    lists = [
        [int(c) for c, p in zip(row, have, strict=True) if p]
        for row, have in zip(codes, present, strict=True)
    ]
    pairs = [(a, b) for row in lists for a, b in itertools.combinations(row, 2)]
    assert stats.pairwise_flips(codes, present) == (sum(a != b for a, b in pairs), len(pairs))
    assert stats.flips(codes, present).tolist() == [len(set(row)) > 1 for row in lists]


def test_paired_flips_count_only_cells_that_both_have() -> None:
    codes, other = np.array([[1, 2, 3]]), np.array([[1, 5, 6]])
    assert stats.paired_flips(codes, other, np.array([[True, True, False]])) == (1, 2)


def test_no_dates_and_no_items_are_no_error() -> None:
    empty = np.zeros((3, 0), dtype=np.int64)
    assert not stats.flips(empty, empty.astype(bool)).any()
    assert stats.pairwise_flips(empty, empty.astype(bool)) == (0, 0)
    assert (chance(np.zeros((0, 4, 1))) == 0).all()
