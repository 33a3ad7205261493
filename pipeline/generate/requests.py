"""Rows of the plan -> requests, lazily: a prompt exists only while it is in the engine's window."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from pipeline import tasks
from pipeline.core import tables
from pipeline.core.records import Arm, AskedItem, Item, Request, Sampling, Variant
from pipeline.data import checkpoints
from pipeline.engines import Pretended
from pipeline.plan import Benchmark, max_tokens, rendered
from pipeline.prompts import PromptBuilder, Spliced, Splicer
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import Run

KEPT_PARTS = 8
"""Benchmarks under a condition whose tokenised segments are kept: what is asked side by side, and
not all conditions of a large sweep."""


@dataclass(slots=True)
class PlannedShard:
    """One shard as the plan has it, and the hashes of its prompts as they are composed."""

    number: int
    start: int
    """Position of its first request."""
    items: list[int]
    """(num_rows,) rows of the plan's table `asked`."""
    arms: list[int]
    """(num_rows,) rows of the plan's table `arms`."""
    prompt_hashes: list[str]
    """(num_rows,) empty until the prompt is composed."""


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What all requests of an item have in common."""

    sampling: Sampling
    label_token_ids: tuple[int, ...]


class Composer:
    """What one model's replica composes with: items, variants, tokenizer, label tokens and
    sampling.
    """

    def __init__(self, run: Run, spec: SweepSpec, model: ModelSpec) -> None:
        """Load items, variants and the model's tokenizer."""
        self.run, self.spec, self.model = run, spec, model
        self.builder = PromptBuilder(model, checkpoints.folder(model, weights=False))
        self.splicer = Splicer(self.builder.tokenizer)
        prompts = run.prompts()[model.name]
        self._label_ids, self._in_full = prompts.label_token_ids, set(prompts.rendered_in_full)
        self.variants = {
            v.variant: v for v in tables.to_records(Variant, run.plan_table("variants"))
        }
        self._arms = [
            self.variants[arm.variant] for arm in tables.to_records(Arm, run.plan_table("arms"))
        ]
        self._conditions: dict[str, list[Variant]] = {}
        for variant in self.variants.values():
            self._conditions.setdefault(variant.condition, []).append(variant)
        self._load_items()
        self._parts: OrderedDict[tuple[int, str], Spliced] = OrderedDict()

    def _load_items(self) -> None:
        """The benchmarks asked, and for each row of the table `asked` its benchmark and its place
        in it.
        """
        items = {
            (i.task, i.item_id): i for i in tables.to_records(Item, self.run.plan_table("items"))
        }
        examples = list(tables.to_records(Item, self.run.plan_table("examples")))
        self.benchmarks = [
            Benchmark(
                spec=t,
                items=[],
                examples=[e for e in examples if e.task == t.name],
                num_rows=0,
                example_source="",
            )
            for t in self.spec.tasks
        ]
        numbers = {(b.spec.name, b.spec.style): number for number, b in enumerate(self.benchmarks)}
        self._places: list[tuple[int, int]] = []
        for row in tables.to_records(AskedItem, self.run.plan_table("asked")):
            number = numbers[row.task, row.style]
            self._places.append((number, len(self.benchmarks[number].items)))
            self.benchmarks[number].items.append(items[row.task, row.item_id])
        self._fixed: list[_Fixed | None] = [None] * len(self._places)

    @cached_property
    def plan(self) -> pl.DataFrame:
        """The plan's requests: `shard`, `item`, `arm`."""
        return self.run.plan_table("requests")

    @cached_property
    def _starts(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """(num_shards + 1,) position at which each shard begins."""
        shards = self.plan["shard"].to_numpy()
        return np.searchsorted(shards, np.arange(int(shards[-1]) + 2))

    def requests(
        self, next_shard: Callable[[], int | None], begin: Callable[[PlannedShard], None]
    ) -> Iterator[Request]:
        """Requests of one shard after another.

        `begin` is told each shard before its first request.
        """
        while (number := next_shard()) is not None:
            shard = self.shard(number)
            begin(shard)
            for offset, (item, arm) in enumerate(zip(shard.items, shard.arms, strict=True)):
                request, shard.prompt_hashes[offset] = self.compose(shard.start + offset, item, arm)
                yield request

    def shard(self, number: int) -> PlannedShard:
        """The rows of one shard."""
        start, stop = self._starts[number : number + 2].tolist()
        rows = self.plan[start:stop]
        return PlannedShard(
            number, start, rows["item"].to_list(), rows["arm"].to_list(), [""] * (stop - start)
        )

    def request(self, position: int) -> Request:
        """The request at `position` of the plan."""
        row = self.plan.row(position, named=True)
        return self.compose(position, row["item"], row["arm"])[0]

    def compose(self, position: int, item: int, arm: int) -> tuple[Request, str]:
        """The request of an item (a row of `asked`) under an arm, and the hash of its prompt."""
        variant, (benchmark, place) = self._arms[arm], self._places[item]
        part = self._parts.get((benchmark, variant.condition)) or self._part(
            benchmark, variant.condition
        )
        token_ids, prompt_hash = part.compose(place, variant.date_text)
        fixed = self._fixed[item] or self._fix(item)
        return Request(
            position=position,
            token_ids=token_ids,
            sampling=fixed.sampling,
            label_token_ids=fixed.label_token_ids,
        ), prompt_hash

    def row(self, item: int, arm: int) -> tuple[Item, Variant, int]:
        """The item, the variant and the number of the benchmark that a row of the plan stands for."""
        benchmark, place = self._places[item]
        return self.benchmarks[benchmark].items[place], self._arms[arm], benchmark

    def option_orders(self, arms: list[int]) -> list[int]:
        """The order of options under each of `arms`."""
        return [self._arms[arm].option_order for arm in arms]

    def pretended(self, position: int) -> Pretended:
        """What stands at `position`, for a simulated engine."""
        row = self.plan.row(position, named=True)
        variant, (benchmark, place) = self._arms[row["arm"]], self._places[row["item"]]
        asked = self.benchmarks[benchmark]
        return Pretended(
            task=asked.task,
            item=tasks.reordered(asked.items[place], variant.option_order),
            date=variant.date,
        )

    def _part(self, benchmark: int, condition: str) -> Spliced:
        """The segments of a benchmark under a condition.

        Of those asked longest ago, some are forgotten.
        """
        asked, same = self.benchmarks[benchmark], self._conditions[condition]
        prompts = rendered(self.builder, asked, same[0], in_full=asked.name in self._in_full)
        self._parts[benchmark, condition] = part = self.splicer.splice(
            prompts, [v.date_text for v in same]
        )
        while len(self._parts) > KEPT_PARTS:
            self._parts.popitem(last=False)
            self.splicer.forget()
        return part

    def _fix(self, item: int) -> _Fixed:
        benchmark, place = self._places[item]
        asked = self.benchmarks[benchmark]
        known = self._label_ids[asked.name]
        labels = tuple(
            known[label] for label in self.builder.labels(asked.task, asked.items[place])
        )
        self._fixed[item] = fixed = _Fixed(self._sampling(asked, asked.items[place]), labels)
        return fixed

    def _sampling(self, asked: Benchmark, item: Item) -> Sampling:
        drawn, length = self.model.sampling, max_tokens(asked.spec, asked.task, self.model)
        if asked.task.kind == "label" or drawn.temperature == 0:
            return Sampling(max_tokens=length, temperature=0.0, top_p=1.0, top_k=0, seed=None)
        # The seed belongs to the item: every date of an item draws with the same random numbers.
        digest = hashlib.sha256(f"{drawn.seed}:{item.task}:{item.item_id}".encode()).digest()
        seed = int.from_bytes(digest[:8], "big") >> 1
        return Sampling(
            max_tokens=length,
            temperature=drawn.temperature,
            top_p=drawn.top_p,
            top_k=drawn.top_k,
            seed=seed,
        )
