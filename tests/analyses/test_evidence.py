"""Completions and scores are joined as a plain join does it; what does not fit is an error."""

import numpy as np
import polars as pl
import pytest

from pipeline import analyses, metrics
from pipeline.analyses import by_date
from pipeline.core import errors, registry
from tests.synthetic import RUNS, Run, evidence_in, evidence_of, hand_made, parts, rows_in

VARIANT_KEY = [*analyses.SERIES_KEY, "variant", "replicate"]


def test_scores_equal_a_plain_computation_from_the_rows() -> None:
    evidence, rows = evidence_of(*RUNS), rows_in(parts(*RUNS))
    for key, series_rows in rows.group_by(VARIANT_KEY):
        one = evidence.by_variant.filter(
            *(pl.col(n) == v for n, v in zip(VARIANT_KEY, key, strict=True))
        ).row(0, named=True)
        sums = np.array(series_rows["stats"].to_list()).sum(axis=0)
        assert one["score"] == pytest.approx(
            float(metrics.get(one["metric"]).combine(sums, np.array(float(series_rows.height)))),
            abs=1e-9,
        )
        assert (one["num_items"], one["num_scored"] + one["num_no_answer"]) == (
            series_rows.height,
            series_rows.height,
        )


def test_a_failed_row_leaves_the_mean_and_no_answer_or_a_timeout_counts_as_wrong() -> None:
    status = {"X": "failed", "": "no_answer", "T": "timeout"}
    evidence = evidence_in(
        hand_made(
            {"a": ["A", "A", "A", "X"], "b": ["A", "", "T", "X"], "c": ["A", "A", "X", "X"]}, status
        )
    )
    counts = by_date.table(evidence).select("score", *analyses.COUNTS).rows()
    assert counts == [
        (100.0, 3, 3, 0, 0, 0),
        (pytest.approx(200 / 3), 3, 2, 1, 0, 0),
        (50.0, 3, 1, 0, 1, 1),
        (None, 3, 0, 0, 3, 0),
    ]


def test_a_completion_without_a_score_is_an_error_that_says_how_many_and_where() -> None:
    frames = parts(*RUNS)
    lost = (pl.col("metric") == "ece") & (pl.col("item_id") == "test-00003")
    asked = frames["completions"].filter(task="mmlu", model="m")
    num_lost, num_asked = asked.filter(item_id="test-00003").height, asked.height
    said = (
        rf"^{num_lost} of {num_asked} .*model m, .* metric ece\), the first: .*item_id test-00003"
    )
    with pytest.raises(errors.StoreError, match=said):
        evidence_in(frames | {"scores": frames["scores"].filter(~lost)})


def test_a_run_without_any_score_is_an_error() -> None:
    frames = parts(*RUNS)
    with pytest.raises(errors.StoreError, match=r"completions have no score .*model other"):
        evidence_in(frames | {"scores": frames["scores"].filter(pl.col("model") != "other")})


def test_two_scores_of_one_completion_are_an_error() -> None:
    frames = parts(Run())
    with pytest.raises(
        errors.StoreError,
        match=r"^1 output\(s\) have more than one score \(model m, .* metric accuracy\)",
    ):
        evidence_in(frames | {"scores": pl.concat([frames["scores"], frames["scores"].head(1)])})


def test_scores_of_outputs_that_nobody_gave_change_nothing() -> None:
    frames = parts(*RUNS[:2])
    scores = frames["scores"]
    stale = [
        scores.head(5).with_columns(output_id=pl.lit("f" * 16)),
        scores.head(5).with_columns(engine=pl.lit("other")),
    ]
    fewer = frames | {
        "completions": frames["completions"].filter(pl.col("item_id") != "test-00004")
    }
    more_scores = frames | {"scores": pl.concat([scores, *stale])}
    fewer_scores = fewer | {"scores": scores.filter(pl.col("item_id") != "test-00004")}
    for name in registry.names("analyses"):
        table = analyses.get(name).table
        assert table(evidence_in(frames)).equals(table(evidence_in(more_scores)))
        assert table(evidence_in(fewer)).equals(table(evidence_in(fewer_scores)))


def test_outcomes_are_the_rows_as_arrays_and_can_be_gone_through_again() -> None:
    evidence, rows = evidence_of(*RUNS), rows_in(parts(*RUNS))
    for first, again in zip(evidence.outcomes(), evidence.outcomes(), strict=True):
        series_rows = rows.filter(*(pl.col(name) == value for name, value in first.series.items()))
        assert first.present.sum() == series_rows.height
        answers = {
            (r["item_id"], r["variant"], r["replicate"]): (r["answer"], r["stats"])
            for r in series_rows.iter_rows(named=True)
        }
        names = first.columns.select("variant", "replicate").rows()
        cells = first.stats
        for (item, column), code in np.ndenumerate(first.answers):
            answer, stats = answers[(first.item_ids[item], *names[column])]
            row = np.zeros(cells.num_stats)
            np.add.at(
                row,
                cells.stat_numbers[cells.index[item, column]],
                cells.values[cells.index[item, column]],
            )
            assert (first.answer_texts[int(code)], row.tolist()) == (answer, stats)
        np.testing.assert_array_equal(first.outputs, again.outputs)
        np.testing.assert_array_equal(first.values, again.values)


def test_a_completion_stored_twice_is_an_error() -> None:
    frames = parts(Run())
    with pytest.raises(
        errors.StoreError,
        match=r"1 completion\(s\) are stored twice .*item test-00000, variant control",
    ):
        evidence_in(
            frames
            | {"completions": pl.concat([frames["completions"], frames["completions"].head(1)])}
        )


@pytest.mark.parametrize(
    ("frame", "named"), [("variants", "variant iso:2024-01-30"), ("items", "item_id test-00059")]
)
def test_a_completion_of_an_unknown_variant_or_item_is_an_error(frame: str, named: str) -> None:
    frames = parts(Run())
    with pytest.raises(errors.StoreError, match=named):
        evidence_in(frames | {frame: frames[frame].head(-1)})
