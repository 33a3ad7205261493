"""Scoring distinct outputs: once each, joined back by key, done if and only if the file exists."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from pipeline import cluster, frames, metrics, score, tasks
from pipeline.config import SweepSpec, TaskSpec
from pipeline.errors import ConfigError, StoreError
from pipeline.progress import Reporter
from pipeline.records import Score
from pipeline.store import Run


def outputs_of(run: Run, spec: SweepSpec, name: str) -> pl.DataFrame:
    """All outputs that are scored for one task, in the order of their chunks, with their items' columns."""
    chunks = [c for c in score.chunks(run, spec) if c.task.name == name]
    return pl.concat([part for _, part in score.with_outputs(run, chunks)]).join(run.plan_table("items"), on=["task", "item_id"])


@pytest.fixture
def copied(simulated_run: Run, tmp_path: Path) -> Run:
    shutil.copytree(simulated_run.folder, tmp_path / "run")
    return Run(tmp_path / "run")


def test_each_distinct_output_has_one_score_per_metric(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    scores = simulated_run.scores().collect()
    assert scores.schema == frames.schema(Score)
    outputs = simulated_run.completions().select(frames.OUTPUT_KEY).unique().collect()
    for task in simulated_spec.tasks:
        for name in tasks.get(task.name, task.style).metrics:
            mine = scores.filter(task=task.name, metric=name).select(frames.OUTPUT_KEY)
            assert mine.sort(frames.OUTPUT_KEY).equals(outputs.filter(task=task.name).sort(frames.OUTPUT_KEY))


@pytest.mark.parametrize(("chunk_rows", "band"), [(1, 1), (5, 30), (7, 10_000), (1_000, 1)])
def test_chunks_hold_each_distinct_output_once_however_they_are_cut(
    simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch, chunk_rows: int, band: int
) -> None:
    monkeypatch.setattr(score, "_chunk_rows", lambda task: chunk_rows)
    monkeypatch.setattr(score, "_band_completions", lambda task: band)
    chunks = list(score.chunks(simulated_run, simulated_spec))
    pairs = list(score.with_outputs(simulated_run, chunks))
    assert [c for c, _ in pairs] == chunks
    assert [part.height for _, part in pairs] == [c.size for c in chunks]
    assert max(c.size for c in chunks) <= chunk_rows
    assert len({c.path for c in chunks}) == len(chunks)
    completions = simulated_run.completions().collect()
    assert sum(c.num_completions for c in chunks) == completions.height
    wanted = [*frames.OUTPUT_KEY, "text", "label_logprobs"]
    found = pl.concat([part for _, part in pairs])
    for task in simulated_spec.tasks:
        mine, asked = found.filter(task=task.name), simulated_run.plan_table("items").filter(task=task.name)
        rank = {item: number for number, item in enumerate(asked["item_id"])}
        expected = completions.filter(task=task.name).unique(frames.OUTPUT_KEY).sort(pl.col("item_id").replace_strict(rank), "output_id")
        assert mine.select(wanted).equals(expected.select(wanted))
    for chunk, part in pairs:
        items = simulated_run.plan_table("items").filter(task=chunk.task.name)["item_id"]
        assert (part["item_id"][0], part["item_id"][-1]) == (items[chunk.first_item], items[chunk.last_item])


def test_a_chunk_is_read_without_those_around_it(simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "_chunk_rows", lambda task: 3)
    chunks = list(score.chunks(simulated_run, simulated_spec))
    together = {c.path: part for c, part in score.with_outputs(simulated_run, chunks)}
    for chunk, part in score.with_outputs(simulated_run, chunks[::2]):
        assert part.equals(together[chunk.path])


def test_outputs_that_repeat_over_dates_are_scored_once(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    num_completions = simulated_run.completions().filter(pl.col("task") == "gsm8k").collect().height
    assert outputs_of(simulated_run, simulated_spec, "gsm8k").height < num_completions / 3


def test_a_score_is_what_task_and_metric_say_of_the_output(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    outputs = outputs_of(simulated_run, simulated_spec, "gsm8k")
    scores = simulated_run.scores().filter(pl.col("task") == "gsm8k").collect()
    for row in outputs.iter_rows(named=True):
        [item] = frames.to_records(tasks.Item, outputs.filter(output_id=row["output_id"], item_id=row["item_id"]))
        answer = tasks.get("gsm8k").extract(item, row["text"])
        expected = metrics.get("accuracy").segment(item, answer)
        stored = scores.filter(item_id=row["item_id"], output_id=row["output_id"]).row(0, named=True)
        assert (stored["answer"], stored["rule"], stored["status"], stored["stats"]) == (
            answer.answer,
            answer.rule,
            expected.status,
            expected.stats,
        )


def test_scored_chunks_are_kept_and_lost_ones_made_again_to_the_same_bytes(copied: Run, simulated_spec: SweepSpec) -> None:
    files = sorted((copied.folder / "scores").rglob("*.parquet"))
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files}
    files[0].unlink()
    score.score(copied, simulated_spec, Reporter())
    assert {p: p.read_bytes() for p in files} == {p: content for p, (content, _) in before.items()}
    assert all(p.stat().st_mtime_ns == before[p][1] for p in files[1:])


def test_rows_on_which_our_machinery_failed_get_another_chance(copied: Run, simulated_spec: SweepSpec) -> None:
    [path] = (copied.folder / "scores").glob("*/gsm8k.zero_shot/*.parquet")
    before = path.read_bytes()
    pl.read_parquet(path).with_columns(status=pl.lit("failed")).write_parquet(path)
    assert score.progress(copied, simulated_spec) == (2, 3)
    score.score(copied, simulated_spec, Reporter())
    assert path.read_bytes() == before


def test_nothing_is_started_when_all_is_scored(copied: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "session", None)
    score.score(copied, simulated_spec, Reporter())


def test_a_newer_task_is_scored_anew_and_old_scores_are_dropped(
    copied: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {p.name for p in (copied.folder / "scores").rglob("*.parquet") if "gsm8k" in str(p)}
    monkeypatch.setattr(type(tasks.get("gsm8k")), "version", 99)
    score.score(copied, simulated_spec, Reporter())
    new = {p.name for p in (copied.folder / "scores").rglob("*.parquet") if "gsm8k" in str(p)}
    assert len(new) == len(old)
    assert not new & old


def test_other_outputs_are_scored_anew(copied: Run, simulated_spec: SweepSpec) -> None:
    before = {p.name for p in (copied.folder / "scores").rglob("*.parquet")}
    path = copied.completion_path("simulated", 0)
    first = (pl.col("task") == pl.col("task").first()) & (pl.col("item_id") == pl.col("item_id").first())
    pl.read_parquet(path).with_columns(output_id=pl.when(first).then(pl.lit("0123456789abcdef")).otherwise("output_id")).write_parquet(path)
    score.score(copied, simulated_spec, Reporter())
    assert len({p.name for p in (copied.folder / "scores").rglob("*.parquet")} - before) == 1
    assert copied.scores().filter(pl.col("output_id") == "0123456789abcdef").collect().height > 0


def test_an_unfinished_generation_is_not_scored(copied: Run, simulated_spec: SweepSpec) -> None:
    copied.completion_path("simulated", 2).unlink()
    with pytest.raises(StoreError, match=r"simulated: 1 of \d+ shards missing; run `datesweep generate"):
        score.score(copied, simulated_spec, Reporter())


def test_code_is_not_run_without_consent(copied: Run, simulated_spec: SweepSpec) -> None:
    spec = simulated_spec.model_copy(update={"tasks": [TaskSpec(name="humaneval")]})
    with pytest.raises(ConfigError, match="programs that the model writes"):
        score.score(copied, spec, Reporter())
