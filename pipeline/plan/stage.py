"""The plan of a sweep: gathered in memory, checked, and written to the run folder.

It is columns from the start: items x variants is a cross join, the order one sort, the shards one
pass over groups.
"""

import importlib.metadata
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline import __version__
from pipeline.core import tables
from pipeline.core.errors import ConfigError
from pipeline.core.progress import Reporter
from pipeline.core.records import Arm, AskedItem, Item, Variant
from pipeline.data import checkpoints, origin_of
from pipeline.plan import order, scoring
from pipeline.plan.benchmarks import Benchmark, load
from pipeline.plan.checks import check_all
from pipeline.prompts import variants
from pipeline.settings import SweepSpec
from pipeline.store import Counts, Manifest, PlanSettings, PromptReport, Run, TaskSettings

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

    settings: PlanSettings
    """What the results depend on; its hash is the run's fingerprint."""
    benchmarks: list[Benchmark]
    variants: list[Variant]

    @property
    def items(self) -> list[Item]:
        """The items of all tasks, each once, however many styles ask it."""
        return _once(item for benchmark in self.benchmarks for item in benchmark.items)


def make_plan(run: Run, spec: SweepSpec, reporter: Reporter) -> Plan:
    """The plan of `run`, written unless it was planned before with exactly these settings.

    Raises:
        StoreError: the folder holds a run of other settings.
    """
    with reporter.waiting("reading tasks and models"):
        plan = gather(spec, reporter.say)
    if run.claim(plan.settings):
        # Titles, replicas, paths and the like may have changed; the stages that come later read
        # them from here.
        run.write_manifest(run.manifest().model_copy(update={"sweep": _stored(spec)}))
    else:
        with reporter.waiting("checking that every prompt carries its date"):
            write(run, spec, plan, reporter.say)
    return plan


def planned_spec(run: Run) -> SweepSpec:
    """The settings with which `run` was planned, and the metrics that were chosen for it since."""
    # Settings that are no more may stand in a run of before.
    planned = SweepSpec.model_validate_json(json.dumps(run.manifest().sweep), extra="ignore")
    return scoring.as_scored(run, planned)


def gather(spec: SweepSpec, say: Say = lambda text: None) -> Plan:
    """The items and variants of `spec`, with the settings that name them.

    Raises:
        ConfigError: a task runs model-written code and the sweep does not allow it.
        DataError: a data set or model is missing.
    """
    scoring.check_consent(spec)
    swept = variants.variants(spec.calendar, spec.conditions)
    if not swept:
        raise ConfigError(
            "the sweep asks nothing: it has no date, and no control; give it dates, or "
            "`control = true` under [calendar]"
        )
    scoring.check_metrics(spec)
    benchmarks = [load(task, spec.data_root) for task in spec.tasks]
    folders = {model.name: checkpoints.folder(model, say, weights=False) for model in spec.models}
    libraries = ("transformers", "tokenizers", "jinja2")
    versions = {name: importlib.metadata.version(name) for name in libraries}
    settings = PlanSettings(
        sweep=spec.model_dump(mode="json", exclude=_NOT_IN_FINGERPRINT),
        texts=variants.texts(spec.conditions),
        tasks={benchmark.name: _task_settings(benchmark) for benchmark in benchmarks},
        checkpoints={m.name: checkpoints.identity(m, folders[m.name]) for m in spec.models},
        versions=versions | {"datesweep": __version__},
    )
    return Plan(settings=settings, benchmarks=benchmarks, variants=swept)


def _task_settings(benchmark: Benchmark) -> TaskSettings:
    task = benchmark.task
    return TaskSettings(
        version=task.version,
        dataset=task.source.dataset,
        max_tokens=benchmark.spec.max_tokens or task.max_tokens,
        num_rows=benchmark.num_rows,
        num_items=len(benchmark.items),
        items_hash=_items_hash(benchmark.items),
        examples=benchmark.example_source,
        examples_hash=_items_hash(benchmark.examples),
    )


def _items_hash(items: list[Item]) -> str:
    rows = tables.from_records(Item, items).to_dicts()
    return tables.short_hash(json.dumps(rows, sort_keys=True).encode())


def write(run: Run, spec: SweepSpec, plan: Plan, say: Say = lambda text: None) -> None:
    """Check every prompt of `plan` and write it to the folder of `run`.

    Raises:
        PromptError: a prompt that loses its date, is too long, or whose labels are not single
            tokens.
    """
    placebo = variants.placebo_variants(spec.calendar, plan.variants)
    ordered = order.prefix_order(plan.benchmarks, plan.variants, placebo)
    requests = order.cut_shards(ordered, spec.engine.shard_rows)
    prompts = check_all(spec.models, plan.benchmarks, plan.variants, placebo, say)
    manifest = Manifest(
        settings=plan.settings,
        fingerprint=plan.settings.fingerprint(),
        sweep=_stored(spec),
        data={b.name: origin_of(b.task.source, spec.data_root) for b in plan.benchmarks},
        counts=_counts(spec, plan, requests, prompts),
    )
    examples = _once(example for b in plan.benchmarks for example in b.examples)
    plan_tables = {
        "items": tables.from_records(Item, plan.items),
        "examples": tables.from_records(Item, examples),
        "variants": tables.from_records(Variant, plan.variants),
        "asked": tables.from_records(AskedItem, order.asked_items(plan.benchmarks)),
        "arms": tables.from_records(Arm, order.arms(plan.variants, placebo)),
        "requests": requests,
    }
    run.write_plan(manifest, prompts, plan_tables)


def _once(items: Iterable[Item]) -> list[Item]:
    return list({(item.task, item.item_id): item for item in items}.values())


def _stored(spec: SweepSpec) -> dict[str, Any]:
    """`spec` as a manifest keeps it: without the folder of the data, and without consent.

    Whoever scores gives consent anew.
    """
    return spec.model_dump(mode="json", exclude={"data_root", "allow_code_execution"})


def _counts(
    spec: SweepSpec, plan: Plan, requests: pl.DataFrame, prompts: dict[str, PromptReport]
) -> Counts:
    """How much work the plan is; tokens over all models."""
    return Counts(
        models=len(spec.models),
        items=sum(len(benchmark.items) for benchmark in plan.benchmarks),
        dates=len(spec.calendar.days()),
        variants=len(plan.variants),
        prompts_per_model=requests.height,
        prompts=requests.height * len(spec.models),
        prompt_tokens=sum(report.tokens.prompt for report in prompts.values()),
        shards_per_model=requests["shard"].n_unique(),
    )
