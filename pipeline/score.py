"""Stage 2: completions -> scores, on Ray workers. Each distinct output of an item is scored once, however many dates gave it.

Distinct outputs are cut into chunks in a fixed order; a chunk's file is named by a hash of everything that decides its content, so it is
done if and only if the file exists, and a newer task or metric makes new files. Cutting needs the outputs' ids only; their texts and
log-probabilities are read for a range of items at a time (`_bands`), so that memory does not grow with the run.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import cluster, frames, metrics, sandbox, tasks
from pipeline.asked import check_consent
from pipeline.config import ModelSpec, SweepSpec, TaskSpec
from pipeline.errors import StoreError
from pipeline.places import Place
from pipeline.progress import Reporter
from pipeline.records import Score
from pipeline.store import Run, scan_parquet, write_json, write_parquet

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Distinct outputs that one worker scores in one go: some that follow one another in the order of items and of output ids.

    Items have the numbers of their rows among the task's in the plan's table `items`.
    """

    path: Place
    """The file of its scores."""
    model: str
    task: TaskSpec
    index: int
    """Its place among the chunks of the model's benchmark run."""
    first_item: int
    last_item: int
    skipped: int
    """Outputs of the first item that belong to chunks before."""
    size: int
    """Number of outputs."""
    num_completions: int
    """Number of completions that gave them."""


def score(run: Run, spec: SweepSpec, reporter: Reporter, address: str | None = None) -> None:
    """Make every score of `run` that is not there yet, and drop those of outputs, tasks or metrics that are no longer in it.

    Raises:
        StoreError: generation is not complete.
        ConfigError: a task runs model-written code without consent.
    """
    check_consent(spec)
    check_generated(run, spec)
    planned = list(chunks(run, spec))
    todo = [c for c in planned if not _is_done(c)]
    if todo:
        _note_confinement(run, spec)
        with cluster.session(address) as resources:
            _score_chunks(run, todo, resources, reporter, sum(c.size for c in planned))
    else:
        reporter.say("score: every output is scored already")
    _drop_stale(run, {c.path for c in planned})


def progress(run: Run, spec: SweepSpec) -> tuple[int, int]:
    """Chunks scored and chunks in all; (0, 0) while generation is not complete, since chunks are cut from all outputs."""
    try:
        check_generated(run, spec)
    except StoreError:
        return 0, 0
    planned = list(chunks(run, spec))
    return sum(map(_is_done, planned)), len(planned)


def chunks(run: Run, spec: SweepSpec) -> Iterator[Chunk]:
    """Every chunk of `run`, in the order of models, tasks, items and outputs."""
    return (chunk for model in spec.models for task in spec.tasks for chunk in _chunks(run, model, task))


def _is_done(chunk: Chunk) -> bool:
    """Whether the file exists and our machinery failed on none of its rows; failed ones get another chance."""
    return chunk.path.is_file() and not scan_parquet([chunk.path]).select((pl.col("status") == "failed").any()).collect().item()


def _note_confinement(run: Run, spec: SweepSpec) -> None:
    if any(tasks.get(t.name, t.style).executes_code for t in spec.tasks):
        write_json({"confinement": sandbox.confinement()}, run.folder / "scores" / "confinement.json")


def confinement(run: Run) -> dict[str, str]:
    """How programs that the model wrote were confined, for a report; empty where none ran."""
    path = run.folder / "scores" / "confinement.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def check_generated(run: Run, spec: SweepSpec) -> None:
    """Nothing, or StoreError with how much of each model is missing."""
    shards = list(run.shard_sizes())
    missing = {m.name: len(run.missing_shards(m.name, shards)) for m in spec.models}
    if lines := [f"{name}: {count} of {len(shards)} shards" for name, count in missing.items() if count]:
        raise StoreError(f"generation is not complete: {'; '.join(lines)} missing; run `datesweep generate {run.folder}` first")


def outputs_of(run: Run, model: str, task: TaskSpec, first_item: int, last_item: int) -> pl.DataFrame:
    """Distinct outputs of a range of items in one benchmark run: `frames.OUTPUT_KEY`, `text`, `label_logprobs`, `option_order`; in order.

    Only the shards that the plan gave these items to are read.
    """
    items = run.plan_table("items").filter(task=task.name)["item_id"]
    asked = run.plan_table("asked").with_row_index("item").filter(task=task.name, style=task.style)
    numbers = asked.filter(pl.col("item_id").is_in(items[first_item : last_item + 1].implode()))["item"]
    shards = run.plan_table("requests").lazy().filter(pl.col("item").is_in(numbers.implode())).select(pl.col("shard").unique().sort())
    rows = scan_parquet([run.completion_path(model, shard) for shard in shards.collect()["shard"]])
    number = pl.col("item_id").cast(pl.Enum(items), strict=False).to_physical()
    mine = rows.filter(pl.col("task") == task.name, pl.col("style") == task.style, number.is_between(first_item, last_item))
    found = mine.select(*frames.OUTPUT_KEY, "text", "label_logprobs", "variant").collect(engine="streaming")
    distinct = found.unique(subset=["item_id", "output_id"]).sort(number, "output_id")  # here, as it is slow and large in a stream
    orders = run.plan_table("variants").select("variant", "option_order")
    return distinct.join(orders, on="variant", how="left", maintain_order="left").drop("variant")


