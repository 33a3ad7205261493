"""The tables that answer a run's questions: contracts over all analyses, then each table against
planted truths.
"""

import datetime
import io
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from pipeline import analyses, metrics
from pipeline.analyses import Evidence, deltas, evidence
from pipeline.core import errors, records, registry, tables
from tests.synthetic import Run, evidence_of, parts

NAMES = registry.names("analyses")
RUNS = (
    Run(num_items=24, num_dates=8, placebo_every=3, noise=0.2, metrics=("accuracy", "ece")),
    Run(model="other", num_items=24, num_dates=8, effect=0.5),
    Run(task="wmt16_en_de", metrics=("bleu", "chrf"), num_items=12, num_dates=8),
    Run(
        num_items=24,
        num_dates=8,
        placement="user_end",
        option_order=2,
        no_answer=0.1,
        metrics=("accuracy", "ece"),
    ),
)


def joined(found: dict[str, pl.DataFrame]) -> Evidence:
    return evidence(
        found["completions"].lazy(), found["scores"].lazy(), found["variants"], found["items"]
    )


def hand_made(
    outcomes: dict[str, list[str]], status: dict[str, str] | None = None, num_dates: int = 0
) -> dict[str, pl.DataFrame]:
    """A run in which item `i` gave `outcomes[i]` date by date; every right answer is A.

    `status` names that of an answer, else `scored`.
    """
    status = status or {}
    num_dates = num_dates or max(len(answers) for answers in outcomes.values())
    run = Run(num_items=1, num_dates=num_dates)
    names = run.variants()["variant"].to_list()[1:]
    key = {"model": "m", "engine": "default", "task": "mmlu", "style": "zero_shot"}
    completions, scores = [], {}
    for item, answers in outcomes.items():
        for variant, answer in zip(names, answers, strict=False):
            identity = tables.output_id(answer, [])
            completions.append(
                {
                    **key,
                    "item_id": item,
                    "variant": variant,
                    "replicate": 0,
                    "output_id": identity,
                    "text": answer,
                }
            )
            state = status.get(answer, "scored")
            stats = None if state == "failed" else [float(answer == "A")]
            judged = {
                "metric": "accuracy",
                "status": state,
                "answer": answer,
                "rule": "argmax",
                "detail": "",
                "stats": stats,
            }
            scores[item, identity] = {**key, "item_id": item, "output_id": identity, **judged}
    items = [
        records.Item(
            task="mmlu",
            item_id=i,
            group="g",
            fields={},
            options=list("AB"),
            target="A",
            references=[],
        )
        for i in outcomes
    ]
    return {
        "completions": pl.DataFrame(completions),
        "scores": pl.DataFrame(list(scores.values()), schema=tables.schema(records.Score)),
        "variants": run.variants(),
        "items": tables.from_records(records.Item, items),
    }


def table(name: str, found: Evidence) -> pl.DataFrame:
    return analyses.get(name)(found)


def parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


# Contracts over every analysis.


@pytest.mark.parametrize("name", NAMES)
def test_an_analysis_says_what_it_asks(name: str) -> None:
    module = registry.module("analyses", name)
    assert module.TITLE
    assert module.QUESTION.endswith("?")


@pytest.mark.parametrize("name", NAMES)
def test_a_table_does_not_depend_on_the_order_of_rows(name: str) -> None:
    found = parts(*RUNS)
    shuffled = {key: frame.sample(fraction=1, shuffle=True, seed=5) for key, frame in found.items()}
    assert parquet(table(name, joined(found))) == parquet(table(name, joined(shuffled)))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_nothing_has_the_same_columns(name: str) -> None:
    found = parts(Run())
    empty = joined(
        found | {"completions": found["completions"].clear(), "scores": found["scores"].clear()}
    )
    assert table(name, empty).schema == table(name, joined(found)).schema
    assert table(name, empty).height == 0


# Evidence.


def test_scores_equal_a_plain_computation_from_the_rows() -> None:
    found = evidence_of(*RUNS)
    rows = found.rows.collect()
    for key, mine in rows.group_by(analyses.VARIANT_KEY):
        one = found.by_variant.filter(
            *(pl.col(n) == v for n, v in zip(analyses.VARIANT_KEY, key, strict=True))
        ).row(0, named=True)
        sums = np.array(mine["stats"].to_list()).sum(axis=0)
        assert one["score"] == pytest.approx(
            float(metrics.get(one["metric"]).combine(sums, np.array(float(mine.height)))), abs=1e-9
        )
        assert (one["num_items"], one["num_scored"] + one["num_no_answer"]) == (
            mine.height,
            mine.height,
        )


