"""How much a score changes with each thing that is varied."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from pipeline import analyses
from pipeline.analyses import conditions, deltas
from tests.synthetic import Run, evidence_in, evidence_of, parts


def spreads(*runs: Run) -> dict[tuple[str, str], dict[str, object]]:
    """Rows of the table `conditions` for one series, by axis and what is held fixed."""
    rows = conditions.table(evidence_of(*runs)).rows(named=True)
    assert len({(row["axis"], row["held"]) for row in rows}) == len(rows)
    return {(row["axis"], row["held"]): row for row in rows}


def test_a_spread_has_the_sd_with_n_minus_1_and_its_share_of_the_mean() -> None:
    row = analyses.spread(
        ["a", "b", "c", "d"], np.array([70.0, np.nan, 80.0, 90.0]), higher_is_better=True
    )
    assert (row["num_values"], row["mean"], row["sd"], row["cv_percent"]) == (3, 80.0, 10.0, 12.5)
    assert (row["worst_value"], row["worst"], row["best_value"], row["best"], row["delta"]) == (
        "a",
        70.0,
        "d",
        90.0,
        20.0,
    )


@given(st.lists(st.floats(0, 100) | st.just(float("nan")), max_size=6), st.booleans())
def test_a_spread_ends_at_the_extreme_scores(scores: list[float], higher_is_better: bool) -> None:
    row = analyses.spread(
        [str(i) for i in range(len(scores))], np.array(scores), higher_is_better=higher_is_better
    )
    known = [score for score in scores if not np.isnan(score)]
    assert row["num_values"] == len(known)
    if known:
        ends = (min(known), max(known)) if higher_is_better else (max(known), min(known))
        assert (row["worst"], row["best"]) == ends
        assert (scores[int(row["worst_value"])], scores[int(row["best_value"])]) == ends
        assert row["delta"] == max(known) - min(known)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([50.0], {"num_values": 1, "mean": 50.0, "sd": None, "cv_percent": None, "delta": 0.0}),
        ([0.0, 0.0], {"num_values": 2, "mean": 0.0, "sd": 0.0, "cv_percent": None, "delta": 0.0}),
        (
            [np.nan, np.nan],
            {
                "num_values": 0,
                "mean": None,
                "sd": None,
                "worst": None,
                "best_value": None,
                "delta": None,
            },
        ),
    ],
)
def test_a_spread_of_too_little_leaves_gaps(
    scores: list[float], expected: dict[str, object]
) -> None:
    row = analyses.spread(["a", "b"], np.array(scores), higher_is_better=True)
    assert {name: row[name] for name in expected} == expected


def test_a_sweep_of_dates_alone_varies_the_date_only() -> None:
    evidence = evidence_of(Run(num_dates=6))
    row, delta = (
        conditions.table(evidence).row(0, named=True),
        deltas.table(evidence).row(0, named=True),
    )
    assert conditions.table(evidence).select("axis", "held", "num_values", "num_dates").rows() == [
        ("date", "iso", 6, 0)
    ]
    assert [row[name] for name in ("mean", "sd", "worst", "best", "delta")] == [
        delta[n] for n in ("mean", "sd", "worst", "best", "delta")
    ]
    assert (row["worst_value"], row["best_value"]) == (
        str(delta["worst_date"]),
        str(delta["best_date"]),
    )


def test_without_dates_each_condition_is_one_score() -> None:
    runs = [
        Run(num_dates=0, wording=name, seed=i)
        for i, name in enumerate(("none", "helpful", "expert"))
    ]
    scores = evidence_of(*runs).by_variant["score"].to_numpy()
    row = spreads(*runs)["wording", "control"]
    assert (row["num_values"], row["num_dates"]) == (3, 0)
    assert row["mean"] == pytest.approx(scores.mean())
    assert row["sd"] == pytest.approx(scores.std(ddof=1))
    assert row["cv_percent"] == pytest.approx(100 * scores.std(ddof=1) / scores.mean())
    assert row["delta"] == pytest.approx(np.ptp(scores))
    assert 0 < row["chance_delta"] <= row["chance_delta_95"]


def test_with_dates_a_values_score_is_its_mean_over_the_dates() -> None:
    runs = [Run(num_dates=5), Run(num_dates=5, placement="user_end", control=False, seed=1)]
    by_variant = evidence_of(*runs).by_variant.drop_nulls("date")
    means = [
        by_variant.filter(placement=placement)["score"].mean()
        for placement in ("system_start", "user_end")
    ]
    row = spreads(*runs)["placement", "iso"]
    assert (row["num_values"], row["num_dates"], row["chance_delta_95"]) == (2, 5, None)
    assert (row["worst"], row["best"]) == (pytest.approx(min(means)), pytest.approx(max(means)))
    assert row["mean"] == pytest.approx(np.mean(means))


def test_one_axis_is_varied_at_a_time() -> None:
    runs = [
        Run(
            num_dates=3,
            num_items=20,
            wording=wording,
            placement=placement,
            control=placement == "system_start",
            seed=i,
        )
        for i, (wording, placement) in enumerate(
            itertools.product(("none", "helpful"), ("system_start", "user_end"))
        )
    ]
    assert sorted(spreads(*runs)) == [
        ("date", "iso"),
        ("date", "iso;placement=user_end"),
        ("date", "iso;placement=user_end;wording=helpful"),
        ("date", "iso;wording=helpful"),
        ("placement", "iso"),
        ("placement", "iso;wording=helpful"),
        ("wording", "control"),
        ("wording", "iso"),
        ("wording", "iso;placement=user_end"),
    ]


@pytest.mark.parametrize(
    ("axis", "values", "held"),
    [
        ("option_order", [1, 2, 10], "control"),
        ("location", ["none", "tokyo"], "control"),
        ("date_format", ["iso", "slashes"], "dated"),
        ("year", [2023, 2024], "iso"),
    ],
)
def test_every_axis_is_compared(axis: str, values: list[object], held: str) -> None:
    num_dates = 0 if held == "control" else 3
    runs = [
        Run(num_dates=num_dates, seed=i, control=not num_dates, **{axis: v})
        for i, v in enumerate(values)
    ]  # type: ignore[arg-type]
    row = spreads(*runs)[axis, held]
    assert (row["num_values"], row["num_dates"]) == (len(values), num_dates)
    assert {row["worst_value"], row["best_value"]} <= {str(v) for v in values}


def test_the_worst_value_of_an_error_is_its_highest() -> None:
    runs = [Run(num_dates=0, option_order=i, seed=i, metrics=("accuracy", "ece")) for i in range(4)]
    rows = conditions.table(evidence_of(*runs)).rows_by_key("metric", named=True, unique=True)
    assert rows["ece"]["worst"] > rows["ece"]["best"]
    assert rows["accuracy"]["worst"] < rows["accuracy"]["best"]


def test_a_condition_that_failed_is_no_value() -> None:
    frames = parts(*(Run(num_dates=0, num_items=10, option_order=i, seed=i) for i in range(3)))
    failed = (
        frames["completions"]
        .filter(variant="control;order=1")
        .select("item_id", output_id=pl.lit("0" * 16))
    )
    scores = pl.concat(
        [
            frames["scores"],
            frames["scores"].head(1).drop("item_id", "output_id").join(failed, how="cross"),
        ],
        how="diagonal",
    )
    scores = scores.with_columns(stats=pl.when(pl.col("output_id") != "0" * 16).then("stats"))
    scores = scores.with_columns(
        status=pl.when(pl.col("stats").is_null()).then(pl.lit("failed")).otherwise("status")
    )
    is_lost = pl.col("variant") == "control;order=1"
    completions = frames["completions"].with_columns(
        output_id=pl.when(is_lost).then(pl.lit("0" * 16)).otherwise("output_id")
    )
    row = conditions.table(
        evidence_in(frames | {"completions": completions, "scores": scores})
    ).row(0, named=True)
    assert row["num_values"] == 2
    assert "1" not in (row["worst_value"], row["best_value"])
