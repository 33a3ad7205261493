"""Names, numbers and sentences of the report."""

import polars as pl
import pytest

from pipeline.report import wording
from tests.synthetic import conditions_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", "(no answer)"), (None, wording.DASH), ("a\n b", "a b"), ("x" * 99, "x" * 79 + "…")],
)
def test_long_and_empty_answers_are_shown_in_one_line(text: str | None, shown: str) -> None:
    assert wording.clipped(text) == shown


def test_names_say_no_more_than_telling_rows_apart_needs() -> None:
    series = {
        "model": "m",
        "engine": "bf16",
        "task": "mmlu",
        "style": "five_shot",
        "metric": "accuracy",
    }
    row = series | conditions_of()
    plain = wording.Names(pl.DataFrame([row]))
    assert (plain.model(row), plain.series(row), plain.short(row)) == ("m", "MMLU accuracy", "mmlu")
    other = (
        series
        | {"engine": "fp32"}
        | conditions_of(date_format="slashes", placement="user_end", option_order=3)
    )
    metric, style = row | {"metric": "ece"}, row | {"style": "cot"}
    several = wording.Names(pl.DataFrame([row, other, metric, style]))
    assert several.model(row) == "m (bf16)"
    assert several.series(row) == "MMLU accuracy, five shot, iso, placement system start, order 0"
    assert several.short(other) == "mmlu accuracy, five shot, slashes, placement user end, order 3"
    assert several.scored(other) == "MMLU accuracy, five shot"


def test_a_control_does_not_count_as_another_condition() -> None:
    series = {
        "model": "m",
        "engine": "e",
        "task": "mmlu",
        "style": "zero_shot",
        "metric": "accuracy",
    }
    control = series | conditions_of(condition="control", date_format="", placement="")
    dated = series | conditions_of()
    assert wording.Names(pl.DataFrame([control, dated])).series(dated) == "MMLU accuracy"


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("control", "no date"),
        ("control;wording=best_ability", "no date, wording best ability"),
        ("iso;order=3", "iso, order 3"),
        ("dated;placement=user_end", "with a date, placement user end"),
    ],
)
def test_what_is_held_fixed_is_said_in_words(condition: str, shown: str) -> None:
    assert wording.held(condition) == shown


def test_a_task_of_another_version_is_shown_by_its_name() -> None:
    assert wording.task_title("never_heard_of") == "never_heard_of"
    assert wording.metric_title("never_heard_of") == "never_heard_of"


def test_an_axis_of_scores_says_their_scale() -> None:
    assert wording.score_axis("accuracy") == "accuracy, 0–100"
    assert wording.score_axis("brier") == "Brier, 0–200"
    assert wording.score_axis("log_loss") == "log loss, nats"
    assert wording.score_axis("of another version") == "of another version"