def test_a_failed_row_leaves_the_mean_and_no_answer_or_a_timeout_counts_as_wrong() -> None:
    status = {"X": "failed", "": "no_answer", "T": "timeout"}
    found = joined(
        hand_made(
            {"a": ["A", "A", "A", "X"], "b": ["A", "", "T", "X"], "c": ["A", "A", "X", "X"]}, status
        )
    )
    counts = table("by_date", found).select("score", *analyses.COUNTS).rows()
    assert counts == [
        (100.0, 3, 3, 0, 0, 0),
        (pytest.approx(200 / 3), 3, 2, 1, 0, 0),
        (50.0, 3, 1, 0, 1, 1),
        (None, 3, 0, 0, 3, 0),
    ]


def test_a_completion_without_a_score_is_an_error_that_says_how_many_and_where() -> None:
    found = parts(*RUNS)
    lost = (pl.col("metric") == "ece") & (pl.col("item_id") == "test-00003")
    asked = found["completions"].filter(task="mmlu", model="m")
    num_lost, num_asked = asked.filter(item_id="test-00003").height, asked.height
    with pytest.raises(
        errors.StoreError,
        match=rf"^{num_lost} of {num_asked} .*model m, .* metric ece\), the first: .*item_id test-00003",
    ):
        joined(found | {"scores": found["scores"].filter(~lost)})


def test_a_run_without_any_score_is_an_error() -> None:
    found = parts(*RUNS)
    with pytest.raises(errors.StoreError, match=r"completions have no score .*model other"):
        joined(found | {"scores": found["scores"].filter(pl.col("model") != "other")})


def test_two_scores_of_one_completion_are_an_error() -> None:
    found = parts(Run())
    with pytest.raises(
        errors.StoreError,
        match=r"^1 output\(s\) have more than one score \(model m, .* metric accuracy\)",
    ):
        joined(found | {"scores": pl.concat([found["scores"], found["scores"].head(1)])})


def test_scores_of_outputs_that_nobody_gave_change_nothing() -> None:
    found = parts(*RUNS[:2])
    scores = found["scores"]
    stale = [
        scores.head(5).with_columns(output_id=pl.lit("f" * 16)),
        scores.head(5).with_columns(engine=pl.lit("other")),
    ]
    fewer = found | {"completions": found["completions"].filter(pl.col("item_id") != "test-00004")}
    for name in NAMES:
        assert table(name, joined(found)).equals(
            table(name, joined(found | {"scores": pl.concat([scores, *stale])}))
        )
        assert table(name, joined(fewer)).equals(
            table(
                name, joined(fewer | {"scores": scores.filter(pl.col("item_id") != "test-00004")})
            )
        )


def test_outcomes_are_the_rows_as_arrays_and_can_be_gone_through_again() -> None:
    found = evidence_of(*RUNS)
    rows = found.rows.collect()
    for first, again in zip(found.outcomes(), found.outcomes(), strict=True):
        mine = rows.filter(*(pl.col(name) == value for name, value in first.series.items()))
        assert first.present.sum() == mine.height
        answers = {
            (r["item_id"], r["variant"], r["replicate"]): (r["answer"], r["stats"])
            for r in mine.iter_rows(named=True)
        }
        names = first.columns.select("variant", "replicate").rows()
        cells = first.stats
        for (item, column), code in np.ndenumerate(first.answers):
            answer, stats = answers[(first.item_ids[item], *names[column])]
            row = np.zeros(cells.num_stats)
            np.add.at(
                row,
                cells.places[cells.index[item, column]],
                cells.values[cells.index[item, column]],
            )
            assert (first.answer_texts[int(code)], row.tolist()) == (answer, stats)
        np.testing.assert_array_equal(first.outputs, again.outputs)
        np.testing.assert_array_equal(first.values, again.values)


def test_a_completion_stored_twice_is_an_error() -> None:
    found = parts(Run())
    with pytest.raises(
        errors.StoreError,
        match=r"1 completion\(s\) are stored twice .*item test-00000, variant control",
    ):
        joined(
            found | {"completions": pl.concat([found["completions"], found["completions"].head(1)])}
        )


