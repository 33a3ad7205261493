"""Scoring distinct outputs: once each, joined back by key, done if and only if the file exists."""

import io
import os
import shutil
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from pipeline import cluster, metrics, tasks
from pipeline.analyses import analyse
from pipeline.core import tables
from pipeline.core.errors import ConfigError, StoreError
from pipeline.core.progress import Reporter
from pipeline.core.records import Score
from pipeline.plan import as_scored, make_plan, planned_spec, with_metrics
from pipeline.score import distinct, progress, score, stage
from pipeline.score.evaluate import Scorer
from pipeline.settings.schema import SweepSpec, TaskSpec
from pipeline.store.run_folder import Run


def outputs_of(run: Run, spec: SweepSpec, name: str) -> pl.DataFrame:
    """All outputs of one task, in the order of their chunks, with their items' columns."""
    cut = [c for c in distinct.chunks(run, spec) if c.task.name == name]
    return pl.concat([part for _, part in distinct.with_outputs(run, cut)]).join(
        run.plan_table("items"), on=["task", "item_id"]
    )


pytestmark = pytest.mark.usefixtures("ray_session")


def test_each_distinct_output_has_one_score_per_metric(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    scores = simulated_run.scores().collect()
    assert scores.schema == tables.schema(Score)
    outputs = simulated_run.completions().select(tables.OUTPUT_KEY).unique().collect()
    for task in simulated_spec.tasks:
        for name in tasks.get(task.name, task.style).metrics:
            mine = scores.filter(task=task.name, metric=name).select(tables.OUTPUT_KEY)
            assert mine.sort(tables.OUTPUT_KEY).equals(
                outputs.filter(task=task.name).sort(tables.OUTPUT_KEY)
            )


def test_outputs_that_repeat_over_dates_are_scored_once(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    num_completions = simulated_run.completions().filter(pl.col("task") == "gsm8k").collect().height
    assert outputs_of(simulated_run, simulated_spec, "gsm8k").height < num_completions / 3


def test_a_score_is_what_task_and_metric_say_of_the_output(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    outputs = outputs_of(simulated_run, simulated_spec, "gsm8k")
    scores = simulated_run.scores().filter(pl.col("task") == "gsm8k").collect()
    answered = outputs.hstack(tasks.get("gsm8k").answers(outputs))
    expected = answered.hstack(metrics.get("accuracy").segments(answered))
    columns = [*tables.OUTPUT_KEY, "answer", "rule", "status", "stats", "detail"]
    assert scores.select(columns).equals(expected.select(columns))


def test_scored_chunks_are_kept_and_lost_ones_made_again_to_the_same_bytes(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    files = sorted((copied_run.folder / "scores").rglob("*.parquet"))
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files}
    files[0].unlink()
    score(copied_run, simulated_spec, Reporter())
    assert {p: p.read_bytes() for p in files} == {p: content for p, (content, _) in before.items()}
    assert all(p.stat().st_mtime_ns == before[p][1] for p in files[1:])


def test_rows_on_which_our_machinery_failed_get_another_chance(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    [path] = (copied_run.folder / "scores").glob("*/gsm8k.zero_shot/*.parquet")
    before = path.read_bytes()
    pl.read_parquet(path).with_columns(status=pl.lit("failed")).write_parquet(path)
    assert progress(copied_run, simulated_spec) == (2, 3)
    score(copied_run, simulated_spec, Reporter())
    assert path.read_bytes() == before


def test_nothing_is_started_when_all_is_scored(
    copied_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "session", None)
    score(copied_run, simulated_spec, Reporter())


def test_a_newer_task_is_scored_anew_and_old_scores_are_dropped(
    copied_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {p.name for p in (copied_run.folder / "scores").rglob("*.parquet") if "gsm8k" in str(p)}
    monkeypatch.setattr(type(tasks.get("gsm8k")), "extraction_version", 99)
    score(copied_run, simulated_spec, Reporter())
    new = {p.name for p in (copied_run.folder / "scores").rglob("*.parquet") if "gsm8k" in str(p)}
    assert len(new) == len(old)
    assert not new & old


def test_other_outputs_are_scored_anew(copied_run: Run, simulated_spec: SweepSpec) -> None:
    before = {p.name for p in (copied_run.folder / "scores").rglob("*.parquet")}
    path = copied_run.completion_path("simulated", 0)
    first = (pl.col("task") == pl.col("task").first()) & (
        pl.col("item_id") == pl.col("item_id").first()
    )
    pl.read_parquet(path).with_columns(
        output_id=pl.when(first).then(pl.lit("0123456789abcdef")).otherwise("output_id")
    ).write_parquet(path)
    score(copied_run, simulated_spec, Reporter())
    assert len({p.name for p in (copied_run.folder / "scores").rglob("*.parquet")} - before) == 1
    is_new = pl.col("output_id") == "0123456789abcdef"
    assert copied_run.scores().filter(is_new).collect().height > 0


def test_an_unfinished_generation_is_not_scored(copied_run: Run, simulated_spec: SweepSpec) -> None:
    copied_run.completion_path("simulated", 2).unlink()
    with pytest.raises(
        StoreError, match=r"simulated: 1 of \d+ shards missing; run `datesweep generate"
    ):
        score(copied_run, simulated_spec, Reporter())


def test_code_is_not_run_without_consent(copied_run: Run, simulated_spec: SweepSpec) -> None:
    spec = simulated_spec.model_copy(update={"tasks": [TaskSpec(name="humaneval")]})
    with pytest.raises(ConfigError, match="programs that the model writes"):
        score(copied_run, spec, Reporter())


def test_an_output_that_kills_its_workers_fails_alone(
    copied_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copied_run.scores().filter(pl.col("task") == "gsm8k").collect()
    deadly = before.filter(pl.col("output_id").is_unique())["output_id"][0]

    def score_outputs(scorer: Scorer, outputs: pl.DataFrame) -> pl.DataFrame:
        if deadly in outputs["output_id"]:
            os._exit(1)
        return scorer.scores(outputs)

    def score_chunk(work: stage.Work) -> None:
        work.write(score_outputs(work.scorer, work.unknown()))

    monkeypatch.setattr(stage, "score_outputs", score_outputs)
    monkeypatch.setattr(stage, "score_chunk", score_chunk)
    monkeypatch.setattr(stage, "RETRIES", 0)
    for path in (copied_run.folder / "scores").glob("*/gsm8k.zero_shot/*.parquet"):
        path.unlink()
    said = io.StringIO()
    score(copied_run, simulated_spec, Reporter(Console(file=said, width=200)))
    after = copied_run.scores().filter(pl.col("task") == "gsm8k").collect()
    is_deadly = pl.col("output_id") == deadly
    assert after.filter(~is_deadly).equals(before.filter(~is_deadly))
    [row] = after.filter(is_deadly).to_dicts()
    assert (row["status"], row["stats"]) == ("failed", None)
    assert "ended its worker: WorkerCrashedError" in row["detail"]
    assert "1 scores failed and count as missing; the first, gsm8k item" in said.getvalue()
    assert progress(copied_run, simulated_spec) == (2, 3), "it gets another chance"


def test_a_run_is_scored_again_under_other_metrics_without_touching_completions(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    kept = [copied_run.folder / "manifest.json"]
    kept += (copied_run.folder / "completions").rglob("*.parquet")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in kept}
    chosen = with_metrics(copied_run, simulated_spec, ["accuracy", "chrf"])
    assert [task.metrics for task in chosen.tasks] == [["accuracy"], ["accuracy"], ["chrf"]]
    score(copied_run, chosen, Reporter())
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in kept} == before
    found = copied_run.scores().select("task", "metric").unique().sort("task").collect().rows()
    assert found == [("gsm8k", "accuracy"), ("mmlu", "accuracy"), ("wmt16_en_de", "chrf")]
    make_plan(copied_run, simulated_spec, Reporter())
    assert as_scored(copied_run, simulated_spec).tasks == chosen.tasks, (
        "the choice outlives a `run` of the same sweep file"
    )
    assert planned_spec(copied_run).tasks == chosen.tasks, "later stages and `status` know of it"
    analyse(copied_run, chosen, Reporter())
    by_date = copied_run.tables()["by_date"]
    assert by_date["metric"].unique().sort().to_list() == ["accuracy", "chrf"]


def test_metrics_that_no_task_can_be_scored_by_are_refused(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    with pytest.raises(ConfigError, match=r"no task .* can be \w+ by pass_at_1"):
        with_metrics(copied_run, simulated_spec, ["accuracy", "pass_at_1"])
    other = r"wmt16_en_de.zero_shot can be \w+ by none of accuracy; also name one of bleu, chrf"
    with pytest.raises(ConfigError, match=other):
        with_metrics(copied_run, simulated_spec, ["accuracy"])
    assert as_scored(copied_run, simulated_spec) == simulated_spec, "nothing is kept of it"


def test_a_run_without_a_choice_is_scored_by_the_metrics_of_its_sweep(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    assert not (copied_run.folder / "scores" / "metrics.json").exists()
    assert as_scored(copied_run, simulated_spec) == simulated_spec


def test_what_is_noted_beside_the_scores_outlives_stale_ones(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    notes = [copied_run.folder / "scores" / name for name in ("metrics.json", "confinement.json")]
    for path in notes:
        path.write_text("{}")
    stale = copied_run.folder / "scores" / "simulated" / "mmlu.zero_shot" / "00000-old.parquet"
    shutil.copy(next(stale.parent.glob("*.parquet")), stale)
    score(copied_run, simulated_spec, Reporter())
    assert [path.read_text() for path in notes] == ["{}", "{}"]
    assert not stale.exists()


def test_a_worker_that_dies_once_costs_nothing(
    copied_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in (copied_run.folder / "scores").rglob("*.parquet")}
    died = tmp_path / "died"

    def score_chunk(work: stage.Work) -> None:
        if not died.exists():
            died.touch()
            os._exit(1)
        work.write(work.scorer.scores(work.unknown()))

    monkeypatch.setattr(stage, "score_chunk", score_chunk)
    for path in before:
        path.unlink()
    said = io.StringIO()
    score(copied_run, simulated_spec, Reporter(Console(file=said, width=200)))
    assert died.exists()
    assert {path: path.read_bytes() for path in before} == before
    assert "to blame" not in said.getvalue()


def test_only_what_failed_is_scored_again(copied_run: Run, simulated_spec: SweepSpec) -> None:
    [path] = (copied_run.folder / "scores").glob("*/gsm8k.zero_shot/*.parquet")
    rows, is_bad = pl.read_parquet(path), pl.row_index() == 1
    changed = rows.with_columns(
        status=pl.when(is_bad).then(pl.lit("failed")).otherwise("status"),
        stats=pl.when(is_bad).then(None).otherwise("stats"),
        detail=pl.when(is_bad).then(pl.lit("broken")).otherwise(pl.lit("kept as it was")),
    )
    changed.write_parquet(path)
    score(copied_run, simulated_spec, Reporter())
    after = pl.read_parquet(path)
    assert after.drop("detail").equals(rows.drop("detail"))
    assert after["detail"].to_list() == [
        "kept as it was" if i != 1 else "" for i in range(rows.height)
    ]
