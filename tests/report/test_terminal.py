"""The tables for a terminal have every row and fit 80 columns."""

import os

import polars as pl
from rich.console import Console

from pipeline.report import terminal, wording
from tests.synthetic import Run, tables_of


def printed(tables: dict[str, pl.DataFrame]) -> str:
    """The terminal's table in 80 columns."""
    console = Console(width=80, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - rich keeps it open
    console.print(terminal.delta_table(tables))
    text = console.export_text()
    assert max(len(line) for line in text.splitlines()) <= 80
    return text


def test_the_terminal_table_fits_80_columns_and_has_every_row(
    tables: dict[str, pl.DataFrame],
) -> None:
    text = printed(tables)
    for row in tables["deltas"].iter_rows(named=True):
        assert f"{row['delta']:.2f}" in text
    assert "more than" in text
    assert "no ans." not in text


def test_the_terminal_says_how_many_answers_are_missing() -> None:
    gaps = tables_of(
        Run(model="a-model-of-some-size", task="gsm8k", num_dates=4, no_answer=0.2),
        Run(num_dates=4),
    )
    lost = gaps["deltas"].with_columns(timeout_percent=1.26, failed_percent=0.0)
    text = printed(gaps | {"deltas": lost})
    assert wording.percent(gaps["deltas"]["no_answer_percent"].max()) in text
    assert "up to 1.3% of answers ran too long" in text
    assert "could not be scored" not in text


def test_the_terminal_shows_conditions_of_a_sweep_without_dates(
    wordings: dict[str, pl.DataFrame],
) -> None:
    text = printed(wordings)
    for row in wordings["conditions"].iter_rows(named=True):
        assert f"{row['cv_percent']:.2f}%" in text
        assert f"{row['delta']:.2f}" in text


def test_the_terminal_shows_scores_where_nothing_was_varied() -> None:
    tables = tables_of(Run(num_dates=0), Run(task="gsm8k", num_dates=0, no_answer=0.5))
    text = printed(tables)
    assert all(f"{score:.2f}" in text for score in tables["by_date"]["score"])


def test_the_terminal_shows_brackets_in_names() -> None:
    assert "m[red]" in printed(tables_of(Run(model="m[red]", num_dates=2)))
