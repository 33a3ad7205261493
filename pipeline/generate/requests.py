"""Rows of the plan -> requests, lazily: a prompt exists only while it is in the engine's window."""

import hashlib
from collections.abc import Callable, Iterator

from pipeline import tasks
from pipeline.core.records import Item, Request, Sampling
from pipeline.data import checkpoints
from pipeline.engines import Pretended
from pipeline.generate.loaded_plan import PlannedShard, load_plan
from pipeline.plan import Benchmark, rendered
from pipeline.prompts import PromptBuilder, Spliced, Splicer
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import Run

KEPT_PARTS = 8
"""Benchmarks under a condition whose tokenised segments are kept: what is asked side by side, and
not all conditions of a large sweep."""


class Composer:
    """Composes the requests of one model from the plan."""

    def __init__(self, run: Run, spec: SweepSpec, model: ModelSpec) -> None:
        """Load the plan and the model's tokenizer."""
        self.plan, self.model = load_plan(run, spec), model
        self.builder = PromptBuilder(model, checkpoints.folder(model, weights=False))
        self._splicer = Splicer(self.builder.tokenizer)
        self._prompts = run.prompts()[model.name]
        self._parts: dict[tuple[int, str], Spliced] = {}
        """Number of a benchmark, and condition -> its prompts in segments."""
        self._fixed: list[tuple[Sampling, tuple[int, ...]] | None] = [None] * len(self.plan.slots)
        """(num_asked,) sampling and label tokens that all requests of an item have in common."""

    def requests(
        self, next_shard: Callable[[], int | None], begin: Callable[[PlannedShard], list[str]]
    ) -> Iterator[Request]:
        """Requests of one shard after another.

        `begin` is told each shard before its first request, and gives the list to which the hashes
        of its prompts are appended.
        """
        while (number := next_shard()) is not None:
            shard = self.plan.shard(number)
            prompt_hashes = begin(shard)
            rows = zip(shard.items, shard.arms, strict=True)
            for position, (item, arm) in enumerate(rows, shard.start):
                request, prompt_hash = self.compose(position, item, arm)
                prompt_hashes.append(prompt_hash)
                yield request

    def request(self, position: int) -> Request:
        """The request at `position` of the plan."""
        return self.compose(position, *self.plan.row(position))[0]

    def compose(self, position: int, item: int, arm: int) -> tuple[Request, str]:
        """The request of an item (a row of `asked`) under an arm, and the hash of its prompt."""
        variant, (benchmark, index) = self.plan.arms[arm], self.plan.slots[item]
        part = self._parts.get((benchmark, variant.condition)) or self._part(
            benchmark, variant.condition
        )
        token_ids, prompt_hash = part.compose(index, variant.date_text)
        sampling, label_token_ids = self._fixed[item] or self._fix(item)
        return Request(
            position=position,
            token_ids=token_ids,
            sampling=sampling,
            label_token_ids=label_token_ids,
        ), prompt_hash

    def pretended(self, position: int) -> Pretended:
        """What stands at `position`, for a simulated engine."""
        benchmark, item, variant = self.plan.named(*self.plan.row(position))
        shown = tasks.reordered(item, variant.option_order)
        return Pretended(task=benchmark.task, item=shown, date=variant.date)

    def _part(self, number: int, condition: str) -> Spliced:
        """The segments of a benchmark under a condition; those made longest ago are forgotten."""
        benchmark, variants = self.plan.benchmarks[number], self.plan.conditions[condition]
        in_full = benchmark.name in self._prompts.rendered_in_full
        prompts = rendered(self.builder, benchmark, variants[0], in_full=in_full)
        part = self._splicer.splice(prompts, [variant.date_text for variant in variants])
        self._parts[number, condition] = part
        while len(self._parts) > KEPT_PARTS:
            del self._parts[next(iter(self._parts))]
            self._splicer.forget()
        return part

    def _fix(self, asked: int) -> tuple[Sampling, tuple[int, ...]]:
        number, index = self.plan.slots[asked]
        benchmark = self.plan.benchmarks[number]
        item = benchmark.items[index]
        tokens = self._prompts.label_token_ids[benchmark.name]
        labels = tuple(tokens[label] for label in self.builder.labels(benchmark.task, item))
        self._fixed[asked] = fixed = _sampling(self.model, benchmark, item), labels
        return fixed


def _sampling(model: ModelSpec, benchmark: Benchmark, item: Item) -> Sampling:
    drawn, length = model.sampling, benchmark.max_tokens(model)
    if benchmark.task.kind == "label" or drawn.temperature == 0:
        return Sampling(max_tokens=length, temperature=0.0, top_p=1.0, top_k=0, seed=None)
    # The seed belongs to the item: every date of an item draws with the same random numbers.
    digest = hashlib.sha256(f"{drawn.seed}:{item.task}:{item.item_id}".encode()).digest()
    return Sampling(
        max_tokens=length,
        temperature=drawn.temperature,
        top_p=drawn.top_p,
        top_k=drawn.top_k,
        seed=int.from_bytes(digest[:8], "big") >> 1,
    )
