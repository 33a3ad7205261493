"""A sweep as a table of requests in prefix order, cut into shards; and the proof, before an engine starts, that prompts carry their date.

The plan is columns from the start: items x variants is a cross join, the order one sort, the shards one pass over groups.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline import __version__, checkpoints, frames, sources, store, tasks, variants
from pipeline.config import ModelSpec, SweepSpec, TaskSpec
from pipeline.errors import ConfigError, DataError, PromptError
from pipeline.prompts import ItemPrompt, PromptBuilder, check_only_date, check_treatment
from pipeline.records import Item, PlanRow, Variant
from pipeline.store import Run

Say = Callable[[str], None]

_NOT_IN_FINGERPRINT: dict[str, Any] = {
    "title": True,
    "description": True,
    "data_root": True,
    "engine": {"replicas", "threads"},
    "allow_code_execution": True,
    "narrowing": True,
    "models": {"__all__": {"title": True, "licence": True, "weights": {"path": True}}},
}
"""Settings that change how or where work is done, or how it is titled, but no completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a sweep asks, in memory."""

    settings: dict[str, Any]
    """What the results depend on; its hash is the run's fingerprint."""
    items: list[Item]
    variants: list[Variant]


def gather(spec: SweepSpec, say: Say = lambda text: None) -> Plan:
    """The items and variants of `spec`, with the settings that name them.

    Raises:
        ConfigError: a task runs model-written code and the sweep does not allow it.
        DataError: a data set or model is missing.
    """
    check_consent(spec)
    items = [item for task in spec.tasks for item in load(task, spec.data_root)]
    settings = {
        "sweep": _settled(spec),
        "tasks": {t.name: _task_settings(t, items) for t in spec.tasks},
        "checkpoints": {m.name: checkpoints.identity(m, checkpoints.folder(m, say, weights=False)) for m in spec.models},
        "versions": {name: importlib.metadata.version(name) for name in ("transformers", "tokenizers", "jinja2")}
        | {"datesweep": __version__},
    }
    return Plan(settings=settings, items=items, variants=variants.variants(spec.calendar))


def check_consent(spec: SweepSpec) -> None:
    """Nothing, or ConfigError where scoring would run programs without consent; asked before the night, not after it."""
    running = [t.name for t in spec.tasks if tasks.get(t.name).executes_code]
    if running and not spec.allow_code_execution:
        raise ConfigError(
            f"task {', '.join(running)} runs programs that the model writes; allow it with --allow-code-execution or "
            "`allow_code_execution = true` in the sweep (pipeline/sandbox.py says how they are confined), or leave it out with --tasks"
        )


def write(run: Run, spec: SweepSpec, plan: Plan, say: Say = lambda text: None) -> None:
    """Check every prompt of `plan` and write it to the folder of `run`.

    Raises:
        PromptError: a prompt that loses its date, is too long, or whose labels are not single tokens.
    """
    requests = cut_shards(prefix_order(cross(plan, spec)), spec.engine.shard_rows)
    prompts = {model.name: check_prompts(model, spec, plan, say) for model in spec.models}
    manifest = {
        "settings": plan.settings,
        "fingerprint": store.fingerprint(plan.settings),
        "sweep": stored(spec),
        "data": {t.name: sources.origin(tasks.get(t.name).source, spec.data_root) for t in spec.tasks},
        "counts": counts(spec, plan, requests, prompts),
    }
    tables = {
        "items": frames.from_records(Item, plan.items),
        "variants": frames.from_records(Variant, plan.variants),
        "requests": requests,
    }
    run.write_plan(manifest, prompts, tables)


def stored(spec: SweepSpec) -> dict[str, Any]:
    """`spec` as a manifest keeps it: without the place of the data, and without consent, which whoever scores gives anew."""
    return dict(spec.model_dump(mode="json", exclude={"data_root", "allow_code_execution"}))


