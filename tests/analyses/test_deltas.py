"""Worst and best date, against planted effects and planted chance."""

import datetime

import numpy as np
import polars as pl
import pytest

from pipeline.analyses import by_date, deltas
from pipeline.core import records
from tests.synthetic import RUNS, Run, evidence_in, evidence_of, hand_made


def test_a_planted_effect_is_called_more_than_chance() -> None:
    rows = deltas.table(
        evidence_of(
            *(Run(model=f"m{seed}", seed=seed, num_items=150, effect=0.5) for seed in range(4))
        )
    )
    assert rows["verdict"].to_list() == [deltas.MORE] * 4


def test_independent_flips_are_not_called_more_than_chance() -> None:
    runs = [Run(model=f"m{seed}", seed=seed, num_items=150, varying=0.6) for seed in range(12)]
    rows = deltas.table(evidence_of(*runs))
    assert rows["verdict"].to_list() == [deltas.WITHIN] * 12
    assert (rows["delta"] > 0).all()
    # What chance gives is then what was seen, on average.
    assert rows["chance_delta"].mean() == pytest.approx(rows["delta"].mean(), rel=0.15)


def test_a_constant_run_has_no_delta_and_p_1() -> None:
    row = deltas.table(evidence_of(Run(varying=0))).row(0, named=True)
    assert (row["delta"], row["p_value"], row["p_value_holm"], row["verdict"]) == (
        0.0,
        1.0,
        1.0,
        deltas.WITHIN,
    )


def test_the_first_date_wins_ties() -> None:
    row = deltas.table(
        evidence_in(hand_made({"a": ["B", "A", "A", "B"], "b": ["A", "A", "A", "A"]}))
    ).row(0, named=True)
    assert (row["worst"], row["worst_date"]) == (50.0, datetime.date(2024, 1, 1))
    assert (row["best"], row["best_date"]) == (100.0, datetime.date(2024, 1, 2))
    assert (row["delta"], row["mean"], row["sd"]) == (
        50.0,
        75.0,
        pytest.approx(np.std([50, 100, 100, 50], ddof=1)),
    )


def test_the_worst_date_of_an_error_is_its_highest() -> None:
    rows = deltas.table(evidence_of(RUNS[0])).rows_by_key("metric", named=True, unique=True)
    assert rows["ece"]["worst"] > rows["ece"]["best"]
    assert rows["accuracy"]["worst"] < rows["accuracy"]["best"]
    assert rows["ece"]["delta"] == pytest.approx(rows["ece"]["worst"] - rows["ece"]["best"])


def test_a_delta_is_made_of_scores_of_the_other_table_to_the_last_digit() -> None:
    evidence = evidence_of(
        Run(num_items=97, num_dates=11, placebo_every=2, noise=0.5, metrics=("accuracy", "ece"))
    )
    scores = (
        by_date.table(evidence)
        .filter(pl.col("metric") == "ece", pl.col("replicate") == 0)
        .select("date", "score")
        .rows()
    )
    row = deltas.table(evidence).filter(pl.col("metric") == "ece").row(0, named=True)
    assert {
        (row["worst_date"], row["worst"]),
        (row["best_date"], row["best"]),
        (None, row["control"]),
    } <= set(scores)


def test_the_control_and_the_placebo_copies_are_no_dates_of_the_sweep() -> None:
    evidence = evidence_of(Run(num_dates=6, placebo_every=1, noise=1.0))
    row = deltas.table(evidence).row(0, named=True)
    scores = evidence.by_variant.filter(pl.col("date").is_not_null(), pl.col("replicate") == 0)[
        "score"
    ]
    control = evidence.by_variant.filter(pl.col("variant") == records.CONTROL)["score"].item()
    assert (row["num_dates"], row["worst"], row["best"], row["control"]) == (
        6,
        scores.min(),
        scores.max(),
        control,
    )


def test_one_date_gives_a_score_and_no_test() -> None:
    row = deltas.table(evidence_of(Run(num_dates=1))).row(0, named=True)
    assert (row["num_dates"], row["delta"], row["p_value"], row["verdict"]) == (
        1,
        0.0,
        None,
        deltas.TOO_FEW,
    )


def test_a_run_whose_scoring_failed_has_no_score() -> None:
    row = deltas.table(evidence_in(hand_made({"a": ["X", "X"]}, {"X": "failed"}))).row(
        0, named=True
    )
    assert (row["num_dates"], row["worst"], row["delta"], row["verdict"]) == (
        0,
        None,
        None,
        deltas.NO_SCORE,
    )


