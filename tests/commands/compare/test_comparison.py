"""Two runs compared pair by pair, against plain recomputation."""

import dataclasses
import datetime

import numpy as np
import polars as pl
import pytest

from pipeline.analyses import stats
from pipeline.commands.compare import compare_evidence
from tests import synthetic
from tests.commands.compare.runs import A, B, measured, outcomes, row


def test_scores_and_flips_equal_a_plain_recomputation() -> None:
    a, b = measured(**A), measured(**B)
    in_a, in_b = outcomes(**A), outcomes(**B)
    dated = sorted({variant for _, variant in in_a if variant != "control"})
    compared = row(a, b, metric="accuracy")
    by_date = {
        v: [100 * np.mean([o[i, v] for i, w in o if w == v]) for o in (in_a, in_b)] for v in dated
    }
    gaps = {v: score_b - score_a for v, (score_a, score_b) in by_date.items()}
    assert compared["score_a"] == pytest.approx(np.mean([s for s, _ in by_date.values()]))
    assert compared["score_b"] == pytest.approx(np.mean([s for _, s in by_date.values()]))
    assert compared["difference"] == pytest.approx(np.mean(list(gaps.values())))
    assert (compared["lowest"], compared["highest"]) == (
        pytest.approx(min(gaps.values())),
        pytest.approx(max(gaps.values())),
    )
    assert compared["lowest_date"] == datetime.date.fromisoformat(
        min(gaps, key=lambda v: round(gaps[v], 9)).removeprefix("iso:")
    )
    assert compared["highest_date"] == datetime.date.fromisoformat(
        max(gaps, key=lambda v: round(gaps[v], 9)).removeprefix("iso:")
    )
    pairs = [(in_a[key], in_b[key]) for key in in_a if key[1] != "control"]
    assert compared["num_right_only_a"] == sum(x > y for x, y in pairs)
    assert compared["num_right_only_b"] == sum(x < y for x, y in pairs)
    assert (
        compared["num_differing"] == compared["num_right_only_a"] + compared["num_right_only_b"] > 0
    )
    assert (compared["num_pairs"], compared["num_items"], compared["num_dates"]) == (
        len(pairs),
        40,
        12,
    )


def test_a_control_is_compared_by_its_one_score() -> None:
    a, b = measured(**A), measured(**B)
    compared = row(a, b, "control", metric="accuracy")
    scores = [
        e.by_variant.filter(variant="control", metric="accuracy")["score"].item() for e in (a, b)
    ]
    assert [compared["score_a"], compared["score_b"]] == pytest.approx(scores)
    assert (
        compared["num_dates"],
        compared["lowest"],
        compared["lowest_date"],
        compared["highest_date"],
    ) == (0, None, None, None)
    assert compared["low"] <= compared["difference"] <= compared["high"]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_a_corpus_score_is_put_together_from_the_sums_of_each_draw(metric: str) -> None:
    kind = {
        "task": "wmt16_en_de",
        "metrics": (metric,),
        "num_items": 12,
        "num_dates": 3,
        "varying": 1.0,
    }
    a, b = measured(**kind), measured(**kind, seed=1)
    compared, one = row(a, b), next(a.outcomes())
    other, columns = next(b.outcomes()), one.dates("iso")
    rng = np.random.default_rng(5)
    plain = []
    cells, combine = [o.stats.dates(columns) for o in (one, other)], one.metric.combine
    for _ in range(600):
        drawn = rng.integers(12, size=12)
        score_a, score_b = (stats.scores_by_date(c.items(drawn), combine) for c in cells)
        plain.append(float(np.mean(score_b - score_a)))
    spread = np.std(plain)
    assert [compared["low"], compared["high"]] == pytest.approx(
        np.quantile(plain, [0.025, 0.975]), abs=0.35 * spread
    )
    assert (compared["num_right_only_a"], compared["num_right_only_b"]) == (None, None)
    assert compared["num_differing"] > 0


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    a = synthetic.evidence_of(
        synthetic.Run(num_items=15, num_dates=4, metrics=("accuracy", "ece")),
        synthetic.Run(task="wmt16_en_de", metrics=("bleu", "chrf"), num_items=9, num_dates=3),
    )
    comparison = compare_evidence(a, a)
    assert comparison.rows.height == 8
    for name in ("difference", "low", "high", "num_differing"):
        assert (comparison.rows[name] == 0).all()
    assert (comparison.rows["p_value_holm"] == 1).all()
    assert comparison.notes == []


def test_swapping_the_runs_negates_the_differences() -> None:
    a, b = measured(**A), measured(**B, no_answer=0.1)
    there, back = (compare_evidence(x, y).rows for x, y in ((a, b), (b, a)))
    assert (there["difference"] != 0).any()
    for name, other in {
        "difference": "difference",
        "low": "high",
        "high": "low",
        "lowest": "highest",
        "highest": "lowest",
    }.items():
        assert there[name].to_list() == [
            None if value is None else pytest.approx(-value) for value in back[other]
        ], name
    for name, other in (
        ("score_a", "score_b"),
        ("num_right_only_a", "num_right_only_b"),
        ("num_dates_only_a", "num_dates_only_b"),
    ):
        assert there[name].to_list() == back[other].to_list()
    assert there["p_value"].to_list() == back["p_value"].to_list()


