"""Scoring while generation runs: the run folder ends the same, and what was scored early is not
scored again.
"""

import shutil
import time
from pathlib import Path

import polars as pl
import pytest

from pipeline import cluster, score
from pipeline.core.progress import Reporter
from pipeline.score import early
from pipeline.settings.schema import SweepSpec
from pipeline.store.run_folder import Run

TEXTS = ["gsm8k.zero_shot", "wmt16_en_de.zero_shot"]


@pytest.fixture
def unscored(simulated_run: Run, tmp_path: Path) -> Run:
    for part in ("manifest.json", "plan", "completions", "engines"):
        source, target = Path(str(simulated_run.folder)) / part, tmp_path / "run" / part
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    return Run(tmp_path / "run")


def scored_early(run: Run, spec: SweepSpec) -> dict[str, Path]:
    """The files of what was scored, after steps until nothing is left to do."""
    scorer, deadline = early.Scorer(run, spec), time.monotonic() + 60
    [node] = cluster.nodes()
    scorer.step({node.node_id: 1})
    while scorer.running or any(queue.shards or queue.is_worth_it for queue in scorer.queues):
        assert time.monotonic() < deadline
        assert len(scorer.running) <= 1, "no more tasks than cores are kept for them"
        time.sleep(0.05)
        scorer.step({node.node_id: 1})
    return {
        str(path.relative_to(run.folder)): Path(path)
        for path in (run.folder / "early").rglob("*.parquet")
    }


def files_of(run: Run) -> dict[str, bytes]:
    found = (path for part in ("scores", "sums") for path in (run.folder / part).rglob("*.parquet"))
    return {str(path.relative_to(run.folder)): path.read_bytes() for path in found}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "chunk_rows", lambda task: 4)
    monkeypatch.setattr(early, "LOOK_EVERY_S", 0.0)


@pytest.mark.usefixtures("shared_ray")
def test_texts_are_scored_as_their_shards_appear_and_labels_are_not(
    unscored: Run, simulated_spec: SweepSpec
) -> None:
    last = unscored.completion_path("simulated", max(unscored.shard_sizes()))
    aside = Path(str(last)).rename(unscored.folder / "aside")
    scorer = early.Scorer(unscored, simulated_spec)
    assert [queue.task.name for queue in scorer.queues] == ["gsm8k", "wmt16_en_de"]
    queue = next(q for q in scorer.queues if int(Path(str(last)).stem) in q.shards)
    queue.read_new(time.monotonic() + 60)
    assert queue.shards == [int(Path(str(last)).stem)]
    aside.rename(last)
    queue.read_new(time.monotonic() + 60)
    assert queue.shards == []
    completions = (
        unscored.completions()
        .filter(pl.col("task") == queue.task.name)
        .select("item_id", "output_id")
        .unique()
        .collect()
    )
    key = ["item_id", "output_id"]
    assert queue.waiting.select(key).sort(key).equals(completions.sort(key))


def test_no_core_of_an_engine_is_used(
    unscored: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = early.Scorer(unscored, simulated_spec)
    monkeypatch.setattr(early, "_Queue", None)
    assert scorer.step({}) == scorer.step({"node": 0}) == ""
    assert not scorer.running


@pytest.mark.usefixtures("shared_ray")
def test_the_run_ends_the_same_and_early_scores_are_taken_from_there(
    unscored: Run, simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = scored_early(unscored, simulated_spec)
    assert {Path(name).parent.name for name in found} == set(TEXTS)
    kept = shutil.copytree(unscored.folder / "early", unscored.folder / "kept")
    score.score(unscored, simulated_spec, Reporter())
    assert files_of(unscored) == files_of(simulated_run)
    assert not any((unscored.folder / "early").rglob("*.parquet")), "what was kept aside is dropped"

    # Again, with a mark in what was scored early: it is in the scores, so nothing was scored twice.
    for part in ("scores", "sums", "early"):
        shutil.rmtree(unscored.folder / part)
    shutil.copytree(kept, unscored.folder / "early")
    [path, *_] = sorted((unscored.folder / "early").rglob("*.parquet"))
    pl.read_parquet(path).with_columns(answer=pl.lit("scored early")).write_parquet(path)
    marked = pl.read_parquet(path).height
    score.score(unscored, simulated_spec, Reporter())
    assert unscored.scores().filter(pl.col("answer") == "scored early").collect().height == marked


@pytest.mark.usefixtures("shared_ray")
def test_what_was_scored_early_is_not_scored_early_again_after_a_restart(
    unscored: Run, simulated_spec: SweepSpec
) -> None:
    before = {
        name: path.stat().st_mtime_ns
        for name, path in scored_early(unscored, simulated_spec).items()
    }
    after = {
        name: path.stat().st_mtime_ns
        for name, path in scored_early(unscored, simulated_spec).items()
    }
    assert after.items() >= before.items()
    new = pl.concat([pl.read_parquet(unscored.folder / name) for name in after]).select(
        "task", "item_id", "output_id", "metric"
    )
    assert not new.is_duplicated().any()


@pytest.mark.usefixtures("shared_ray")
def test_nothing_that_goes_wrong_here_stops_the_engines(
    unscored: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(early, "_score", full)
    assert scored_early(unscored, simulated_spec) == {}


@pytest.mark.usefixtures("shared_ray")
def test_what_ran_out_of_time_beside_the_engines_is_scored_again(
    unscored: Run, simulated_spec: SweepSpec
) -> None:
    [path, *_] = sorted(scored_early(unscored, simulated_spec).values())
    rows = pl.read_parquet(path)
    late = rows["output_id"][0]
    rows.with_columns(
        status=pl.when(pl.col("output_id") == late).then(pl.lit("timeout")).otherwise("status")
    ).write_parquet(path)
    [task] = [t for t in simulated_spec.tasks if t.name == rows["task"][0]]
    known = early.Known(unscored).rows("simulated", task)
    assert late in rows["output_id"]
    assert not known.filter(item_id=rows["item_id"][0], output_id=late).height
    assert "timeout" not in known["status"]
