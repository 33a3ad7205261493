"""Rows of the plan -> requests, lazily: a prompt exists only while it is in the engine's window."""

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import polars as pl

from pipeline import checkpoints, frames, plan, tasks
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
        self.builder = PromptBuilder(model.name, checkpoints.folder(model, weights=False), model.template)
        self.labels: dict[str, dict[str, int]] = run.prompts()[model.name]["label_token_ids"]
        self.items = {(i.task, i.item_id): i for i in frames.to_records(Item, run.plan_table("items"))}
        self.variants = {v.variant: v for v in frames.to_records(Variant, run.plan_table("variants"))}
        self.rows: dict[int, dict[str, Any]] = {}
        """Plan rows of the requests under way, by position, with the hash of their prompt."""
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
        item, task = self.items[row["task"], row["item_id"]], tasks.get(row["task"])
        text = self.prompt(item.task, item.item_id).text(self.variants[row["variant"]].date_text)
        token_ids = self.builder.encode(text)
        self.rows[row["position"]] = {**row, "prompt_hash": frames.prompt_hash(token_ids)}
        known = self.labels[item.task]
        labels = tuple(known[label] for label in task.labels(item))
        return Request(position=row["position"], token_ids=token_ids, sampling=self._sampling(task, item), label_token_ids=labels)

    def asked(self, position: int) -> Asked:
        """The item and date that stand at `position`, for a simulated engine."""
        row = self.rows[position]
        return Asked(item=self.items[row["task"], row["item_id"]], date=self.variants[row["variant"]].date)

    def _prompt(self, task: str, item_id: str) -> ItemPrompt:
        return self.builder.item_prompt(tasks.get(task), self.items[task, item_id])

    def _sampling(self, task: tasks.Task, item: Item) -> Sampling:
        drawn = self.model.sampling
        length = plan.max_tokens(self.spec.tasks, task)
        if task.kind == "label" or drawn.temperature == 0:
            return Sampling(max_tokens=length, temperature=0.0, top_p=1.0, top_k=0, seed=None)
        # The seed belongs to the item: every date of an item draws with the same random numbers.
        digest = hashlib.sha256(f"{drawn.seed}:{item.task}:{item.item_id}".encode()).digest()
        seed = int.from_bytes(digest[:8], "big") >> 1
        return Sampling(max_tokens=length, temperature=drawn.temperature, top_p=drawn.top_p, top_k=drawn.top_k, seed=seed)
