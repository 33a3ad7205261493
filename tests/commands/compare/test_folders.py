"""Two run folders are compared, and the comparison is shown and written."""

from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from pipeline import store
from pipeline.commands import compare
from pipeline.commands.compare import SCHEMA, Comparison, _table, compare_evidence, table_of
from pipeline.commands.out_file import write_out
from pipeline.core.errors import StoreError
from tests import synthetic
from tests.commands.compare.runs import A, B, measured, run_in, two_models

COUNTS = [name for name, dtype in SCHEMA.items() if dtype == pl.Int64()]


def printed(comparison: Comparison, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table_of(comparison))
    return capture.get()


def test_two_folders_are_compared_and_the_settings_that_differ_are_said(tmp_path: Path) -> None:
    a = run_in(tmp_path / "a", synthetic.Run(num_items=12, num_dates=3))
    b = run_in(
        tmp_path / "b", synthetic.Run(num_items=12, num_dates=3, seed=1), batch=16, signature="t"
    )
    comparison = compare.compare(str(a), str(b))
    assert comparison.names == (str(a), str(b))
    in_memory = compare_evidence(
        measured(num_items=12, num_dates=3), measured(num_items=12, num_dates=3, seed=1)
    )
    assert comparison.rows.equals(in_memory.rows)
    assert comparison.notes == [
        "mmlu.zero_shot accuracy: A is scored as s (extraction 1), B as t (extraction 1)",
        "sweep.engine.max_num_seqs: A has 8, B 16",
    ]
    assert compare.compare(str(a), str(a)).notes == []


def test_scores_of_an_older_version_are_compared_too(tmp_path: Path) -> None:
    a, b = (run_in(tmp_path / name, synthetic.Run(num_items=5, num_dates=1)) for name in "ab")
    for path in (b / "scores").rglob("*.parquet"):
        store.write_parquet(pl.read_parquet(path).drop("signature", "extraction_version"), path)
    notes = compare.compare(a, b).notes
    assert notes == [
        "mmlu.zero_shot accuracy: A is scored as s (extraction 1), B as unknown "
        "(extraction unknown)"
    ]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no run folder"):
        compare.compare(str(tmp_path / "x"), str(tmp_path / "y"))


def test_the_rows_have_the_schema_that_is_documented_and_can_be_written(tmp_path: Path) -> None:
    rows = compare_evidence(measured(**A), measured(**B)).rows
    assert rows.schema == SCHEMA
    assert (
        not rows.select(COUNTS)
        .select(pl.exclude("year", "num_right_only_a", "num_right_only_b").has_nulls())
        .row(0)
        .count(True)
    )
    write_out(rows, tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv").height == rows.height
    write_out(rows, tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").equals(rows)


def test_the_table_fits_80_columns_and_names_both_runs() -> None:
    comparison = compare_evidence(measured(**A), measured(**B), names=("runs/[red]a", "runs/b"))
    text = printed(comparison)
    for row_ in comparison.rows.iter_rows(named=True):
        assert f"{row_['low']:.2f} to {row_['high']:.2f}" in text
    assert "B minus A: m" in text
    assert "A: runs/[red]a" in text, "names are text and no markup"
    gained, lost = (
        comparison.rows.filter(condition="iso", metric="accuracy")
        .select("num_right_only_b", "num_right_only_a")
        .row(0)
    )
    assert f"+{gained} -{lost}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_table_names_the_models_where_there_are_several() -> None:
    text = printed(
        compare_evidence(two_models("m", "n"), two_models("n", "o"), [("m", "o"), ("n", "n")]), 120
    )
    assert "m and o" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (999_499, "999k"), (999_500, "1.00M")],
)
def test_large_counts_are_shortened(value: int, shown: str) -> None:
    assert _table._count(value) == shown
