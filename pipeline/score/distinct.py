"""The distinct outputs of a run, cut into chunks that a worker scores in one go.

An output is in one chunk however many dates gave it. Chunks are cut in the order of items and of
output ids, so it does not matter in which order, or by how many processes, completions were made. A
chunk's file is named by a hash of everything that decides its content: it is done if and only if
the file exists, and a newer task or metric makes new files. Cutting needs ids only; texts and
log-probabilities are read for a range of items at a time (a band), so that memory does not grow
with the run.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from pipeline import tasks
from pipeline.core import tables
from pipeline.core.errors import StoreError
from pipeline.core.records import Score
from pipeline.plan import signatures
from pipeline.settings import SweepSpec, TaskSpec
from pipeline.store import Place, Run, scan_parquet


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Distinct outputs of one benchmark run that follow one another.

    Items have the numbers of their rows among the task's in the plan.
    """

    path: Place
    """The file of its scores."""
    model: str
    task: TaskSpec
    index: int
    """Its number among the chunks of the model's benchmark run."""
    first_item: int
    last_item: int
    skipped: int
    """Outputs of the first item that belong to chunks before."""
    size: int
    """Number of outputs."""
    num_completions: int
    """Number of completions that gave them."""


def how_scored(task: TaskSpec, items: pl.DataFrame) -> str:
    """What decides a score beside the output, as text.

    Columns, the version of the task's extraction, and the metrics' signatures.
    """
    version = tasks.get(task.name, task.style).extraction_version
    return json.dumps([tables.schema(Score).names(), version, signatures(task, items)])


def chunk_outputs(task: TaskSpec) -> int:
    """Outputs in one chunk: some seconds of work, so that little is lost and workers stay busy."""
    kind = tasks.get(task.name, task.style)
    if kind.executes_code:
        return 32
    return 100_000 if kind.kind == "label" else 2_000


def band_completions(task: TaskSpec) -> int:
    """Completions read at once: few 100 MB, yet so many that few shards are read twice."""
    return 1_000_000 if tasks.get(task.name, task.style).kind == "label" else 128_000


def unfinished(run: Run, planned: Sequence[Chunk]) -> list[Chunk]:
    """Those without scores, or in which our machinery failed on an output and may try again."""
    # One listing, and one scan: a store takes tens of milliseconds for each file asked after.
    written = {str(path) for path in (run.folder / "scores").glob("*/*/*.parquet")}
    done = [chunk.path for chunk in planned if str(chunk.path) in written]
    if done and _any_failed(done):
        done = [path for path in done if not _any_failed([path])]
    finished = set(done)
    return [chunk for chunk in planned if chunk.path not in finished]


def _any_failed(paths: Sequence[Place]) -> bool:
    return bool(scan_parquet(paths).select((pl.col("status") == "failed").any()).collect().item())


def chunks(run: Run, spec: SweepSpec) -> Iterator[Chunk]:
    """Every chunk of `run`, in the order of models, tasks, items and outputs.

    Completions must all be there.
    """
    for model in spec.models:
        for task in spec.tasks:
            yield from _chunks(run, model.name, task)


def _chunks(run: Run, model: str, task: TaskSpec) -> Iterator[Chunk]:
    items = run.plan_table("items").filter(task=task.name)
    ids = _output_ids(run, model, task, items["item_id"])
    folder = run.folder / "scores" / model / f"{task.name}.{task.style}"
    how = how_scored(task, items)
    size = chunk_outputs(task)
    for index, start in enumerate(range(0, ids.height, size)):
        part = ids[start : start + size]
        first, last = int(part["item"][0]), int(part["item"][-1])
        name = _name(how, items[first : last + 1], part)
        yield Chunk(
            path=folder / f"{index:05d}-{name}.parquet",
            model=model,
            task=task,
            index=index,
            first_item=first,
            last_item=last,
            skipped=start - int(ids["item"].search_sorted(first)),
            size=part.height,
            num_completions=int(part["num_completions"].sum()),
        )


def _output_ids(run: Run, model: str, task: TaskSpec, items: pl.Series) -> pl.DataFrame:
    """Distinct outputs of one benchmark run, sorted: columns item, output, num_completions."""
    output = pl.col("output_id").str.to_integer(base=16, dtype=pl.UInt64)
    rows = run.completions(model).filter(pl.col("task") == task.name, pl.col("style") == task.style)
    return (
        rows.select(item=_number(items).cast(pl.UInt32), output=output)
        .drop_nulls("item")
        .group_by("item", "output")
        .agg(num_completions=pl.len())
        .collect(engine="streaming")
        .sort("item", "output")
    )


