"""Charts of scores by date."""

import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl

from pipeline.report import charts
from tests.synthetic import Run, tables_of


def chart_of(frame: pl.DataFrame) -> str:
    labels = {label: charts.COLOURS[i] for i, label in enumerate(sorted(set(frame["model"])))}
    return charts.score_chart(
        frame.with_columns(label=pl.col("model")), labels, "accuracy", "a chart"
    )


def line_of(svg: str) -> str:
    """Path of the first line."""
    line = re.search(r'<path[^>]*aria-roledescription="line mark"[^>]*>', svg)
    assert line
    path = re.search(r' d="([^"]*)"', line.group())
    assert path
    return path.group(1)


def test_a_score_that_is_missing_is_a_gap_in_the_line() -> None:
    by_date = tables_of(Run(num_dates=9))["by_date"]
    gap = (pl.col("date").dt.day() == 5) & (pl.col("replicate") == 0)
    broken = by_date.with_columns(score=pl.when(~gap.fill_null(False)).then(pl.col("score")))
    assert line_of(chart_of(by_date)).count("M") == 1
    assert line_of(chart_of(broken)).count("M") == 2


def test_charts_are_the_same_in_every_time_zone(tmp_path: Path) -> None:
    frame = tables_of(Run(num_dates=3))["by_date"]
    frame.write_parquet(tmp_path / "by_date.parquet")
    program = (
        "import sys, polars as pl; from tests.report.test_charts import chart_of;"
        "print(chart_of(pl.read_parquet(sys.argv[1])))"
    )
    west = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "by_date.parquet")],
        env={**os.environ, "TZ": "America/Los_Angeles"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert west == f"{chart_of(frame)}\n"
    assert ">1 Jan<" in west
    assert ">31 Dec<" not in west


def test_several_models_over_many_dates_get_a_strip_each() -> None:
    runs = [
        Run(model=f"model-{i}", num_items=4, num_dates=charts.MAX_MARKED_DATES + 1)
        for i in range(9)
    ]
    svg = chart_of(tables_of(*runs)["by_date"])
    assert svg.count('aria-roledescription="line mark"') >= 9
    assert all(f">model-{i}<" in svg for i in range(9))
