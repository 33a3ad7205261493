"""What holds for the table of every analysis."""

import io
import itertools

import polars as pl
import pytest

from pipeline import analyses
from pipeline.analyses import by_date
from pipeline.core import records, registry
from tests.synthetic import RUNS, Run, evidence_in, evidence_of, parts

NAMES = registry.names("analyses")


def parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_a_table_does_not_depend_on_the_order_of_rows(name: str) -> None:
    frames = parts(*RUNS)
    shuffled = {n: f.sample(fraction=1, shuffle=True, seed=5) for n, f in frames.items()}
    table = analyses.get(name).table
    assert parquet(table(evidence_in(frames))) == parquet(table(evidence_in(shuffled)))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_has_its_columns_also_when_it_is_of_nothing(name: str) -> None:
    frames, analysis = parts(*RUNS), analyses.get(name)
    nothing = {part: frames[part].clear() for part in ("completions", "scores")}
    empty = analysis.table(evidence_in(frames | nothing))
    assert analysis.table(evidence_in(frames)).schema == empty.schema == analysis.SCHEMA
    assert empty.height == 0


def test_every_axis_is_a_column_of_every_table() -> None:
    evidence = evidence_of(
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
        row = analyses.get(name).table(evidence).row(-1, named=True)
        assert [row[axis] for axis in analyses.AXES] == [
            "iso",
            "user_end",
            "helpful",
            3,
            "tokyo",
            2023,
        ]


def test_a_sweep_without_dates_has_no_deltas_and_no_flips() -> None:
    evidence = evidence_of(*(Run(num_dates=0, wording=name) for name in ("none", "helpful")))
    assert [
        analyses.get(name).table(evidence).height for name in ("deltas", "flips", "flip_rates")
    ] == [0, 0, 0]
    assert by_date.table(evidence)["date"].null_count() == 2


def test_by_date_has_every_score_once_with_the_control_first() -> None:
    evidence = evidence_of(*RUNS)
    rows = by_date.table(evidence)
    assert rows.height == evidence.by_variant.height
    for _, series in rows.group_by(analyses.SERIES_KEY, maintain_order=True):
        is_dated = series["date"].is_not_null().to_list()
        assert series["variant"][0].startswith(records.CONTROL)
        assert is_dated == sorted(is_dated)
        for _, dates in series.drop_nulls("date").group_by("condition", maintain_order=True):
            assert all(a <= b for a, b in itertools.pairwise(dates["date"]))
