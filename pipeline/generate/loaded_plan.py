"""The plan of a run in memory, as a replica composes from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.core import tables
from pipeline.core.records import Arm, Item, Variant
from pipeline.plan import Benchmark
from pipeline.settings import SweepSpec
from pipeline.store import Run


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """One shard as the plan has it."""

    number: int
    start: int
    """Position of its first request."""
    items: list[int]
    """(num_rows,) rows of the plan's table `asked`."""
    arms: list[int]
    """(num_rows,) rows of the plan's table `arms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlan:
    """What a run asks of every model."""

    benchmarks: list[Benchmark]
    slots: list[tuple[int, int]]
    """(num_asked,) the number of the benchmark, and of the item in it, of a row of `asked`."""
    arms: list[Variant]
    """(num_arms,) the variant of a row of `arm_names`."""
    conditions: dict[str, list[Variant]]
    """Condition -> its variants, which differ in their dates only."""
    asked: pl.DataFrame
    """The plan's table: `task`, `style`, `item_id`."""
    arm_names: pl.DataFrame
    """The plan's table `arms`: `variant`, `replicate`."""
    requests: pl.DataFrame
    """The plan's table: `shard`, `item` (a row of `asked`), `arm` (a row of `arm_names`)."""
    starts: Sequence[int]
    """(num_shards + 1,) the position at which each shard begins."""

    def shard(self, number: int) -> PlannedShard:
        """The rows of one shard."""
        start, stop = self.starts[number], self.starts[number + 1]
        rows = self.requests[start:stop]
        return PlannedShard(number, start, rows["item"].to_list(), rows["arm"].to_list())

    def row(self, position: int) -> tuple[int, int]:
        """Item and arm of the request at `position`."""
        _, item, arm = self.requests.row(position)
        return item, arm

    def named(self, item: int, arm: int) -> tuple[Benchmark, Item, Variant]:
        """What the rows `item` of `asked` and `arm` of `arm_names` stand for."""
        number, index = self.slots[item]
        benchmark = self.benchmarks[number]
        return benchmark, benchmark.items[index], self.arms[arm]


def load_plan(run: Run, spec: SweepSpec) -> LoadedPlan:
    """The plan of `run`, whole."""
    asked, requests = run.plan_table("asked"), run.plan_table("requests")
    variants = list(tables.to_records(Variant, run.plan_table("variants")))
    by_name = {variant.variant: variant for variant in variants}
    conditions: dict[str, list[Variant]] = {}
    for variant in variants:
        conditions.setdefault(variant.condition, []).append(variant)
    arm_names = run.plan_table("arms")
    shards = requests["shard"].to_numpy()
    return LoadedPlan(
        benchmarks=_benchmarks(run, spec, asked),
        slots=_slots(spec, asked),
        arms=[by_name[arm.variant] for arm in tables.to_records(Arm, arm_names)],
        conditions=conditions,
        asked=asked,
        arm_names=arm_names,
        requests=requests.select("shard", "item", "arm"),
        starts=np.searchsorted(shards, np.arange(int(shards[-1]) + 2)).tolist(),
    )


def _benchmarks(run: Run, spec: SweepSpec, asked: pl.DataFrame) -> list[Benchmark]:
    items = {(i.task, i.item_id): i for i in tables.to_records(Item, run.plan_table("items"))}
    examples = list(tables.to_records(Item, run.plan_table("examples")))
    planned = run.manifest().settings.tasks
    return [
        Benchmark(
            spec=task,
            items=[
                items[task.name, item_id]
                for item_id in asked.filter(task=task.name, style=task.style)["item_id"]
            ],
            examples=[example for example in examples if example.task == task.name],
            num_rows=planned[f"{task.name}.{task.style}"].num_rows,
            example_source=planned[f"{task.name}.{task.style}"].examples,
        )
        for task in spec.tasks
    ]


def _slots(spec: SweepSpec, asked: pl.DataFrame) -> list[tuple[int, int]]:
    numbers = {(task.name, task.style): number for number, task in enumerate(spec.tasks)}
    index = pl.int_range(pl.len()).over("task", "style")
    rows = asked.select("task", "style", index.alias("index")).iter_rows()
    return [(numbers[task, style], index) for task, style, index in rows]