def _name(how: str, items: pl.DataFrame, outputs: pl.DataFrame) -> str:
    """A hash of what decides a chunk's scores."""
    questions = json.dumps(items.to_dict(as_series=False), sort_keys=True)
    columns = [outputs["item"] - outputs["item"][0], outputs["output"]]
    numbers = [column.to_numpy().astype("<u8").tobytes() for column in columns]
    return tables.short_hash(b"".join([(how + questions).encode(), *numbers]))


def with_outputs(run: Run, wanted: Iterable[Chunk]) -> Iterator[tuple[Chunk, pl.DataFrame]]:
    """Each of the chunks `wanted` with its outputs.

    Raises:
        StoreError: the shards do not hold the outputs that the plan gave them.
    """
    for band in _bands(wanted):
        first = band[0]
        outputs = outputs_of(run, first.model, first.task, first.first_item, band[-1].last_item)
        start = first.skipped
        for chunk in band:
            part = outputs[start : start + chunk.size]
            if part.height != chunk.size:
                raise StoreError(
                    f"{run.folder}: completions of {chunk.model} are not in the shards of "
                    "the plan; generate them anew"
                )
            start += chunk.size
            yield chunk, part


def _bands(wanted: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that follow one another, together: their outputs are read in one go."""
    band: list[Chunk] = []
    for chunk in wanted:
        if band and not _continues(band, chunk):
            yield band
            band = []
        band.append(chunk)
    if band:
        yield band


def _continues(band: list[Chunk], chunk: Chunk) -> bool:
    """Whether `chunk` follows the chunks of `band`, which has room for it."""
    last = band[-1]
    is_next = (chunk.model, chunk.task, chunk.index) == (last.model, last.task, last.index + 1)
    num_completions = sum(c.num_completions for c in (*band, chunk))
    return is_next and num_completions <= band_completions(chunk.task)


def outputs_of(
    run: Run, model: str, task: TaskSpec, first_item: int, last_item: int
) -> pl.DataFrame:
    """The outputs of a range of items in one benchmark run.

    Only the shards that the plan gave these items to are read.
    """
    items = run.plan_table("items").filter(task=task.name)["item_id"]
    shards = run.shards_of(task.name, task.style, items[first_item : last_item + 1])
    rows = scan_parquet([run.completion_path(model, shard) for shard in shards]).filter(
        pl.col("task") == task.name,
        pl.col("style") == task.style,
        _number(items).is_between(first_item, last_item),
    )
    return distinct(rows, items, run.plan_table("variants"))


def distinct(completions: pl.LazyFrame, items: pl.Series, variants: pl.DataFrame) -> pl.DataFrame:
    """Distinct outputs of `completions` of one benchmark run, which asked some of the `items`.

    Columns `tables.OUTPUT_KEY`, `text`, `label_logprobs`, `option_order`; sorted by the items'
    numbers and by output id.
    """
    numbered = completions.with_columns(
        pl.col("variant").cast(pl.Enum(variants["variant"])), number=_number(items)
    )
    # Ids first and texts once for each output: texts of all dates would be far larger.
    order = ["number", "output_id", "variant", "replicate"]
    ids = numbered.select(*tables.OUTPUT_KEY, "number", "variant", "replicate")
    # Sorted outside of the stream, which is slow at it.
    ordered = ids.collect(engine="streaming").sort(order)
    output = ["number", "output_id"]
    heads = ordered.unique(output, keep="first", maintain_order=True)
    orders = variants.select(pl.col("variant").cast(ordered.schema["variant"]), "option_order")
    texts = numbered.select(*output, "text", "label_logprobs").unique(output)
    rows = heads.join(orders, on="variant", how="left", maintain_order="left").join(
        texts.collect(engine="streaming"), on=output, how="left", maintain_order="left"
    )
    return rows.select(*tables.OUTPUT_KEY, "text", "label_logprobs", "option_order")


def _number(items: pl.Series) -> pl.Expr:
    """Number of the row's item among `items`; null where it is none of them."""
    return pl.col("item_id").cast(pl.Enum(items), strict=False).to_physical()
