"""Rows of the plan -> requests, lazily: a prompt exists only while it is in the engine's window."""

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import polars as pl

from pipeline import checkpoints, frames, tasks
from pipeline.asked import max_tokens
from pipeline.config import ModelSpec, SweepSpec
from pipeline.prompts import ItemPrompt, PromptBuilder
from pipeline.records import Item, Request, Sampling, Variant
from pipeline.simulated import Asked
from pipeline.store import Run


class Composer:
    """What one model's replica composes with: items, variants, tokenizer, label tokens and sampling."""

    def __init__(self, run: Run, spec: SweepSpec, model: ModelSpec) -> None:
        """Load items, variants and the model's tokenizer."""
        self.run, self.spec, self.model = run, spec, model
        self.builder = PromptBuilder(model, checkpoints.folder(model, weights=False))
        self.labels: dict[str, dict[str, int]] = run.prompts()[model.name]["label_token_ids"]
        self.tasks = {(t.name, t.style): tasks.get(t.name, t.style) for t in spec.tasks}
        self.max_tokens = {(t.name, t.style): max_tokens(t, self.tasks[t.name, t.style], model) for t in spec.tasks}
        self.items = {(i.task, i.item_id): i for i in frames.to_records(Item, run.plan_table("items"))}
        self.examples = list(frames.to_records(Item, run.plan_table("examples")))
        self.variants = {v.variant: v for v in frames.to_records(Variant, run.plan_table("variants"))}
        self.rows: dict[int, dict[str, Any]] = {}
        """Plan rows of the requests under way, by position, with the hash of their prompt."""
        self.conditions = {v.condition: v for v in self.variants.values()}
        """Condition -> one of its variants."""
        self.prompt = lru_cache(maxsize=65_536)(self._prompt)

    def requests(self, next_shard: Callable[[], int | None], begin: Callable[[int, int], None]) -> Iterator[Request]:
        """Requests of one shard after another; `begin` is told number and size of each shard before its first request."""
        table = pl.scan_parquet(self.run.folder / "plan" / "requests.parquet")
        while (shard := next_shard()) is not None:
            rows = table.filter(pl.col("shard") == shard).collect()
            begin(shard, rows.height)
            for row in rows.iter_rows(named=True):
                yield self.request(row)

    def request(self, row: dict[str, Any]) -> Request:
        """The request of one plan row."""
        task, item, variant = self.tasks[row["task"], row["style"]], self.items[row["task"], row["item_id"]], self.variants[row["variant"]]
        text = self.prompt(task, item.item_id, variant.condition).text(variant.date_text)
        token_ids = self.builder.encode(text)
        self.rows[row["position"]] = {**row, "prompt_hash": frames.prompt_hash(token_ids), "option_order": variant.option_order}
        known = self.labels[f"{task.name}.{task.style}"]
        labels = tuple(known[label] for label in self.builder.labels(task, item))
        return Request(position=row["position"], token_ids=token_ids, sampling=self._sampling(task, item), label_token_ids=labels)

    def asked(self, position: int) -> Asked:
        """What stands at `position`, for a simulated engine."""
        row = self.rows[position]
        variant, item = self.variants[row["variant"]], self.items[row["task"], row["item_id"]]
        return Asked(task=self.tasks[row["task"], row["style"]], item=tasks.reordered(item, variant.option_order), date=variant.date)

    def _prompt(self, task: tasks.Task, item_id: str, condition: str) -> ItemPrompt:
        item = self.items[task.name, item_id]
        examples = [e for e in self.examples if e.task == task.name]
        return self.builder.item_prompt(task, item, self.conditions[condition], task.shots(item, examples))

    def _sampling(self, task: tasks.Task, item: Item) -> Sampling:
        drawn = self.model.sampling
        length = self.max_tokens[task.name, task.style]
        if task.kind == "label" or drawn.temperature == 0:
            return Sampling(max_tokens=length, temperature=0.0, top_p=1.0, top_k=0, seed=None)
        # The seed belongs to the item: every date of an item draws with the same random numbers.
        digest = hashlib.sha256(f"{drawn.seed}:{item.task}:{item.item_id}".encode()).digest()
        seed = int.from_bytes(digest[:8], "big") >> 1
        return Sampling(max_tokens=length, temperature=drawn.temperature, top_p=drawn.top_p, top_k=drawn.top_k, seed=seed)