def counts(spec: SweepSpec, plan: Plan, requests: pl.DataFrame, prompts: dict[str, Any]) -> dict[str, int]:
    """How much work the plan is; tokens over all models, each item taken at its longest date."""
    per_variant = requests.height // max(len(plan.items), 1)
    return {
        "models": len(spec.models),
        "items": len(plan.items),
        "dates": len(spec.calendar.days()),
        "variants": len(plan.variants),
        "prompts_per_model": requests.height,
        "prompts": requests.height * len(spec.models),
        "prompt_tokens": sum(entry["num_item_tokens"] for entry in prompts.values()) * per_variant,
        "shards_per_model": requests["shard"].n_unique(),
    }


def select(items: list[Item], limit: int | None) -> list[Item]:
    """At most `limit` items, those whose ids hash lowest, in their own order.

    That is the same choice on every machine and for every model, spread over the data set; a larger limit keeps what a smaller one chose.
    """
    if limit is None or limit >= len(items):
        return items
    rank = {i.item_id: hashlib.sha256(f"{i.task}:{i.item_id}".encode()).digest() for i in items}
    chosen = set(sorted(rank, key=rank.__getitem__)[:limit])
    return [item for item in items if item.item_id in chosen]


def cross(plan: Plan, spec: SweepSpec) -> pl.DataFrame:
    """Every item under every variant, and the placebo copies, with ranks to sort by; one row per request."""
    styles = {t.name: t.style for t in spec.tasks}
    items = pl.DataFrame({"task": [i.task for i in plan.items], "item_id": [i.item_id for i in plan.items]}).with_row_index("item_rank")
    items = items.with_columns(style=pl.col("task").replace_strict(styles))
    names = [v.variant for v in plan.variants]
    placebo = variants.placebo_variants(spec.calendar)
    arms = pl.DataFrame({"variant": names + placebo, "replicate": [0] * len(names) + [1] * len(placebo)}).with_row_index("arm_rank")
    return arms.join(items, how="cross")


def prefix_order(crossed: pl.DataFrame) -> pl.DataFrame:
    """The rows in the order in which the engine gets them: equal prefixes are neighbours, so their keys and values are still cached.

    The date stands at the start of the system message, so a prompt's prefix tree branches first by variant, then by task, then by item.
    Placebo copies come last and with their items reversed: a copy must not sit beside its original, nor have the same neighbours.
    """
    reverse = pl.when(pl.col("replicate") > 0).then(-pl.col("item_rank").cast(pl.Int64)).otherwise(pl.col("item_rank").cast(pl.Int64))
    return crossed.sort("arm_rank", reverse).drop("item_rank", "arm_rank").with_row_index("position")


def cut_shards(ordered: pl.DataFrame, shard_rows: int) -> pl.DataFrame:
    """The ordered rows with a shard number, `shard_rows` at most in each; a prefix group (variant and task) is split only if larger."""
    group = ["replicate", "variant", "task", "style"]
    sizes = ordered.group_by(group, maintain_order=True).len()["len"].to_list()
    numbers, shard, room = [], -1, 0
    for size in sizes:
        for piece in _pieces(size, shard_rows):
            if piece > room:
                shard, room = shard + 1, shard_rows
            room -= piece
            numbers.append((shard, piece))
    column = pl.Series("shard", np.repeat([s for s, _ in numbers], [n for _, n in numbers]))
    return ordered.with_columns(column).select(pl.col(name).cast(dtype) for name, dtype in frames.schema(PlanRow).items())


def _pieces(size: int, largest: int) -> Iterator[int]:
    while size > 0:
        yield min(size, largest)
        size -= largest


def check_prompts(model: ModelSpec, spec: SweepSpec, plan: Plan, say: Say) -> dict[str, Any]:
    """What the replica needs to know of one model's prompts, having rendered every item and checked it (DESIGN, rule 1)."""
    say(f"checking the prompts of {len(plan.items)} items for {model.name}")
    builder = PromptBuilder(model.name, checkpoints.folder(model, say, weights=False), model.template)
    check = _PromptCheck(builder, [v.date_text for v in plan.variants if v.date_text])
    longest, total = 0, 0
    for item in plan.items:
        task = tasks.get(item.task)
        length = check.item(task, item)
        needed = length + max_tokens(spec.tasks, task)
        _check_length(model, item, needed)
        longest, total = max(longest, needed), total + length
    return {
        "label_token_ids": check.labels,
        "max_model_len": longest,
        "num_item_tokens": total,
        "template_hash": frames.short_hash(str(builder.tokenizer.chat_template).encode()),
        "template_dates": builder.own_dates(),
    }


