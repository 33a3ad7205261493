"""The exact prompt of an item under a date, or what is wrong with what was given."""

import re
from pathlib import Path

import pytest

from pipeline import settings
from pipeline.commands.show import show
from pipeline.core.errors import ConfigError
from pipeline.core.records import CONTROL
from tests.console import printed

YEARS = """
name = "years"
models = ["simulated"]
data_root = "{configs}/demo"
[calendar]
dates = [2024-03-05, 2024-02-29]
years = [2023, 2025]
[conditions]
placements = ["user_end"]
wordings = ["helpful"]
[[tasks]]
name = "mmlu"
limit = 1
"""


def of_demo(
    task: str, date: str | None = None, condition: str | None = None, item: str | None = None
) -> str:
    """What `show` prints of a task of the demo."""
    chosen = settings.Overrides(tasks=task)
    spec = settings.override(settings.load_sweep("demo"), chosen)
    return printed(show(spec, item, date, condition), width=160)


def test_a_prompt_has_its_ids_and_the_span_of_the_date() -> None:
    text = of_demo("mmlu", "2024-03-05")
    assert "Current date: 2024-03-05." in text
    assert "Answer:" in text
    assert "the date in 7..16" in text
    assert "' A' = 330" in text
    assert "1 9690 198" in text


def test_a_date_is_written_in_a_format() -> None:
    assert "Current date: 05 Mar 2024." in of_demo("gsm8k", "2024-03-05", "day_month_year")


def test_any_condition_can_be_shown() -> None:
    condition = "iso;placement=user_end;wording=helpful;order=2;location=tokyo"
    text = of_demo("mmlu.zero_shot", "2024-03-05", condition)
    for part in ("You are a helpful assistant.", "Tokyo, Japan", "Current date: 2024-03-05."):
        assert part in text
    assert text.index("D. ") < text.index("Current date:")


def test_a_control_has_no_date() -> None:
    text = of_demo("gsm8k", CONTROL)
    assert "Current date" not in text
    assert "no date" in text


def test_an_unknown_item_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        of_demo("mmlu", item="test-0000")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("isso", "did you mean 'iso'"),
        ("iso;placment=user_end", "did you mean 'placement'"),
        ("iso;placement=user_ent", "'user_end'"),
    ],
)
def test_an_unknown_condition_names_the_nearest(condition: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of_demo("mmlu", condition=condition)


@pytest.mark.parametrize(
    ("date", "condition", "variant"),
    [
        (None, None, "iso:2023-03-05;placement=user_end;wording=helpful;year=2023"),
        ("2025-07-01", None, "iso:2025-07-01;placement=user_end;wording=helpful;year=2025"),
        (CONTROL, None, "control;wording=helpful"),
        (None, "iso;year=2025", "iso:2025-03-05;year=2025"),
        ("2025-07-01", "iso;wording=expert;year=2025", "iso:2025-07-01;wording=expert;year=2025"),
        (None, "control;wording=expert", "control;wording=expert"),
        (CONTROL, "control;order=1", "control;order=1"),
    ],
)
def test_the_variant_is_named(
    tmp_path: Path, date: str | None, condition: str | None, variant: str
) -> None:
    assert f"variant {variant} " in shown(tmp_path, date, condition)


@pytest.mark.parametrize(
    ("date", "condition", "words"),
    [
        ("2024-01-01", "control", "a control has no date"),
        (CONTROL, "iso", "control means that there is no date"),
        ("2024-01-01", "iso;year=2023", "allowed: a date in 2023"),
        (None, "control;year=2023", "allowed behind control: wording, order, location"),
        (None, "control;placement=user_end", "allowed behind control: wording, order, location"),
        (None, "iso;order=1;order=2", "order is given twice"),
        (None, "iso;year=soon", "years.0: given 'soon'"),
        ("2024-02-29", "iso;year=2023", "allowed: a date in 2023"),
        ("yesterday", "iso", "allowed: a date like 2024-03-05, or control"),
    ],
)
def test_a_contradiction_is_refused(
    tmp_path: Path, date: str | None, condition: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        shown(tmp_path, date, condition)


def shown(folder: Path, date: str | None, condition: str | None) -> str:
    """What `show` prints of the sweep `YEARS` on 80 columns, each run of spaces as one."""
    path = folder / "years.toml"
    path.write_text(YEARS.format(configs=settings.configs_folder().resolve()))
    page = show(settings.load_sweep(str(path)), None, date, condition)
    return " ".join(printed(page).split()) + " "
