"""The requests of a plan in prefix order, cut into shards: which item meets which variant, and when
the engine gets it.

Everything is columns of small integers; a year of MMLU is five million rows. `item` and `arm` are
row numbers of the plan's tables `asked` (task, style, item) and `arms` (variant, replicate).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from pipeline.core import tables
from pipeline.core.records import Arm, AskedItem, PlanRow, Variant
from pipeline.plan.benchmarks import Benchmark

_LEVELS: dict[str, tuple[str, ...]] = {
    "": ("arm", "benchmark", "shots", "item"),
    "template": ("arm", "benchmark", "shots", "item"),
    "system_start": ("arm", "benchmark", "shots", "item"),
    "system_end": ("benchmark", "arm", "shots", "item"),
    "user_start": ("benchmark", "shots", "arm", "item"),
    "user_end": ("benchmark", "shots", "item", "arm"),
}
"""Placement of the date -> what a prompt says first, second, and so on. The date is the arm; a
benchmark has a system text of its own."""


def arms(variants: Sequence[Variant], placebo: Sequence[str]) -> list[Arm]:
    """Every variant once, and then the placebo copies."""
    return [Arm(variant=v.variant, replicate=0) for v in variants] + [
        Arm(variant=name, replicate=1) for name in placebo
    ]


def asked_items(benchmarks: Sequence[Benchmark]) -> list[AskedItem]:
    """Every item of every benchmark, in the order of the sweep and of the data."""
    return [
        AskedItem(task=a.spec.name, style=a.spec.style, item_id=i.item_id)
        for a in benchmarks
        for i in a.items
    ]


def prefix_order(
    benchmarks: Sequence[Benchmark], variants: Sequence[Variant], placebo: Sequence[str]
) -> pl.DataFrame:
    """Columns `item`, `arm` and `group`, one row for each request, in the order in which the engine
    gets them.

    Equal prefixes are neighbours, and the longest shared part changes least often, so its keys and
    values are still cached: what a prompt says first, its date or its question, is the outermost
    level (`_LEVELS`). Conditions follow one another. Placebo copies come last and with their items
    reversed: a copy must not sit beside its original, nor have the same neighbours. `group` numbers
    the requests that share all but the innermost level: what a replica should have as a whole.
    """
    items, listed = _item_levels(benchmarks), arms(variants, placebo)
    of = {v.variant: v for v in variants}
    blocks: dict[tuple[int, str], list[int]] = {}
    for number, arm in enumerate(listed):
        blocks.setdefault((arm.replicate, of[arm.variant].condition), []).append(number)
    ordered = [
        _block(
            items, numbers, of[listed[numbers[0]].variant].placement, is_reversed=replicate > 0
        ).with_columns(block=pl.lit(i))
        for i, ((replicate, _), numbers) in enumerate(blocks.items())
    ]
    return pl.concat(ordered).select("item", "arm", group=pl.struct("block", "group").rle_id())


def _item_levels(benchmarks: Sequence[Benchmark]) -> pl.DataFrame:
    """For each asked item: its number, its benchmark's, and a number for the worked examples that
    it shares with others.
    """
    rows: list[tuple[int, int]] = []
    for number, asked in enumerate(benchmarks):
        seen: dict[tuple[str, ...], int] = {}
        for item in asked.items:
            key = tuple(shot.item_id for shot in asked.task.shots(item, asked.examples))
            rows.append((number, seen.setdefault(key, len(seen))))
    levels = pl.DataFrame(rows, schema={"benchmark": pl.UInt32, "shots": pl.UInt32}, orient="row")
    return levels.with_row_index("item")


def _block(
    items: pl.DataFrame, numbers: list[int], placement: str, *, is_reversed: bool
) -> pl.DataFrame:
    """The requests of one condition in order."""
    levels = _LEVELS[placement]
    crossed = pl.DataFrame({"arm": pl.Series(numbers, dtype=pl.UInt32)}).join(items, how="cross")
    keys = [
        -pl.col("item").cast(pl.Int32) if level == "item" and is_reversed else pl.col(level)
        for level in levels
    ]
    return crossed.sort(keys).select("item", "arm", group=pl.struct(levels[:-1]).rle_id())


def cut_shards(ordered: pl.DataFrame, shard_rows: int) -> pl.DataFrame:
    """The ordered rows with a shard number, `shard_rows` at most in each.

    A group is split only if it is larger than a shard.
    """
    sizes = ordered.group_by("group", maintain_order=True).len()["len"].to_list()
    numbers, shard, room = [], -1, 0
    for size in sizes:
        for piece in _pieces(size, shard_rows):
            if piece > room:
                shard, room = shard + 1, shard_rows
            room -= piece
            numbers.append((shard, piece))
    column = np.repeat(np.array([s for s, _ in numbers], dtype=np.uint32), [n for _, n in numbers])
    return ordered.with_columns(shard=pl.Series(column)).select(tables.schema(PlanRow).names())


def _pieces(size: int, largest: int) -> Iterator[int]:
    while size > 0:
        yield min(size, largest)
        size -= largest