class _PromptCheck:
    """Checks of one model's prompts: the first item of each task under every date, every other under two."""

    def __init__(self, builder: PromptBuilder, date_texts: list[str]) -> None:
        self.builder, self.texts = builder, date_texts
        self.labels: dict[str, dict[str, int]] = {}
        """Task -> label -> its token."""
        self.date_tokens: dict[str, int] = {}
        """Task -> most tokens that a date takes there."""

    def item(self, task: tasks.Task, item: Item) -> int:
        """Tokens of the longest prompt of `item` over all dates and the control."""
        where = f"task {task.name}, item {item.item_id}"
        prompt = self.builder.item_prompt(task, item)
        check_only_date(self.builder, prompt, self.texts, where)
        probes = self.texts[:: max(1, len(self.texts) - 1)] if task.name in self.date_tokens else self.texts
        outside, date = check_treatment(self.builder, prompt, probes, where)
        most = self.date_tokens.setdefault(task.name, date)
        control = self.builder.encode(prompt.control)
        self.builder.check_bos(control, where)
        self._keep_labels(task, item, prompt)
        return max(outside + most, len(control))

    def _keep_labels(self, task: tasks.Task, item: Item, prompt: ItemPrompt) -> None:
        known, wanted = self.labels.setdefault(task.name, {}), task.labels(item)
        for text in (self.texts[0], ""):
            for label, token in zip(wanted, self.builder.label_token_ids(prompt, text, wanted), strict=True):
                if known.setdefault(label, token) != token:
                    where = f"model {self.builder.model}, task {task.name}, item {item.item_id}"
                    raise PromptError(f"{where}: label {label!r} is another token than elsewhere")


def _check_length(model: ModelSpec, item: Item, needed: int) -> None:
    if model.max_model_len is not None and needed > model.max_model_len:
        raise PromptError(
            f"model {model.name}, task {item.task}, item {item.item_id}: prompt and output need {needed} tokens, max_model_len is "
            f"{model.max_model_len}; prompts are never truncated: raise it in the model file, or lower the task's max_tokens in the sweep"
        )


def max_tokens(specs: list[TaskSpec], task: tasks.Task) -> int:
    """Longest output of `task` in tokens: the sweep's value, else the task's own."""
    return next((s.max_tokens for s in specs if s.name == task.name and s.max_tokens), task.max_tokens)


def load(spec: TaskSpec, data_root: str | None) -> list[Item]:
    """The items of one task of a sweep, narrowed to its limit.

    Raises:
        ConfigError: the task does not offer the style.
        DataError: the data is missing or not as the task expects.
    """
    task = tasks.get(spec.name)
    if spec.style not in task.styles:
        raise ConfigError(f"task {task.name}: style {spec.style!r} is not offered; allowed: {', '.join(task.styles)}")
    items = select(list(task.items(sources.rows(task.source, data_root))), spec.limit)
    if not items:
        raise DataError(f"task {task.name}: {task.source.dataset} has no rows")
    return items


def _settled(spec: SweepSpec) -> dict[str, Any]:
    return dict(spec.model_dump(mode="json", exclude=_NOT_IN_FINGERPRINT))


def _task_settings(spec: TaskSpec, items: list[Item]) -> dict[str, Any]:
    task = tasks.get(spec.name)
    own = frames.from_records(Item, [i for i in items if i.task == spec.name])
    return {
        "version": task.version,
        "dataset": task.source.dataset,
        "max_tokens": max_tokens([spec], task),
        "num_items": own.height,
        "items_hash": frames.short_hash(json.dumps(own.to_dicts(), sort_keys=True).encode()),
    }
