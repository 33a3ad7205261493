"""Completions as numbers: for each benchmark run, a grid of items and variants with their outputs.

What stays of a completion is one number; its text is not read.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.analyses import _faults
from pipeline.analyses._outcomes import AXES, CONDITION_KEY
from pipeline.analyses._stats import Bools, Ints

BENCHMARK_KEY = ["engine", "task", "style"]
"""What makes one benchmark run among those of a model."""

OutputIds = npt.NDArray[np.uint64]
"""Output ids as the numbers that their 16 hexadecimal digits are."""
OUTPUT = pl.col("output_id").str.to_integer(base=16, dtype=pl.UInt64).alias("output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What one benchmark run asked, and which output it got."""

    item_ids: list[str]
    """(num_items,) sorted."""
    item_rows: Ints
    """(num_known_items,) the row of each item that the run folder knows; -1 where this run did not
    ask it."""
    columns: pl.DataFrame
    """`Outcomes.columns`."""
    is_asked: Bools
    """(num_items, num_columns)"""
    outputs: OutputIds
    """(num_items, num_columns)"""


def item_number(items: pl.DataFrame) -> pl.Expr:
    """`item`: the number of `item_id` among the sorted ids of `items`; null for others."""
    return pl.col("item_id").cast(_item_names(items), strict=False).to_physical().alias("item")


def _item_names(items: pl.DataFrame) -> pl.Enum:
    return pl.Enum(items["item_id"].unique().sort())


def read_completions(
    completions: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame
) -> dict[tuple[str, ...], pl.DataFrame]:
    """Completions of a model by `BENCHMARK_KEY`, sorted.

    Columns are `item`, `variant`, `replicate` and `output`, all of them numbers.

    Raises:
        StoreError: a variant or an item is unknown.
    """
    names = [pl.col(name).cast(pl.Categorical) for name in BENCHMARK_KEY]
    variant = pl.col("variant").cast(pl.Enum(variants["variant"]), strict=False).to_physical()
    numbers = completions.select(*names, item_number(items), variant, "replicate", OUTPUT)
    rows = numbers.collect(engine="streaming")
    if rows["variant"].has_nulls():
        raise _faults.unknown(completions, variants, ["variant"])
    by_benchmark = rows.partition_by(BENCHMARK_KEY, include_key=False, as_dict=True)
    benchmarks = {tuple(map(str, key)): part for key, part in by_benchmark.items()}
    for (_, task, _), part in benchmarks.items():
        of_task = items.filter(task=task).select(item_number(items)).to_series()
        if not part["item"].unique().is_in(of_task.implode()).all(ignore_nulls=False):
            raise _faults.unknown(completions, items, ["task", "item_id"])
    return dict(sorted(benchmarks.items()))


def grid_of(
    rows: pl.DataFrame, variants: pl.DataFrame, items: pl.DataFrame, run: dict[str, str]
) -> Grid:
    """The `rows` of one benchmark of `read_completions`, each in its cell.

    Raises:
        StoreError: a completion is stored twice; the message names the `run`.
    """
    item, names = rows["item"].to_numpy(), _item_names(items).categories
    asked_items = np.flatnonzero(np.bincount(item, minlength=names.len()))
    item_rows = np.full(names.len(), -1, dtype=np.int32)
    item_rows[asked_items] = np.arange(asked_items.size)
    columns, column = _columns(rows, variants)
    shape = (asked_items.size, columns.height)
    cell = item_rows[item].astype(np.int64) * shape[1] + column
    times = np.bincount(cell, minlength=shape[0] * shape[1])
    item_ids = names.gather(asked_items).to_list()
    if times.max() > 1:
        first_row, first_column = divmod(int(np.argmax(times > 1)), shape[1])
        first = columns.row(first_column, named=True) | {"item": item_ids[first_row]}
        raise _faults.stored_twice(int((times - 1).clip(0).sum()), first, run)
    outputs = np.zeros(times.size, dtype=np.uint64)
    outputs[cell] = rows["output"].to_numpy()
    return Grid(
        item_ids=item_ids,
        item_rows=item_rows,
        columns=columns,
        is_asked=(times > 0).reshape(shape),
        outputs=outputs.reshape(shape),
    )


def _columns(rows: pl.DataFrame, variants: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """`Outcomes.columns`, and (num_rows,) the column of each completion."""
    replicate = rows["replicate"].to_numpy()
    num_replicates = int(replicate.max()) + 1
    code = rows["variant"].to_numpy().astype(np.int64) * num_replicates + replicate
    codes = np.flatnonzero(np.bincount(code))
    described = variants.select("variant", "date", *CONDITION_KEY)[codes // num_replicates]
    columns = described.with_columns(
        replicate=pl.Series(codes % num_replicates, dtype=pl.Int64), code=pl.Series(codes)
    ).sort(pl.col("date").is_not_null(), *AXES, "date", "variant", "replicate", nulls_last=False)
    column_of = np.empty(int(codes[-1]) + 1, dtype=np.int64)
    column_of[columns["code"].to_numpy()] = np.arange(columns.height)
    return columns.select("variant", "replicate", "date", *CONDITION_KEY), column_of[code]