@pytest.mark.parametrize(
    ("frame", "named"), [("variants", "variant iso:2024-01-30"), ("items", "item_id test-00059")]
)
def test_a_completion_of_an_unknown_variant_or_item_is_an_error(frame: str, named: str) -> None:
    found = parts(Run())
    with pytest.raises(errors.StoreError, match=named):
        joined(found | {frame: found[frame].head(-1)})


# Worst and best date.


def test_a_planted_effect_is_called_more_than_chance() -> None:
    found = table(
        "deltas",
        evidence_of(
            *(Run(model=f"m{seed}", seed=seed, num_items=150, effect=0.5) for seed in range(4))
        ),
    )
    assert found["verdict"].to_list() == [deltas.MORE] * 4


def test_independent_flips_are_not_called_more_than_chance() -> None:
    runs = [Run(model=f"m{seed}", seed=seed, num_items=150, varying=0.6) for seed in range(12)]
    found = table("deltas", evidence_of(*runs))
    assert found["verdict"].to_list() == [deltas.WITHIN] * 12
    assert (found["delta"] > 0).all()
    # What chance gives is then what was seen, on average.
    assert found["chance_delta"].mean() == pytest.approx(found["delta"].mean(), rel=0.15)


def test_a_constant_run_has_no_delta_and_p_1() -> None:
    row = table("deltas", evidence_of(Run(varying=0))).row(0, named=True)
    assert (row["delta"], row["p_value"], row["p_value_holm"], row["verdict"]) == (
        0.0,
        1.0,
        1.0,
        deltas.WITHIN,
    )


def test_the_first_date_wins_ties() -> None:
    row = table(
        "deltas", joined(hand_made({"a": ["B", "A", "A", "B"], "b": ["A", "A", "A", "A"]}))
    ).row(0, named=True)
    assert (row["worst"], row["worst_date"]) == (50.0, datetime.date(2024, 1, 1))
    assert (row["best"], row["best_date"]) == (100.0, datetime.date(2024, 1, 2))
    assert (row["delta"], row["mean"], row["sd"]) == (
        50.0,
        75.0,
        pytest.approx(np.std([50, 100, 100, 50], ddof=1)),
    )


def test_the_worst_date_of_an_error_is_its_highest() -> None:
    found = table("deltas", evidence_of(RUNS[0])).rows_by_key("metric", named=True, unique=True)
    assert found["ece"]["worst"] > found["ece"]["best"]
    assert found["accuracy"]["worst"] < found["accuracy"]["best"]
    assert found["ece"]["delta"] == pytest.approx(found["ece"]["worst"] - found["ece"]["best"])


def test_a_delta_is_made_of_scores_of_the_other_table_to_the_last_digit() -> None:
    found = evidence_of(
        Run(num_items=97, num_dates=11, placebo_every=2, noise=0.5, metrics=("accuracy", "ece"))
    )
    scores = (
        table("by_date", found)
        .filter(pl.col("metric") == "ece", pl.col("replicate") == 0)
        .select("date", "score")
        .rows()
    )
    row = table("deltas", found).filter(pl.col("metric") == "ece").row(0, named=True)
    assert {
        (row["worst_date"], row["worst"]),
        (row["best_date"], row["best"]),
        (None, row["control"]),
    } <= set(scores)


def test_the_control_and_the_placebo_copies_are_no_dates_of_the_sweep() -> None:
    found = evidence_of(Run(num_dates=6, placebo_every=1, noise=1.0))
    row = table("deltas", found).row(0, named=True)
    scores = found.by_variant.filter(pl.col("date").is_not_null(), pl.col("replicate") == 0)[
        "score"
    ]
    control = found.by_variant.filter(pl.col("variant") == records.CONTROL)["score"].item()
    assert (row["num_dates"], row["worst"], row["best"], row["control"]) == (
        6,
        scores.min(),
        scores.max(),
        control,
    )


def test_one_date_gives_a_score_and_no_test() -> None:
    row = table("deltas", evidence_of(Run(num_dates=1))).row(0, named=True)
    assert (row["num_dates"], row["delta"], row["p_value"], row["verdict"]) == (
        1,
        0.0,
        None,
        deltas.TOO_FEW,
    )


def test_a_run_whose_scoring_failed_has_no_score() -> None:
    row = table("deltas", joined(hand_made({"a": ["X", "X"]}, {"X": "failed"}))).row(0, named=True)
    assert (row["num_dates"], row["worst"], row["delta"], row["verdict"]) == (
        0,
        None,
        None,
        deltas.NO_SCORE,
    )