def _keys(run: Run, model: str, task: TaskSpec, items: pl.DataFrame) -> tuple[Numbers, Numbers, Numbers]:
    """Distinct outputs of one benchmark run, sorted: (num_outputs,) numbers of item and output, and how many completions gave it."""
    number = pl.col("item_id").cast(pl.Enum(items["item_id"]), strict=False).to_physical().cast(pl.UInt64)
    output = pl.col("output_id").str.to_integer(base=16, dtype=pl.UInt64)
    mine = run.completions(model).filter(pl.col("task") == task.name, pl.col("style") == task.style)
    rows = mine.select(item=number, output=output).drop_nulls("item").collect(engine="streaming")
    keys = np.stack([rows["item"].to_numpy(), rows["output"].to_numpy()])
    keys = keys[:, np.lexsort(keys[::-1])]
    first = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: keys.shape[1]])
    item, output_number = keys[:, first]
    return item, output_number, np.diff(first, append=keys.shape[1]).astype(np.uint64)


def _chunks(run: Run, model: ModelSpec, spec: TaskSpec) -> Iterator[Chunk]:
    task, items = tasks.get(spec.name, spec.style), run.plan_table("items").filter(task=spec.name)
    item, output, times = _keys(run, model.name, spec, items)
    folder, size = run.folder / "scores" / model.name / f"{spec.name}.{spec.style}", _chunk_rows(task)
    for index, start in enumerate(range(0, item.size, size)):
        here = slice(start, start + size)
        first, last = int(item[start]), int(item[here][-1])
        name = _chunk_hash(task, items[first : last + 1], item[here], output[here])
        yield Chunk(
            path=folder / f"{index:05d}-{name}.parquet",
            model=model.name,
            task=spec,
            index=index,
            first_item=first,
            last_item=last,
            skipped=start - int(np.searchsorted(item, first)),
            size=item[here].size,
            num_completions=int(times[here].sum()),
        )


def _chunk_rows(task: tasks.Task) -> int:
    """Outputs in one chunk: some seconds of work each, so that little is lost and workers stay evenly busy."""
    if task.executes_code:
        return 32
    return 100_000 if task.kind == "label" else 1_000


def _band_completions(task: tasks.Task) -> int:
    """Completions read at once: so many that few shards are read twice, and so few that they are a few 100 MB."""
    return 1_000_000 if task.kind == "label" else 128_000


def _chunk_hash(task: tasks.Task, items: pl.DataFrame, item: Numbers, output: Numbers) -> str:
    """A name for the scores of the outputs with these numbers, which changes with whatever may change the scores."""
    judges = [task.version, *(metrics.get(name).signature() for name in task.metrics)]
    content = json.dumps([judges, items.to_dict(as_series=False)], sort_keys=True).encode()
    return frames.short_hash(content + (item - item[0]).astype("<u8").tobytes() + output.astype("<u8").tobytes())


def _bands(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that follow one another, together: their outputs are read in one go."""
    band: list[Chunk] = []
    for chunk in chunks:
        if band:
            before, most = band[-1], _band_completions(tasks.get(chunk.task.name, chunk.task.style))
            follows = (chunk.model, chunk.task, chunk.index) == (before.model, before.task, before.index + 1)
            if not follows or sum(c.num_completions for c in band) + chunk.num_completions > most:
                yield band
                band = []
        band.append(chunk)
    if band:
        yield band


def with_outputs(run: Run, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, pl.DataFrame]]:
    """Each of `chunks` with its outputs, as `outputs_of` gives them."""
    for band in _bands(chunks):
        first, task = band[0], band[0].task
        rows = outputs_of(run, first.model, task, first.first_item, band[-1].last_item)
        for chunk in band:
            start = first.skipped + sum(c.size for c in band[: chunk.index - first.index])
            outputs = rows[start : start + chunk.size]
            if outputs.height != chunk.size:
                raise StoreError(f"{run.folder}: completions of {chunk.model} are not in the shards of the plan; generate them anew")
            yield chunk, outputs


def _score_chunks(run: Run, todo: list[Chunk], resources: cluster.Resources, reporter: Reporter, total: int) -> None:
    import ray

    work = ray.remote(num_cpus=1, max_retries=2)(score_chunk)
    waiting, done = with_outputs(run, todo), total - sum(c.size for c in todo)
    items = run.plan_table("items")
    running: dict[Any, Chunk] = {}
    with reporter.stage("score", total, "distinct outputs") as stage:
        while True:
            # A few chunks more than workers: enough to keep them busy, few enough to keep memory flat.
            for chunk, outputs in itertools.islice(waiting, 2 * resources.num_cpus - len(running)):
                mine = items.filter(task=chunk.task.name)[chunk.first_item : chunk.last_item + 1]
                running[work.remote(outputs, mine, chunk.path.resolve())] = chunk
            if not running:
                return
            for reference in ray.wait(list(running), timeout=5.0)[0]:
                ray.get(reference)
                done += running.pop(reference).size
            stage.update(done)


def score_chunk(outputs: pl.DataFrame, items: pl.DataFrame, path: Place) -> None:
    """Score `outputs`, which are of `items` and of one benchmark run, under all metrics of their task, and write the rows to `path`."""
    task = tasks.get(outputs["task"][0], outputs["style"][0])
    asked = outputs.join(items, on=["task", "item_id"], how="left", maintain_order="left")
    answers = asked.hstack(task.answers(asked))
    scored = [
        answers.select(*frames.OUTPUT_KEY, "answer", "rule", metric=pl.lit(name)).hstack(metrics.get(name).segments(answers))
        for name in task.metrics
    ]
    columns = frames.schema(Score)
    write_parquet(pl.concat(scored).select(pl.col(name).cast(dtype) for name, dtype in columns.items()), path)


def _drop_stale(run: Run, current: set[Place]) -> None:
    for path in (run.folder / "scores").glob("*/*/*.parquet"):
        if path not in current:
            path.unlink()


def signatures(spec: SweepSpec) -> dict[str, Any]:
    """Metric name -> signature, for the metrics of the sweep's tasks."""
    return {name: metrics.get(name).signature() for t in spec.tasks for name in tasks.get(t.name, t.style).metrics}
