"""The requests of a plan in prefix order, cut into shards.

Everything is columns of small integers; a year of MMLU is five million rows. `item` and `arm` are
row numbers of the plan's tables `asked` (task, style, item) and `arms` (variant, replicate).
"""

from collections.abc import Sequence

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
    swept = [Arm(variant=v.variant, replicate=0) for v in variants]
    return swept + [Arm(variant=name, replicate=1) for name in placebo]


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
    """Columns `item`, `arm` and `group`, a row for each request, as the engine is to get them.

    Equal prefixes are neighbours, and the longest shared part changes least often, so its keys and
    values are still cached: what a prompt says first, its date or its question, is the outermost
    level (`_LEVELS`). Conditions follow one another. Placebo copies come last and with their items
    reversed: a copy must not sit beside its original, nor have the same neighbours. `group` numbers
    the requests that share all but the innermost level: what a replica should have as a whole.
    """
    items = _item_levels(benchmarks)
    by_name = {v.variant: v for v in variants}
    blocks: dict[tuple[int, str], list[int]] = {}
    for number, arm in enumerate(arms(variants, placebo)):
        blocks.setdefault((arm.replicate, by_name[arm.variant].condition), []).append(number)
    placements = {v.condition: v.placement for v in variants}
    ordered = [
        _block(items, numbers, placements[condition], is_reversed=replicate > 0)
        for (replicate, condition), numbers in blocks.items()
    ]
    numbered = [rows.with_columns(block=pl.lit(i)) for i, rows in enumerate(ordered)]
    return pl.concat(numbered).select("item", "arm", group=pl.struct("block", "group").rle_id())


def _item_levels(benchmarks: Sequence[Benchmark]) -> pl.DataFrame:
    """A row for each asked item: `item`, `benchmark`, `shots`.

    The last numbers the worked examples that it shares with other items of its benchmark.
    """
    rows: list[tuple[int, int]] = []
    for number, benchmark in enumerate(benchmarks):
        task, numbers = benchmark.task, dict[tuple[str, ...], int]()
        for item in benchmark.items:
            key = tuple(shot.item_id for shot in task.shots(item, benchmark.examples))
            rows.append((number, numbers.setdefault(key, len(numbers))))
    levels = pl.DataFrame(rows, schema={"benchmark": pl.UInt32, "shots": pl.UInt32}, orient="row")
    return levels.with_row_index("item")


def _block(
    items: pl.DataFrame, arms: list[int], placement: str, *, is_reversed: bool
) -> pl.DataFrame:
    """The requests of one condition in order."""
    levels = _LEVELS[placement]
    crossed = pl.DataFrame({"arm": pl.Series(arms, dtype=pl.UInt32)}).join(items, how="cross")
    reverse = {"item": -pl.col("item").cast(pl.Int32)} if is_reversed else {}
    ordered = crossed.sort([reverse.get(level, pl.col(level)) for level in levels])
    return ordered.select("item", "arm", group=pl.struct(levels[:-1]).rle_id())


def cut_shards(ordered: pl.DataFrame, shard_rows: int) -> pl.DataFrame:
    """The ordered rows with a shard number, `shard_rows` at most in each.

    A group is split only if it is larger than a shard.
    """
    shards: list[int] = []
    sizes: list[int] = []
    room = 0
    for size in ordered.group_by("group", maintain_order=True).len()["len"]:
        whole, rest = divmod(size, shard_rows)
        for piece in [shard_rows] * whole + [rest] * (rest > 0):
            is_new = piece > room
            room = (shard_rows if is_new else room) - piece
            shards.append((shards[-1] if shards else -1) + is_new)
            sizes.append(piece)
    column = np.repeat(np.array(shards, dtype=np.uint32), sizes)
    return ordered.with_columns(shard=pl.Series(column)).select(tables.schema(PlanRow).names())
