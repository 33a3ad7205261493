"""The distinct outputs of a run, cut into chunks that a worker scores in one go.

An output is in one chunk however many dates gave it.

Chunks are cut in the order of items and of output ids, so it does not matter in which order, or by
how many processes, completions were made. A chunk's file is named by a hash of everything that
decides its content: it is done if and only if the file exists, and a newer task or metric makes new
files. Cutting needs ids only; texts and log-probabilities are read for a range of items at a time
(`_bands`), so that memory does not grow with the run.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import tasks
from pipeline.core import tables
from pipeline.core.errors import StoreError
from pipeline.core.records import Score
from pipeline.plan import signatures
from pipeline.settings import SweepSpec, TaskSpec
from pipeline.store import Place, Run, scan_parquet

Numbers = npt.NDArray[np.unsignedinteger]


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
    """Its place among the chunks of the model's benchmark run."""
    first_item: int
    last_item: int
    skipped: int
    """Outputs of the first item that belong to chunks before."""
    size: int
    """Number of outputs."""
    num_completions: int
    """Number of completions that gave them."""


def how_scored(task: TaskSpec, items: pl.DataFrame) -> str:
    """What decides a score beside the output, as text: columns, the version of the task's
    extraction, and the metrics' signatures.
    """
    version = tasks.get(task.name, task.style).extraction_version
    return json.dumps([tables.schema(Score).names(), version, signatures(task, items)])


def chunk_rows(task: TaskSpec) -> int:
    """Outputs in one chunk: some seconds of work each, so that little is lost and workers stay
    evenly busy.
    """
    kind = tasks.get(task.name, task.style)
    if kind.executes_code:
        return 32
    return 100_000 if kind.kind == "label" else 2_000


def _band_completions(task: TaskSpec) -> int:
    """Completions read at once: so many that few shards are read twice, and so few that they are a
    few 100 MB.
    """
    return 1_000_000 if tasks.get(task.name, task.style).kind == "label" else 128_000


def unfinished(run: Run, planned: Sequence[Chunk]) -> list[Chunk]:
    """Those without scores, or in which our machinery failed on an output and may try again."""
    # One listing, and one scan: a store takes tens of milliseconds for each file asked after.
    there = {str(path) for path in (run.folder / "scores").glob("*/*/*.parquet")}
    whole = [c for c in planned if str(c.path) in there]
    if whole and _any_failed([c.path for c in whole]):
        whole = [c for c in whole if not _any_failed([c.path])]
    done = {c.path for c in whole}
    return [c for c in planned if c.path not in done]


def _any_failed(paths: Sequence[Place]) -> bool:
    return bool(scan_parquet(paths).select((pl.col("status") == "failed").any()).collect().item())


def chunks(run: Run, spec: SweepSpec) -> Iterator[Chunk]:
    """Every chunk of `run`, in the order of models, tasks, items and outputs.

    Completions must all be there.
    """
    return (
        chunk
        for model in spec.models
        for task in spec.tasks
        for chunk in _chunks(run, model.name, task)
    )


def with_outputs(run: Run, wanted: Iterable[Chunk]) -> Iterator[tuple[Chunk, pl.DataFrame]]:
    """Each of the chunks `wanted` with its outputs."""
    for band in _bands(wanted):
        first = band[0]
        found = outputs_of(run, first.model, first.task, first.first_item, band[-1].last_item)
        for chunk in band:
            start = first.skipped + sum(c.size for c in band[: chunk.index - first.index])
            mine = found[start : start + chunk.size]
            if mine.height != chunk.size:
                raise StoreError(
                    f"{run.folder}: completions of {chunk.model} are not in the shards of "
                    "the plan; generate them anew"
                )
            yield chunk, mine


def outputs_of(
    run: Run, model: str, task: TaskSpec, first_item: int, last_item: int
) -> pl.DataFrame:
    """The outputs of a range of items in one benchmark run.

    Only the shards that the plan gave these items to are read.
    """
    items = run.plan_table("items").filter(task=task.name)["item_id"]
    shards = run.shards_of(task.name, task.style, items[first_item : last_item + 1])
    rows = scan_parquet([run.completion_path(model, shard) for shard in shards])
    number = _number(items)
    mine = rows.filter(
        pl.col("task") == task.name,
        pl.col("style") == task.style,
        number.is_between(first_item, last_item),
    )
    return distinct(mine, items, run.plan_table("variants"))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """Completions of one benchmark run, sorted by item and output."""

    item: Numbers
    output: Numbers
    first: npt.NDArray[np.intp]
    """(num_outputs + 1,) where each distinct output begins, and the end."""


def _keys(run: Run, model: str, task: TaskSpec, items: pl.Series) -> _Keys:
    output = pl.col("output_id").str.to_integer(base=16, dtype=pl.UInt64)
    mine = run.completions(model).filter(pl.col("task") == task.name, pl.col("style") == task.style)
    found = (
        mine.select(item=_number(items).cast(pl.UInt32), output=output)
        .drop_nulls("item")
        .collect(engine="streaming")
    )
    item, number = (column.to_numpy() for column in found.sort("item", "output"))
    is_new = np.append(True, (item[1:] != item[:-1]) | (number[1:] != number[:-1]))[: item.size]
    return _Keys(item=item, output=number, first=np.append(np.flatnonzero(is_new), item.size))


def _chunks(run: Run, model: str, task: TaskSpec) -> Iterator[Chunk]:
    items = run.plan_table("items").filter(task=task.name)
    keys = _keys(run, model, task, items["item_id"])
    size = chunk_rows(task)
    kind = f"{task.name}.{task.style}"
    num_outputs = keys.first.size - 1
    head_items = keys.item[keys.first[:-1]]
    how = how_scored(task, items)
    for index, start in enumerate(range(0, num_outputs, size)):
        stop = min(start + size, num_outputs)
        heads = keys.first[start:stop]
        first, last = int(keys.item[heads[0]]), int(keys.item[heads[-1]])
        questions = json.dumps(items[first : last + 1].to_dict(as_series=False), sort_keys=True)
        content = (how + questions).encode()
        name = tables.short_hash(
            content + _bytes(keys.item[heads] - first) + _bytes(keys.output[heads])
        )
        yield Chunk(
            path=run.folder / "scores" / model / kind / f"{index:05d}-{name}.parquet",
            model=model,
            task=task,
            index=index,
            first_item=first,
            last_item=last,
            skipped=start - int(np.searchsorted(head_items, first)),
            size=stop - start,
            num_completions=int(keys.first[stop] - keys.first[start]),
        )


def _bytes(numbers: Numbers) -> bytes:
    return numbers.astype("<u8").tobytes()


def _bands(wanted: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that follow one another, together: their outputs are read in one go."""
    band: list[Chunk] = []
    for chunk in wanted:
        if band:
            before, most = band[-1], _band_completions(chunk.task)
            follows = (chunk.model, chunk.task, chunk.index) == (
                before.model,
                before.task,
                before.index + 1,
            )
            if not follows or sum(c.num_completions for c in band) + chunk.num_completions > most:
                yield band
                band = []
        band.append(chunk)
    if band:
        yield band
