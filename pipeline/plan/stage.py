"""A sweep as a table of requests in prefix order, cut into shards.

And the proof, before an engine starts, that prompts carry their date.

The plan is columns from the start: items x variants is a cross join, the order one sort, the shards
one pass over groups.
"""

import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline import __version__, store
from pipeline.core import tables
from pipeline.core.errors import ConfigError
from pipeline.core.progress import Reporter
from pipeline.core.records import Arm, AskedItem, Item, Variant
from pipeline.data import checkpoints, rows as sources
from pipeline.plan import benchmarks, checks, order
from pipeline.plan.benchmarks import Benchmark
from pipeline.prompts import variants
from pipeline.settings import SweepSpec
from pipeline.store import PromptReport, Run, write_json

Say = Callable[[str], None]

_NOT_IN_FINGERPRINT: dict[str, Any] = {
    "title": True,
    "description": True,
    "data_root": True,
    "engine": {"replicas", "threads"},
    "allow_code_execution": True,
    "narrowing": True,
    "tasks": {"__all__": {"metrics"}},
    "models": {"__all__": {"title": True, "licence": True, "weights": {"path": True}}},
}
"""Settings that change how or where work is done, or how it is titled, but no completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a sweep asks, in memory."""

    settings: dict[str, Any]
    """What the results depend on; its hash is the run's fingerprint."""
    benchmarks: list[Benchmark]
    variants: list[Variant]

    @property
    def items(self) -> list[Item]:
        """The items of all tasks, each once, however many styles ask it."""
        return list({(i.task, i.item_id): i for a in self.benchmarks for i in a.items}.values())


def gather(spec: SweepSpec, say: Say = lambda text: None) -> Plan:
    """The items and variants of `spec`, with the settings that name them.

    Raises:
        ConfigError: a task runs model-written code and the sweep does not allow it.
        DataError: a data set or model is missing.
    """
    benchmarks.check_consent(spec)
    swept = variants.variants(spec.calendar, spec.conditions)
    if not swept:
        raise ConfigError(
            "the sweep asks nothing: it has no date, and no control; give it dates, or "
            "`control = true` under [calendar]"
        )
    benchmarks.check_metrics(spec)
    asked = [benchmarks.load(task, spec.data_root) for task in spec.tasks]
    settings = {
        "sweep": _settled(spec),
        "texts": variants.texts(spec.conditions),
        "tasks": {a.name: _task_settings(a) for a in asked},
        "checkpoints": {
            m.name: checkpoints.identity(m, checkpoints.folder(m, say, weights=False))
            for m in spec.models
        },
        "versions": {
            name: importlib.metadata.version(name)
            for name in ("transformers", "tokenizers", "jinja2")
        }
        | {"datesweep": __version__},
    }
    return Plan(settings=settings, benchmarks=asked, variants=swept)


def write(run: Run, spec: SweepSpec, plan: Plan, say: Say = lambda text: None) -> None:
    """Check every prompt of `plan` and write it to the folder of `run`.

    Raises:
        PromptError: a prompt that loses its date, is too long, or whose labels are not single
            tokens.
    """
    placebo = variants.placebo_variants(spec.calendar, plan.variants)
    requests = order.cut_shards(
        order.prefix_order(plan.benchmarks, plan.variants, placebo), spec.engine.shard_rows
    )
    prompts = checks.check_all(spec.models, plan.benchmarks, plan.variants, placebo, say)
    manifest = {
        "settings": plan.settings,
        "fingerprint": store.fingerprint(plan.settings),
        "sweep": stored(spec),
        "data": {a.name: sources.origin(a.task.source, spec.data_root) for a in plan.benchmarks},
        "counts": counts(spec, plan, requests, prompts),
    }
    plan_tables = {
        "items": tables.from_records(Item, plan.items),
        "examples": tables.from_records(
            Item, {(i.task, i.item_id): i for a in plan.benchmarks for i in a.examples}.values()
        ),
        "variants": tables.from_records(Variant, plan.variants),
        "asked": tables.from_records(AskedItem, order.asked_items(plan.benchmarks)),
        "arms": tables.from_records(Arm, order.arms(plan.variants, placebo)),
        "requests": requests,
    }
    run.write_plan(manifest, prompts, plan_tables)


def stored(spec: SweepSpec) -> dict[str, Any]:
    """`spec` as a manifest keeps it: without the place of the data, and without consent, which
    whoever scores gives anew.
    """
    return dict(spec.model_dump(mode="json", exclude={"data_root", "allow_code_execution"}))


def counts(
    spec: SweepSpec, plan: Plan, requests: pl.DataFrame, prompts: dict[str, PromptReport]
) -> dict[str, int]:
    """How much work the plan is; tokens over all models."""
    return {
        "models": len(spec.models),
        "items": sum(len(a.items) for a in plan.benchmarks),
        "dates": len(spec.calendar.days()),
        "variants": len(plan.variants),
        "prompts_per_model": requests.height,
        "prompts": requests.height * len(spec.models),
        "prompt_tokens": sum(report.tokens.prompt for report in prompts.values()),
        "shards_per_model": requests["shard"].n_unique(),
    }


def _settled(spec: SweepSpec) -> dict[str, Any]:
    return dict(spec.model_dump(mode="json", exclude=_NOT_IN_FINGERPRINT))


def _task_settings(asked: Benchmark) -> dict[str, Any]:
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
    return tables.short_hash(
        json.dumps(tables.from_records(Item, items).to_dicts(), sort_keys=True).encode()
    )


def make_plan(run: Run, spec: SweepSpec, reporter: Reporter) -> Plan:
    """The plan of `run`, written unless it was planned before with exactly these settings.

    Raises:
        StoreError: the folder holds a run of other settings.
    """
    with reporter.waiting("reading tasks and models"):
        gathered = gather(spec, reporter.say)
    if run.claim(gathered.settings):
        # Titles, replicas, paths and the like may have changed; the stages that come later read
        # them from here.
        write_json({**run.manifest(), "sweep": stored(spec)}, run.manifest_path)
    else:
        with reporter.waiting("checking that every prompt carries its date"):
            write(run, spec, gathered, reporter.say)
    return gathered


def planned_spec(run: Run) -> SweepSpec:
    """The settings with which `run` was planned, and the metrics that were chosen for it since."""
    planned = SweepSpec.model_validate_json(json.dumps(run.manifest()["sweep"]))
    return benchmarks.as_scored(run, planned)