def test_the_order_of_rows_does_not_matter() -> None:
    values = {"num_items": 20, "num_dates": 5, "metrics": ("accuracy", "ece")}
    parts = [synthetic.parts(synthetic.Run(**values, seed=seed)) for seed in (0, 1)]
    first = compare_evidence(*(synthetic.evidence_in(part) for part in parts))
    mixed = [
        {name: frame.sample(fraction=1, shuffle=True, seed=7) for name, frame in part.items()}
        for part in parts
    ]
    again = compare_evidence(*(synthetic.evidence_in(part) for part in mixed))
    assert again.rows.equals(first.rows)


def test_only_common_items_and_dates_are_compared_and_the_rest_is_counted() -> None:
    a, b = measured(num_items=30, num_dates=6), measured(num_items=24, num_dates=9, seed=1)
    comparison = compare_evidence(a, b)
    iso = comparison.rows.row(by_predicate=pl.col("condition") == "iso", named=True)
    assert (iso["num_items"], iso["num_dates"], iso["num_pairs"]) == (24, 6, 144)
    assert (
        iso["num_items_only_a"],
        iso["num_items_only_b"],
        iso["num_dates_only_a"],
        iso["num_dates_only_b"],
    ) == (6, 0, 0, 3)
    right = outcomes(num_items=30, num_dates=6)
    expected = np.mean(
        [
            value
            for (item, variant), value in right.items()
            if item < "test-00024" and variant != "control"
        ]
    )
    assert iso["score_a"] == pytest.approx(100 * expected)
    assert "left out, mmlu.zero_shot: 6 items only in A, 0 only in B" in comparison.notes
    assert "left out, iso: 0 dates only in A, 3 only in B" in comparison.notes


def test_an_outcome_that_failed_in_one_run_leaves_both() -> None:
    run = synthetic.Run(num_items=10, num_dates=3, varying=1.0)
    parts = synthetic.parts(run)
    lost = (
        parts["completions"]
        .filter(pl.col("variant").str.starts_with("iso"))["output_id", "item_id"]
        .row(0)
    )
    is_lost = (pl.col("output_id") == lost[0]) & (pl.col("item_id") == lost[1])
    broken = parts["scores"].with_columns(
        status=pl.when(is_lost).then(pl.lit("failed")).otherwise("status"),
        stats=pl.when(is_lost).then(None).otherwise("stats"),
    )
    a, b = synthetic.evidence_in(parts), synthetic.evidence_in(parts | {"scores": broken})
    compared = row(a, b)
    assert compared["num_outcomes_only_a"] > 0
    assert compared["num_outcomes_only_b"] == 0
    assert compared["num_pairs"] == 30 - compared["num_outcomes_only_a"]
    assert (compared["difference"], compared["num_differing"]) == (0, 0), (
        "scored like it in A would be a difference that is none"
    )


def test_items_that_ask_something_else_are_not_pairs() -> None:
    parts = synthetic.parts(synthetic.Run(num_items=10, num_dates=2))
    other = parts["items"].with_columns(
        target=pl.when(pl.col("item_id") == "test-00003").then(pl.lit("Z")).otherwise("target")
    )
    comparison = compare_evidence(
        synthetic.evidence_in(parts), synthetic.evidence_in(parts | {"items": other})
    )
    assert comparison.rows["num_items"].to_list() == [9, 9]
    assert comparison.rows["num_items_changed"].to_list() == [1, 1]
    assert "left out, mmlu: 1 items that ask something else in B" in comparison.notes


def test_what_one_run_alone_has_is_named() -> None:
    both = {"num_items": 6, "num_dates": 2}
    a = synthetic.evidence_of(
        synthetic.Run(**both),
        synthetic.Run(**both, task="gsm8k"),
        synthetic.Run(**both, placement="user_end", control=False),
    )
    comparison = compare_evidence(a, measured(**both))
    assert comparison.rows["condition"].to_list() == ["control", "iso"]
    gone = [
        "gsm8k.zero_shot accuracy, control",
        "gsm8k.zero_shot accuracy, iso",
        "mmlu.zero_shot accuracy, iso;placement=user_end",
    ]
    assert comparison.notes == [f"left out, only in A: {'; '.join(f'm {name}' for name in gone)}"]


def test_conditions_are_compared_one_by_one() -> None:
    usual = [synthetic.Run(num_items=8, num_dates=3, seed=seed) for seed in (0, 1)]
    pair = [
        synthetic.evidence_of(run, dataclasses.replace(run, placement="user_end", control=False))
        for run in usual
    ]
    rows = compare_evidence(*pair).rows
    assert rows["condition"].to_list() == ["control", "iso", "iso;placement=user_end"]


def test_one_item_has_no_interval() -> None:
    compared = row(measured(num_items=1, num_dates=3), measured(num_items=1, num_dates=3, seed=2))
    assert (
        compared["num_items"],
        compared["low"],
        compared["high"],
        compared["p_value"],
        compared["p_value_holm"],
    ) == (1, None, None, None, None)
    assert compared["difference"] is not None


def test_the_noise_floor_stands_beside_the_outcomes_that_differ() -> None:
    compared = row(measured(**A), measured(**B | {"placebo_every": 0}), metric="accuracy")
    assert compared["placebo_flip_percent_a"] > 0
    assert compared["placebo_flip_percent_b"] is None
