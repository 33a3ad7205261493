"""Cutting a run's distinct outputs into chunks: each output once, in an order of their own,
whatever is read with what.
"""

import shutil
from pathlib import Path

import polars as pl
import pytest

from pipeline.core import tables
from pipeline.score import distinct
from pipeline.settings.schema import SweepSpec
from pipeline.store.run_folder import Run


@pytest.mark.parametrize(("chunk_rows", "band"), [(1, 1), (5, 30), (7, 10_000), (1_000, 1)])
def test_chunks_hold_each_distinct_output_once_however_they_are_cut(
    simulated_run: Run,
    simulated_spec: SweepSpec,
    monkeypatch: pytest.MonkeyPatch,
    chunk_rows: int,
    band: int,
) -> None:
    monkeypatch.setattr(distinct, "chunk_rows", lambda task: chunk_rows)
    monkeypatch.setattr(distinct, "_band_completions", lambda task: band)
    cut = list(distinct.chunks(simulated_run, simulated_spec))
    pairs = list(distinct.with_outputs(simulated_run, cut))
    assert [c for c, _ in pairs] == cut
    assert [part.rows.height for _, part in pairs] == [c.size for c in cut]
    assert max(c.size for c in cut) <= chunk_rows
    assert len({c.path for c in cut} | {c.sums_path for c in cut}) == 2 * len(cut)
    completions = simulated_run.completions().collect()
    wanted = [*tables.OUTPUT_KEY, "text", "label_logprobs"]
    found = pl.concat([part.rows for _, part in pairs])
    for task in simulated_spec.tasks:
        mine, asked = (
            found.filter(task=task.name),
            simulated_run.plan_table("items").filter(task=task.name),
        )
        rank = {item: number for number, item in enumerate(asked["item_id"])}
        expected = (
            completions.filter(task=task.name)
            .unique(tables.OUTPUT_KEY)
            .sort(pl.col("item_id").replace_strict(rank), "output_id")
        )
        assert mine.select(wanted).equals(expected.select(wanted))
    for chunk, part in pairs:
        items = simulated_run.plan_table("items").filter(task=chunk.task.name)["item_id"]
        assert (part.rows["item_id"][0], part.rows["item_id"][-1]) == (
            items[chunk.first_item],
            items[chunk.last_item],
        )


@pytest.mark.parametrize("chunk_rows", [1, 7, 1_000])
def test_every_completion_is_with_the_output_that_it_gave(
    simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch, chunk_rows: int
) -> None:
    monkeypatch.setattr(distinct, "chunk_rows", lambda task: chunk_rows)
    cut = list(distinct.chunks(simulated_run, simulated_spec))
    given = []
    for chunk, part in distinct.with_outputs(simulated_run, cut):
        assert part.given.height == chunk.num_completions
        numbered = part.rows.select(*tables.OUTPUT_KEY, pl.row_index("output").cast(pl.Int64))
        given.append(
            part.given.join(numbered, on="output").with_columns(pl.col("variant").cast(pl.String))
        )
    key = [*tables.ROW_KEY, "output_id"]
    assert (
        pl.concat(given)
        .select(key)
        .sort(key)
        .equals(simulated_run.completions().select(key).sort(key).collect())
    )


def test_a_chunk_is_read_without_those_around_it(
    simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distinct, "chunk_rows", lambda task: 3)
    cut = list(distinct.chunks(simulated_run, simulated_spec))
    together = {c.path: part for c, part in distinct.with_outputs(simulated_run, cut)}
    for chunk, part in distinct.with_outputs(simulated_run, cut[::2]):
        assert part.rows.equals(together[chunk.path].rows)
        assert part.given.equals(together[chunk.path].given)


def test_who_gave_an_output_decides_its_sums_and_not_its_scores(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    copied = Run(shutil.copytree(simulated_run.folder, tmp_path / "run"))
    before = {c.path.name: c.sums_path.name for c in distinct.chunks(copied, simulated_spec)}
    shard, first, second = two_outputs_of_one_item(copied)
    rows = pl.read_parquet(shard)
    swapped = rows["variant"].to_list()
    swapped[first], swapped[second] = swapped[second], swapped[first]
    rows.with_columns(variant=pl.Series(swapped)).write_parquet(shard)
    after = {c.path.name: c.sums_path.name for c in distinct.chunks(copied, simulated_spec)}
    assert after.keys() == before.keys()
    assert sum(after[name] != before[name] for name in before) == 1


def two_outputs_of_one_item(run: Run) -> tuple[Path, int, int]:
    """A shard, and two of its rows in which an item gave different outputs under different
    variants.
    """
    for path in sorted((run.folder / "completions").glob("*/*.parquet")):
        rows = pl.read_parquet(path).with_row_index("row").filter(replicate=0)
        pairs = rows.join(rows, on=["task", "item_id"], suffix="_other")
        for pair in (
            pairs.filter(pl.col("output_id") < pl.col("output_id_other"))
            .head(1)
            .iter_rows(named=True)
        ):
            return Path(str(path)), pair["row"], pair["row_other"]
    raise AssertionError("no item gave two outputs in one shard")
