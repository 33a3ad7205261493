"""Items that flip, and the noise floor."""

import datetime

import polars as pl
import pytest

from pipeline.analyses import conditions, deltas, flip_rates, flips
from tests.synthetic import RUNS, Run, evidence_in, evidence_of, hand_made, parts, rows_in


def test_an_item_that_flips_is_shown_with_two_dates_and_its_right_answer() -> None:
    outcomes = {
        "same": ["A", "A", "A"],
        "flips": ["B", "B", "A"],
        "wrong": ["B", "C", "D"],
        "gap": ["X", "A", "X"],
    }
    rows = flips.table(evidence_in(hand_made(outcomes, {"X": "failed"})))
    assert rows.height == 1  # answers that are wrong in other ways do not flip
    row = rows.row(0, named=True)
    assert (row["item_id"], row["group"], row["target"]) == ("flips", "g", "A")
    assert (row["num_dates"], row["num_answers"], row["num_right"], row["right_percent"]) == (
        3,
        2,
        1,
        pytest.approx(100 / 3),
    )
    assert row["common_answer"] == "B"
    assert (row["date_a"], row["answer_a"]) == (datetime.date(2024, 1, 1), "B")
    assert (row["date_b"], row["answer_b"]) == (datetime.date(2024, 1, 3), "A")


def test_graded_answers_flip_when_their_text_does() -> None:
    evidence = evidence_of(RUNS[2])
    flipping, rates = flips.table(evidence), flip_rates.table(evidence)
    dated = rows_in(parts(RUNS[2])).filter(pl.col("date").is_not_null(), metric="bleu")
    texts = dated.group_by("item_id").agg(pl.col("answer").n_unique())
    assert sorted(flipping["item_id"]) == sorted(texts.filter(pl.col("answer") > 1)["item_id"])
    assert flipping["num_right"].null_count() == flipping.height > 0
    assert rates["metric"].to_list() == ["bleu"]  # the headline only
    assert rates["num_flipping"].item() == flipping.height


def test_flip_rates_count_items_and_pairs() -> None:
    outcomes = {
        "same": ["A", "A", "A"],
        "flips": ["B", "B", "A"],
        "gap": ["A", "X", "B"],
        "wrong": ["B", "C", "D"],
    }
    row = flip_rates.table(evidence_in(hand_made(outcomes, {"X": "failed"}))).row(0, named=True)
    assert (row["num_items"], row["num_flipping"], row["flipping_percent"]) == (4, 2, 50.0)
    assert row["pair_flip_percent"] == pytest.approx(100 * (2 + 1) / (3 + 3 + 1 + 3))
    assert row["pair_output_percent"] == pytest.approx(
        100 * (2 + 3 + 3) / 12
    )  # the failed output is still an output
    assert (row["num_placebo_pairs"], row["placebo_flip_percent"]) == (0, None)


def test_an_engine_that_repeats_itself_has_no_noise_floor() -> None:
    row = flip_rates.table(evidence_of(Run(placebo_every=2, noise=0.0))).row(0, named=True)
    assert row["num_placebo_pairs"] == 15 * 60
    assert (row["placebo_flip_percent"], row["placebo_output_percent"]) == (0.0, 0.0)
    assert 0 < row["placebo_flip_percent_high"] < 1


def test_the_noise_floor_is_the_share_of_copies_that_differ_from_their_own_date() -> None:
    run = Run(num_items=40, num_dates=9, placebo_every=2, noise=0.5)
    evidence, rows = evidence_of(run), rows_in(parts(run)).drop_nulls("date")
    right = {
        (r["item_id"], r["date"], r["replicate"]): r["stats"] for r in rows.iter_rows(named=True)
    }
    outcomes = [
        (right[item, date, 0], value)
        for (item, date, replicate), value in right.items()
        if replicate == 1
    ]
    expected = 100 * sum(a != b for a, b in outcomes) / len(outcomes)
    assert expected > 0
    assert flip_rates.table(evidence)["placebo_flip_percent"].item() == pytest.approx(expected)
    assert deltas.table(evidence)["placebo_flip_percent"].item() == pytest.approx(expected)


def test_only_the_same_date_is_compared_with_a_copy() -> None:
    # A copy of date 2 repeats it exactly; date 1, which differs, must not be held against it.
    frames = hand_made({"a": ["A", "B"], "b": ["B", "A"]})
    second = (
        frames["completions"]
        .filter(pl.col("variant") == "iso:2024-01-02")
        .with_columns(replicate=pl.lit(1, pl.Int64))
    )
    completions = pl.concat([frames["completions"], second])
    rates = flip_rates.table(evidence_in(frames | {"completions": completions}))
    assert rates.select(
        "num_placebo_pairs", "placebo_flip_percent", "placebo_output_percent"
    ).rows() == [(2, 0.0, 0.0)]


def test_the_noise_of_a_sweep_without_dates_comes_from_copies_of_its_controls() -> None:
    runs = [
        Run(num_dates=0, wording=name, placebo_every=1, noise=0.5) for name in ("none", "helpful")
    ]
    evidence = evidence_of(*runs)
    rates = flip_rates.table(evidence)
    assert rates.select("condition", "num_dates", "num_placebo_pairs").rows() == [
        ("control;wording=helpful", 0, 60),
        ("control", 0, 60),
    ]
    assert rates["flipping_percent"].null_count() == 2
    assert conditions.table(evidence)["placebo_flip_percent"].item() == pytest.approx(
        rates["placebo_flip_percent"].mean()
    )
    assert rates["placebo_flip_percent"].min() > 0


def test_styles_of_a_task_are_scored_apart() -> None:
    evidence = evidence_of(
        Run(num_dates=4, metrics=("accuracy", "ece")), Run(num_dates=6, style="cot")
    )
    rates = flip_rates.table(evidence)
    assert rates.select("style", "metric", "num_dates").rows() == [
        ("cot", "accuracy", 6),
        ("zero_shot", "accuracy", 4),
    ]
    assert deltas.table(evidence).height == 3
