"""Stage 2: completions -> scores, on Ray workers. Each distinct output of an item is scored once, however many dates gave it.

Distinct outputs are cut into chunks in a fixed order; a chunk's file is named by a hash of everything that decides its content, so it is
done if and only if the file exists, and a newer task or metric makes new files.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipeline import cluster, frames, metrics, sandbox, tasks
from pipeline.asked import check_consent
from pipeline.config import ModelSpec, SweepSpec, TaskSpec
from pipeline.errors import StoreError
from pipeline.progress import Reporter
from pipeline.records import Item, Score
from pipeline.store import Run, write_json, write_parquet

ITEM_COLUMNS = frames.schema(Item).names()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Distinct outputs that one worker scores in one go."""

    path: Path
    """The file of its scores."""
    outputs: pl.DataFrame
    """`frames.OUTPUT_KEY`, `text`, `label_logprobs`, `option_order` and the columns of the item."""


def score(run: Run, spec: SweepSpec, reporter: Reporter, address: str | None = None) -> None:
    """Make every score of `run` that is not there yet, and drop those of outputs, tasks or metrics that are no longer in it.

    Raises:
        StoreError: generation is not complete.
        ConfigError: a task runs model-written code without consent.
    """
    check_consent(spec)
    check_generated(run, spec)
    chunks = _all_chunks(run, spec)
    todo = [c for c in chunks if not _is_done(c)]
    if todo:
        _note_confinement(run, spec)
        with cluster.session(address) as resources:
            _score_chunks(todo, resources, reporter, sum(c.outputs.height for c in chunks))
    else:
        reporter.say("score: every output is scored already")
    _drop_stale(run, {c.path for c in chunks})


def progress(run: Run, spec: SweepSpec) -> tuple[int, int]:
    """Chunks scored and chunks in all; (0, 0) while generation is not complete, since chunks are cut from all outputs."""
    try:
        check_generated(run, spec)
    except StoreError:
        return 0, 0
    chunks = _all_chunks(run, spec)
    return sum(map(_is_done, chunks)), len(chunks)


def _all_chunks(run: Run, spec: SweepSpec) -> list[Chunk]:
    return [c for model in spec.models for task in spec.tasks for c in _chunks(run, model, task)]


def _is_done(chunk: Chunk) -> bool:
    """Whether the file exists and our machinery failed on none of its rows; failed ones get another chance."""
    return chunk.path.is_file() and not pl.scan_parquet(chunk.path).select((pl.col("status") == "failed").any()).collect().item()


def _note_confinement(run: Run, spec: SweepSpec) -> None:
    if any(tasks.get(t.name, t.style).executes_code for t in spec.tasks):
        write_json({"confinement": sandbox.confinement()}, run.folder / "scores" / "confinement.json")


def confinement(run: Run) -> dict[str, str]:
    """How programs that the model wrote were confined, for a report; empty where none ran."""
    path = run.folder / "scores" / "confinement.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def check_generated(run: Run, spec: SweepSpec) -> None:
    """Nothing, or StoreError with how much of each model is missing."""
    shards = run.plan_table("requests")["shard"].unique().to_list()
    missing = {m.name: len(run.missing_shards(m.name, shards)) for m in spec.models}
    if lines := [f"{name}: {count} of {len(shards)} shards" for name, count in missing.items() if count]:
        raise StoreError(f"generation is not complete: {'; '.join(lines)} missing; run `datesweep generate {run.folder}` first")


def distinct_outputs(run: Run, model: str, task: str, style: str) -> pl.DataFrame:
    """Distinct (item, output) pairs of one benchmark run, by plan order of items and then by output, with their item's columns."""
    mine = run.completions(model).filter(pl.col("task") == task, pl.col("style") == style)
    shown = mine.join(run.plan_table("variants").lazy().select("variant", "option_order"), on="variant", how="left")
    outputs = shown.select(*frames.OUTPUT_KEY, "text", "label_logprobs", "option_order").unique(subset=frames.OUTPUT_KEY).collect()
    items = run.plan_table("items").with_row_index("rank")
    return outputs.join(items, on=["task", "item_id"], how="inner").sort("rank", "output_id").drop("rank")


def _chunks(run: Run, model: ModelSpec, spec: TaskSpec) -> Iterator[Chunk]:
    outputs = distinct_outputs(run, model.name, spec.name, spec.style)
    folder, size = run.folder / "scores" / model.name / f"{spec.name}.{spec.style}", _chunk_rows(tasks.get(spec.name, spec.style))
    for index, start in enumerate(range(0, outputs.height, size)):
        part = outputs.slice(start, size)
        yield Chunk(path=folder / f"{index:05d}-{_chunk_hash(tasks.get(spec.name, spec.style), part)}.parquet", outputs=part)


def _chunk_rows(task: tasks.Task) -> int:
    """Outputs in one chunk: some seconds of work each, so that little is lost and workers stay evenly busy."""
    if task.executes_code:
        return 32
    return 100_000 if task.kind == "label" else 1_000


def _chunk_hash(task: tasks.Task, outputs: pl.DataFrame) -> str:
    judges = [task.version, *(metrics.get(name).signature() for name in task.metrics)]
    items = outputs.select(ITEM_COLUMNS).unique(maintain_order=True)
    content = [part.to_dict(as_series=False) for part in (outputs.select(frames.OUTPUT_KEY), items)]
    return frames.short_hash(json.dumps([judges, *content], sort_keys=True).encode())


def _score_chunks(todo: list[Chunk], resources: cluster.Resources, reporter: Reporter, total: int) -> None:
    import ray

    work = ray.remote(num_cpus=1, max_retries=2)(score_chunk)
    waiting, done = iter(todo), total - sum(c.outputs.height for c in todo)
    running: dict[Any, Chunk] = {}
    with reporter.stage("score", total, "distinct outputs") as stage:
        while True:
            # A few chunks more than workers: enough to keep them busy, few enough to keep memory flat.
            while len(running) < 2 * resources.num_cpus and (chunk := next(waiting, None)) is not None:
                running[work.remote(chunk.outputs, chunk.path.resolve())] = chunk
            if not running:
                return
            for reference in ray.wait(list(running), timeout=5.0)[0]:
                ray.get(reference)
                done += running.pop(reference).outputs.height
            stage.update(done)


def score_chunk(outputs: pl.DataFrame, path: Path) -> None:
    """Score `outputs`, which belong to one benchmark run, under all metrics of their task, and write the rows to `path`."""
    task = tasks.get(outputs["task"][0], outputs["style"][0])
    answers = outputs.hstack(task.answers(outputs))
    scored = [
        answers.select(*frames.OUTPUT_KEY, "answer", "rule", metric=pl.lit(name)).hstack(metrics.get(name).segments(answers))
        for name in task.metrics
    ]
    columns = frames.schema(Score)
    write_parquet(pl.concat(scored).select(pl.col(name).cast(dtype) for name, dtype in columns.items()), path)


def _drop_stale(run: Run, current: set[Path]) -> None:
    for path in (run.folder / "scores").glob("*/*/*.parquet"):
        if path not in current:
            path.unlink()


def signatures(spec: SweepSpec) -> dict[str, Any]:
    """Metric name -> signature, for the metrics of the sweep's tasks."""
    return {name: metrics.get(name).signature() for t in spec.tasks for name in tasks.get(t.name, t.style).metrics}