def test_a_date_that_failed_is_left_out() -> None:
    row = table(
        "deltas", joined(hand_made({"a": ["A", "X", "B"], "b": ["A", "X", "A"]}, {"X": "failed"}))
    ).row(0, named=True)
    assert (row["num_dates"], row["worst"], row["worst_date"]) == (
        2,
        50.0,
        datetime.date(2024, 1, 3),
    )


def test_the_verdict_goes_by_the_value_corrected_for_all_rows() -> None:
    effect = Run(model="effect", num_items=40, varying=0.5, effect=0.45, seed=2)
    alone = table("deltas", evidence_of(effect)).row(0, named=True)
    others = [Run(model=f"m{i}", seed=i, num_items=20) for i in range(30)]
    among = (
        table("deltas", evidence_of(effect, *others))
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
    found = table(
        "deltas", evidence_of(Run(model="effect", num_items=150, varying=1, effect=1.0), *runs)
    )
    assert found.filter(pl.col("model") == "effect")["verdict"].item() == deltas.MORE


def test_date_formats_are_compared_apart() -> None:
    found = table(
        "deltas", evidence_of(Run(num_dates=5), Run(num_dates=7, date_format="slashes", model="n"))
    )
    assert found.select("date_format", "num_dates").rows() == [("iso", 5), ("slashes", 7)]


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
    found = evidence_of(Run(num_items=20, num_dates=4), changed)
    rows = table("deltas", found)
    assert sorted(rows["condition"]) == sorted(
        ["iso", changed.variants().drop_nulls("date")["condition"][0]]
    )
    for row in rows.iter_rows(named=True):
        mine = found.by_variant.filter(condition=row["condition"])
        assert (row["num_dates"], row["worst"], row["best"]) == (
            4,
            mine["score"].min(),
            mine["score"].max(),
        )
        wanted = "control" if row["condition"] == "iso" else control
        assert row["control"] == found.by_variant.filter(variant=wanted)["score"].item()


def test_rates_of_missing_answers_are_over_the_dates() -> None:
    status = {"X": "failed", "": "no_answer", "T": "timeout"}
    outcomes = {
        "a": ["A", "A", "", "X"],
        "b": ["A", "", "", "A"],
        "c": ["A", "T", "A", "A"],
        "d": ["A", "A", "A", "A"],
    }
    row = table("deltas", joined(hand_made(outcomes, status))).row(0, named=True)
    assert (row["no_answer_percent"], row["no_answer_percent_max"]) == (100 * 3 / 16, 50.0)
    assert (row["timeout_percent"], row["failed_percent"]) == (100 / 16, 100 / 16)


def test_missing_answers_of_the_control_and_the_copies_are_not_those_of_the_dates() -> None:
    found = evidence_of(Run(num_items=50, num_dates=4, placebo_every=1, no_answer=0.3))
    dated = found.by_variant.filter(pl.col("date").is_not_null(), pl.col("replicate") == 0)
    assert table("deltas", found)["no_answer_percent"].item() == pytest.approx(
        100 * dated["num_no_answer"].sum() / dated["num_items"].sum()
    )


# Conditions beside the date.


def spreads(*runs: Run) -> dict[tuple[str, str], dict[str, object]]:
    """Rows of the table `conditions` for one series, by axis and what is held fixed."""
    rows = table("conditions", evidence_of(*runs)).rows(named=True)
    assert len({(row["axis"], row["held"]) for row in rows}) == len(rows)
    return {(row["axis"], row["held"]): row for row in rows}


def test_a_spread_has_the_sd_with_n_minus_1_and_its_share_of_the_mean() -> None:
    found = analyses.spread(
        ["a", "b", "c", "d"], np.array([70.0, np.nan, 80.0, 90.0]), higher_is_better=True
    )
    assert (found["num_values"], found["mean"], found["sd"], found["cv_percent"]) == (
        3,
        80.0,
        10.0,
        12.5,
    )
    assert (
        found["worst_value"],
        found["worst"],
        found["best_value"],
        found["best"],
        found["delta"],
    ) == ("a", 70.0, "d", 90.0, 20.0)


@given(st.lists(st.floats(0, 100) | st.just(float("nan")), max_size=6), st.booleans())
def test_a_spread_ends_at_the_extreme_scores(scores: list[float], higher_is_better: bool) -> None:
    found = analyses.spread(
        [str(i) for i in range(len(scores))], np.array(scores), higher_is_better=higher_is_better
    )
    known = [score for score in scores if not np.isnan(score)]
    assert found["num_values"] == len(known)
    if known:
        ends = (min(known), max(known)) if higher_is_better else (max(known), min(known))
        assert (found["worst"], found["best"]) == ends
        assert (scores[int(found["worst_value"])], scores[int(found["best_value"])]) == ends
        assert found["delta"] == max(known) - min(known)


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
    found = analyses.spread(["a", "b"], np.array(scores), higher_is_better=True)
    assert {name: found[name] for name in expected} == expected


def test_a_sweep_of_dates_alone_varies_the_date_only() -> None:
    found = evidence_of(Run(num_dates=6))
    row, delta = (
        table("conditions", found).row(0, named=True),
        table("deltas", found).row(0, named=True),
    )
    assert table("conditions", found).select("axis", "held", "num_values", "num_dates").rows() == [
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
        by_variant.filter(placement=place)["score"].mean() for place in ("system_start", "user_end")
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
            placement=place,
            control=place == "system_start",
            seed=i,
        )
        for i, (wording, place) in enumerate(
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
    rows = table("conditions", evidence_of(*runs)).rows_by_key("metric", named=True, unique=True)
    assert rows["ece"]["worst"] > rows["ece"]["best"]
    assert rows["accuracy"]["worst"] < rows["accuracy"]["best"]


def test_a_condition_that_failed_is_no_value() -> None:
    found = parts(*(Run(num_dates=0, num_items=10, option_order=i, seed=i) for i in range(3)))
    failed = (
        found["completions"]
        .filter(variant="control;order=1")
        .select("item_id", output_id=pl.lit("0" * 16))
    )
    scores = pl.concat(
        [
            found["scores"],
            found["scores"].head(1).drop("item_id", "output_id").join(failed, how="cross"),
        ],
        how="diagonal",
    )
    scores = scores.with_columns(stats=pl.when(pl.col("output_id") != "0" * 16).then("stats"))
    scores = scores.with_columns(
        status=pl.when(pl.col("stats").is_null()).then(pl.lit("failed")).otherwise("status")
    )
    is_lost = pl.col("variant") == "control;order=1"
    completions = found["completions"].with_columns(
        output_id=pl.when(is_lost).then(pl.lit("0" * 16)).otherwise("output_id")
    )
    row = table("conditions", joined(found | {"completions": completions, "scores": scores})).row(
        0, named=True
    )
    assert row["num_values"] == 2
    assert "1" not in (row["worst_value"], row["best_value"])


def test_the_noise_of_a_sweep_without_dates_comes_from_copies_of_its_controls() -> None:
    runs = [
        Run(num_dates=0, wording=name, placebo_every=1, noise=0.5) for name in ("none", "helpful")
    ]
    found = evidence_of(*runs)
    rates = table("flip_rates", found)
    assert rates.select("condition", "num_dates", "num_placebo_pairs").rows() == [
        ("control;wording=helpful", 0, 60),
        ("control", 0, 60),
    ]
    assert rates["flipping_percent"].null_count() == 2
    assert table("conditions", found)["placebo_flip_percent"].item() == pytest.approx(
        rates["placebo_flip_percent"].mean()
    )
    assert rates["placebo_flip_percent"].min() > 0


def test_a_sweep_without_dates_has_no_deltas_and_no_flips() -> None:
    found = evidence_of(*(Run(num_dates=0, wording=name) for name in ("none", "helpful")))
    assert [table(name, found).height for name in ("deltas", "flips", "flip_rates")] == [0, 0, 0]
    assert table("by_date", found)["date"].null_count() == 2


def test_styles_of_a_task_are_scored_apart() -> None:
    found = evidence_of(
        Run(num_dates=4, metrics=("accuracy", "ece")), Run(num_dates=6, style="cot")
    )
    rates = table("flip_rates", found)
    assert rates.select("style", "metric", "num_dates").rows() == [
        ("cot", "accuracy", 6),
        ("zero_shot", "accuracy", 4),
    ]
    assert table("deltas", found).height == 3


def test_every_axis_is_a_column_of_every_table() -> None:
    found = evidence_of(
        Run(
            num_dates=4,
            wording="helpful",
            option_order=3,
            location="tokyo",
            placement="user_end",
            year=2023,
        )
    )
    for name in ("by_date", "deltas", "flips", "flip_rates"):
        row = table(name, found).row(-1, named=True)
        assert [row[axis] for axis in analyses.AXES] == [
            "iso",
            "user_end",
            "helpful",
            3,
            "tokyo",
            2023,
        ]


# Flips.


def test_an_item_that_flips_is_shown_with_two_dates_and_its_right_answer() -> None:
    outcomes = {
        "same": ["A", "A", "A"],
        "flips": ["B", "B", "A"],
        "wrong": ["B", "C", "D"],
        "gap": ["X", "A", "X"],
    }
    found = table("flips", joined(hand_made(outcomes, {"X": "failed"})))
    assert found.height == 1  # answers that are wrong in other ways do not flip
    row = found.row(0, named=True)
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
    found = evidence_of(RUNS[2])
    flips, rates = table("flips", found), table("flip_rates", found)
    texts = (
        found.rows.filter(pl.col("metric") == "bleu", pl.col("date").is_not_null())
        .group_by("item_id")
        .agg(pl.col("answer").n_unique())
    )
    assert sorted(flips["item_id"]) == sorted(
        texts.collect().filter(pl.col("answer") > 1)["item_id"]
    )
    assert flips["num_right"].null_count() == flips.height > 0
    assert rates["metric"].to_list() == ["bleu"]  # the headline only
    assert rates["num_flipping"].item() == flips.height


def test_flip_rates_count_items_and_pairs() -> None:
    outcomes = {
        "same": ["A", "A", "A"],
        "flips": ["B", "B", "A"],
        "gap": ["A", "X", "B"],
        "wrong": ["B", "C", "D"],
    }
    row = table("flip_rates", joined(hand_made(outcomes, {"X": "failed"}))).row(0, named=True)
    assert (row["num_items"], row["num_flipping"], row["flipping_percent"]) == (4, 2, 50.0)
    assert row["pair_flip_percent"] == pytest.approx(100 * (2 + 1) / (3 + 3 + 1 + 3))
    assert row["pair_output_percent"] == pytest.approx(
        100 * (2 + 3 + 3) / 12
    )  # the failed output is still an output
    assert (row["num_placebo_pairs"], row["placebo_flip_percent"]) == (0, None)


def test_an_engine_that_repeats_itself_has_no_noise_floor() -> None:
    row = table("flip_rates", evidence_of(Run(placebo_every=2, noise=0.0))).row(0, named=True)
    assert row["num_placebo_pairs"] == 15 * 60
    assert (row["placebo_flip_percent"], row["placebo_output_percent"]) == (0.0, 0.0)
    assert 0 < row["placebo_flip_percent_high"] < 1


def test_the_noise_floor_is_the_share_of_copies_that_differ_from_their_own_date() -> None:
    found = evidence_of(Run(num_items=40, num_dates=9, placebo_every=2, noise=0.5))
    rows = found.rows.filter(pl.col("date").is_not_null()).collect()
    right = {
        (r["item_id"], r["date"], r["replicate"]): r["stats"] for r in rows.iter_rows(named=True)
    }
    pairs = [
        (right[item, date, 0], value)
        for (item, date, replicate), value in right.items()
        if replicate == 1
    ]
    expected = 100 * sum(a != b for a, b in pairs) / len(pairs)
    assert expected > 0
    assert table("flip_rates", found)["placebo_flip_percent"].item() == pytest.approx(expected)
    assert table("deltas", found)["placebo_flip_percent"].item() == pytest.approx(expected)


def test_only_the_same_date_is_compared_with_a_copy() -> None:
    # A copy of date 2 repeats it exactly; date 1, which differs, must not be held against it.
    found = hand_made({"a": ["A", "B"], "b": ["B", "A"]})
    second = (
        found["completions"]
        .filter(pl.col("variant") == "iso:2024-01-02")
        .with_columns(replicate=pl.lit(1, pl.Int64))
    )
    rates = table(
        "flip_rates", joined(found | {"completions": pl.concat([found["completions"], second])})
    )
    assert rates.select(
        "num_placebo_pairs", "placebo_flip_percent", "placebo_output_percent"
    ).rows() == [(2, 0.0, 0.0)]


def test_by_date_has_every_score_once_with_the_control_first() -> None:
    found = evidence_of(*RUNS)
    rows = table("by_date", found)
    assert rows.height == found.by_variant.height
    for _, mine in rows.group_by(analyses.SERIES_KEY, maintain_order=True):
        is_dated = mine["date"].is_not_null().to_list()
        assert mine["variant"][0].startswith(records.CONTROL)
        assert is_dated == sorted(is_dated)
        for _, dates in mine.drop_nulls("date").group_by("condition", maintain_order=True):
            assert all(a <= b for a, b in itertools.pairwise(dates["date"]))
