"""Cutting a run's distinct outputs into chunks: each output once, in an order of its own."""

import polars as pl
import pytest

from pipeline.core import tables
from pipeline.score import distinct
from pipeline.settings.schema import SweepSpec
from pipeline.store.run_folder import Run


@pytest.mark.parametrize(("num_outputs", "band"), [(1, 1), (5, 30), (7, 10_000), (1_000, 1)])
def test_chunks_hold_each_distinct_output_once_however_they_are_cut(
    simulated_run: Run,
    simulated_spec: SweepSpec,
    monkeypatch: pytest.MonkeyPatch,
    num_outputs: int,
    band: int,
) -> None:
    monkeypatch.setattr(distinct, "chunk_outputs", lambda task: num_outputs)
    monkeypatch.setattr(distinct, "band_completions", lambda task: band)
    cut = list(distinct.chunks(simulated_run, simulated_spec))
    pairs = list(distinct.with_outputs(simulated_run, cut))
    assert [c for c, _ in pairs] == cut
    assert [part.height for _, part in pairs] == [c.size for c in cut]
    assert max(c.size for c in cut) <= num_outputs
    num_completions = simulated_run.completions().select(pl.len()).collect().item()
    assert sum(c.num_completions for c in cut) == num_completions
    assert len({c.path for c in cut}) == len(cut)
    completions = simulated_run.completions().collect()
    wanted = [*tables.OUTPUT_KEY, "text", "label_logprobs"]
    outputs = pl.concat([part for _, part in pairs])
    for task in simulated_spec.tasks:
        items = simulated_run.plan_table("items").filter(task=task.name)
        rank = {item: number for number, item in enumerate(items["item_id"])}
        expected = (
            completions.filter(task=task.name)
            .unique(tables.OUTPUT_KEY)
            .sort(pl.col("item_id").replace_strict(rank), "output_id")
        )
        assert outputs.filter(task=task.name).select(wanted).equals(expected.select(wanted))
    for chunk, part in pairs:
        items = simulated_run.plan_table("items").filter(task=chunk.task.name)["item_id"]
        assert (part["item_id"][0], part["item_id"][-1]) == (
            items[chunk.first_item],
            items[chunk.last_item],
        )


def test_a_chunk_is_read_without_those_around_it(
    simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distinct, "chunk_outputs", lambda task: 3)
    cut = list(distinct.chunks(simulated_run, simulated_spec))
    together = {c.path: part for c, part in distinct.with_outputs(simulated_run, cut)}
    for chunk, part in distinct.with_outputs(simulated_run, cut[::2]):
        assert part.equals(together[chunk.path])
