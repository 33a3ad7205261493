"""A sweep as a table of requests in prefix order, cut into shards; and the proof, before an engine starts, that prompts carry their date.

The plan is columns from the start: items x variants is a cross join, the order one sort, the shards one pass over groups.
"""

import importlib.metadata
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline import __version__, asked, checkpoints, frames, proofs, sources, store, variants
from pipeline.asked import Asked
from pipeline.config import SweepSpec
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
    asked: list[Asked]
    variants: list[Variant]

    @property
    def items(self) -> list[Item]:
        """The items of all tasks, each once, however many styles ask it."""
        return list({(i.task, i.item_id): i for a in self.asked for i in a.items}.values())


def gather(spec: SweepSpec, say: Say = lambda text: None) -> Plan:
    """The items and variants of `spec`, with the settings that name them.

    Raises:
        ConfigError: a task runs model-written code and the sweep does not allow it.
        DataError: a data set or model is missing.
    """
    asked.check_consent(spec)
    benchmarks = [asked.load(task, spec.data_root) for task in spec.tasks]
    settings = {
        "sweep": _settled(spec),
        "tasks": {a.name: _task_settings(a) for a in benchmarks},
        "checkpoints": {m.name: checkpoints.identity(m, checkpoints.folder(m, say, weights=False)) for m in spec.models},
        "versions": {name: importlib.metadata.version(name) for name in ("transformers", "tokenizers", "jinja2")}
        | {"datesweep": __version__},
    }
    return Plan(settings=settings, asked=benchmarks, variants=variants.variants(spec.calendar, spec.conditions))


def write(run: Run, spec: SweepSpec, plan: Plan, say: Say = lambda text: None) -> None:
    """Check every prompt of `plan` and write it to the folder of `run`.

    Raises:
        PromptError: a prompt that loses its date, is too long, or whose labels are not single tokens.
    """
    requests = cut_shards(prefix_order(cross(plan, spec)), spec.engine.shard_rows)
    prompts = {model.name: proofs.check_prompts(model, plan.asked, plan.variants, say) for model in spec.models}
    manifest = {
        "settings": plan.settings,
        "fingerprint": store.fingerprint(plan.settings),
        "sweep": stored(spec),
        "data": {a.name: sources.origin(a.task.source, spec.data_root) for a in plan.asked},
        "counts": counts(spec, plan, requests, prompts),
    }
    tables = {
        "items": frames.from_records(Item, plan.items),
        "examples": frames.from_records(Item, {(i.task, i.item_id): i for a in plan.asked for i in a.examples}.values()),
        "variants": frames.from_records(Variant, plan.variants),
        "requests": requests,
    }
    run.write_plan(manifest, prompts, tables)


def stored(spec: SweepSpec) -> dict[str, Any]:
    """`spec` as a manifest keeps it: without the place of the data, and without consent, which whoever scores gives anew."""
    return dict(spec.model_dump(mode="json", exclude={"data_root", "allow_code_execution"}))


def counts(spec: SweepSpec, plan: Plan, requests: pl.DataFrame, prompts: dict[str, Any]) -> dict[str, int]:
    """How much work the plan is; tokens over all models, each item taken at its longest date."""
    per_variant = requests.height // max(sum(len(a.items) for a in plan.asked), 1)
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


def cross(plan: Plan, spec: SweepSpec) -> pl.DataFrame:
    """Every item under every variant, and the placebo copies, with ranks to sort by; one row per request."""
    keys = [(a.spec.name, a.spec.style, i.item_id) for a in plan.asked for i in a.items]
    items = pl.DataFrame(keys, schema=["task", "style", "item_id"], orient="row").with_row_index("item_rank")
    names = [v.variant for v in plan.variants]
    placebo = variants.placebo_variants(spec.calendar, plan.variants)
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


def _settled(spec: SweepSpec) -> dict[str, Any]:
    return dict(spec.model_dump(mode="json", exclude=_NOT_IN_FINGERPRINT))


def _task_settings(asked: Asked) -> dict[str, Any]:
    task = asked.task
    return {
        "version": task.version,
        "dataset": task.source.dataset,
        "max_tokens": asked.spec.max_tokens or task.max_tokens,
        "num_rows": asked.num_rows,
        "num_items": len(asked.items),
        "items_hash": _items_hash(asked.items),
        "examples": asked.example_source,
        "examples_hash": _items_hash(asked.examples),
    }


def _items_hash(items: list[Item]) -> str:
    return frames.short_hash(json.dumps(frames.from_records(Item, items).to_dicts(), sort_keys=True).encode())