def test_a_date_that_failed_is_left_out() -> None:
    row = deltas.table(
        evidence_in(hand_made({"a": ["A", "X", "B"], "b": ["A", "X", "A"]}, {"X": "failed"}))
    ).row(0, named=True)
    assert (row["num_dates"], row["worst"], row["worst_date"]) == (
        2,
        50.0,
        datetime.date(2024, 1, 3),
    )


def test_the_verdict_goes_by_the_value_corrected_for_all_rows() -> None:
    effect = Run(model="effect", num_items=40, varying=0.5, effect=0.45, seed=2)
    alone = deltas.table(evidence_of(effect)).row(0, named=True)
    others = [Run(model=f"m{i}", seed=i, num_items=20) for i in range(30)]
    among = (
        deltas.table(evidence_of(effect, *others))
        .filter(pl.col("model") == "effect")
        .row(0, named=True)
    )
    assert alone["p_value_holm"] == alone["p_value"]
    assert alone["verdict"] == deltas.MORE
    assert among["p_value"] < deltas.ALPHA < among["p_value_holm"]
    assert among["verdict"] == deltas.WITHIN


def test_many_rows_get_enough_draws_for_the_correction() -> None:
    # With too few draws no p-value could be small enough, and the largest effect would be called
    # chance.
    runs = [
        Run(model=f"m{i:02d}", num_items=20, num_dates=6, varying=0.2, seed=i) for i in range(59)
    ]
    rows = deltas.table(
        evidence_of(Run(model="effect", num_items=150, varying=1, effect=1.0), *runs)
    )
    assert rows.filter(pl.col("model") == "effect")["verdict"].item() == deltas.MORE


def test_date_formats_are_compared_apart() -> None:
    rows = deltas.table(
        evidence_of(Run(num_dates=5), Run(num_dates=7, date_format="slashes", model="n"))
    )
    assert rows.select("date_format", "num_dates").rows() == [("iso", 5), ("slashes", 7)]


@pytest.mark.parametrize(
    ("other", "control"),
    [
        ({"placement": "user_end"}, "control"),
        ({"date_format": "slashes"}, "control"),
        ({"year": 2023}, "control"),
        ({"wording": "helpful"}, "control;wording=helpful"),
        ({"option_order": 2}, "control;order=2"),
        ({"location": "tokyo"}, "control;location=tokyo"),
    ],
)
def test_dates_are_compared_within_one_condition_and_with_its_own_control(
    other: dict[str, object], control: str
) -> None:
    changed = Run(num_items=20, num_dates=4, seed=7, control=control != "control", **other)  # type: ignore[arg-type]
    evidence = evidence_of(Run(num_items=20, num_dates=4), changed)
    rows = deltas.table(evidence)
    assert sorted(rows["condition"]) == sorted(
        ["iso", changed.variants().drop_nulls("date")["condition"][0]]
    )
    for row in rows.iter_rows(named=True):
        scored = evidence.by_variant.filter(condition=row["condition"])
        assert (row["num_dates"], row["worst"], row["best"]) == (
            4,
            scored["score"].min(),
            scored["score"].max(),
        )
        wanted = "control" if row["condition"] == "iso" else control
        assert row["control"] == evidence.by_variant.filter(variant=wanted)["score"].item()


def test_rates_of_missing_answers_are_over_the_dates() -> None:
    status = {"X": "failed", "": "no_answer", "T": "timeout"}
    outcomes = {
        "a": ["A", "A", "", "X"],
        "b": ["A", "", "", "A"],
        "c": ["A", "T", "A", "A"],
        "d": ["A", "A", "A", "A"],
    }
    row = deltas.table(evidence_in(hand_made(outcomes, status))).row(0, named=True)
    assert (row["no_answer_percent"], row["no_answer_percent_max"]) == (100 * 3 / 16, 50.0)
    assert (row["timeout_percent"], row["failed_percent"]) == (100 / 16, 100 / 16)


def test_missing_answers_of_the_control_and_the_copies_are_not_those_of_the_dates() -> None:
    evidence = evidence_of(Run(num_items=50, num_dates=4, placebo_every=1, no_answer=0.3))
    dated = evidence.by_variant.filter(pl.col("date").is_not_null(), pl.col("replicate") == 0)
    assert deltas.table(evidence)["no_answer_percent"].item() == pytest.approx(
        100 * dated["num_no_answer"].sum() / dated["num_items"].sum()
    )
