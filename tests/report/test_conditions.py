"""The page where something beside the date varies, or no date at all."""

import re
from pathlib import Path

import polars as pl
import pytest

from pipeline import report
from pipeline.report import page, wording
from tests.report.pages import SIMPLE, read
from tests.synthetic import Run, tables_of


def test_each_condition_has_its_own_delta_and_chart(
    tmp_path: Path, placements: dict[str, pl.DataFrame]
) -> None:
    shown = read(report.write(tmp_path, placements, SIMPLE))
    assert len([svg for svg in shown.all("svg") if svg.get("class") == "chart"]) == 2
    shown = page.context(placements, SIMPLE)
    assert [row["task"].text for row in shown["deltas"]] == [
        "MMLU accuracy, placement system start",
        "MMLU accuracy, placement user end",
    ]
    assert shown["lead"].startswith("1 model, 1 task, 6 dates under 2 conditions.")


def test_the_page_compares_conditions_where_something_beside_the_date_varies(
    tmp_path: Path, placements: dict[str, pl.DataFrame], tables: dict[str, pl.DataFrame]
) -> None:
    text = read(report.write(tmp_path, placements, SIMPLE)).text
    assert "Conditions beside the date" in text
    for row in placements["conditions"].iter_rows(named=True):
        assert f"{row['cv_percent']:.2f}%" in text
        assert wording.number(row["mean"]) in text
    assert "Conditions beside the date" not in read(report.write(tmp_path, tables, SIMPLE)).text


def test_a_chart_has_the_control_of_its_own_condition() -> None:
    runs = [
        Run(num_items=40, num_dates=6, wording=name, seed=i)
        for i, name in enumerate(("none", "helpful"))
    ]
    by_date = tables_of(*runs)["by_date"]
    keys = page.panel_keys(by_date)
    names, colours = wording.Names(by_date), {"m": "#1f5fb4"}
    for key in keys:
        svg = page.panel(by_date, key, names, colours)["svg"]
        (control,) = by_date.filter(pl.col("date").is_null(), pl.col("wording") == key["wording"])[
            "score"
        ]
        rule = r'score: ([0-9.]+)[^"]*" role="graphics-symbol" aria-roledescription="rule mark"'
        drawn = re.findall(rf'aria-label="[^"]*{rule}', svg)
        assert [float(score) for score in drawn] == [pytest.approx(control)]


def test_a_sweep_without_dates_shows_its_conditions_scores(
    tmp_path: Path, wordings: dict[str, pl.DataFrame]
) -> None:
    shown = read(report.write(tmp_path, wordings, SIMPLE))
    assert (
        "1 model, 1 task, no dates: every item was asked without a date, under 6 conditions."
        in shown.text
    )
    assert "Worst and best date" not in shown.text
    assert not [svg for svg in shown.all("svg") if svg.get("class") == "chart"]
    for row in wordings["by_date"].filter(pl.col("replicate") == 0).iter_rows(named=True):
        assert wording.number(row["score"]) in shown.text
        assert wording.axis_value("wording", row["wording"]) in shown.text


def test_a_sweep_without_dates_opens_with_its_largest_delta_and_the_noise(
    wordings: dict[str, pl.DataFrame],
) -> None:
    (card,) = page.context(wordings, SIMPLE)["headlines"]
    row = wordings["conditions"].filter(pl.col("delta") == pl.col("delta").max()).row(0, named=True)
    for name in ("worst", "best", "delta", "chance_delta_95"):
        assert wording.number(row[name]) in card.sentence
    assert "6 values of the system wording" in card.sentence
    assert "The same prompt asked again flips" in card.noise


@pytest.mark.parametrize("metrics", [("accuracy",), ("accuracy", "ece")])
def test_a_sweep_without_dates_or_conditions_makes_a_page_with_its_scores(
    tmp_path: Path, metrics: tuple[str, ...]
) -> None:
    tables = tables_of(
        Run(num_dates=0, metrics=metrics), Run(model="n", num_dates=0, metrics=metrics)
    )
    shown = read(report.write(tmp_path, tables, SIMPLE))
    assert "2 models, 1 task, no dates: every item was asked without a date." in shown.text
    assert all(wording.number(score) in shown.text for score in tables["by_date"]["score"])


def test_many_charts_are_cut_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placements: dict[str, pl.DataFrame]
) -> None:
    monkeypatch.setattr(page, "MAX_PANELS", 1)
    shown = read(report.write(tmp_path, placements, SIMPLE))
    assert len([svg for svg in shown.all("svg") if svg.get("class") == "chart"]) == 1
    assert "The first 1 of 2 charts" in shown.text
