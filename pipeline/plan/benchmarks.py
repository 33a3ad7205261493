"""The items that a sweep asks: each of its tasks in its style, narrowed to its limit, with worked
examples where the style has them.
"""

import hashlib
from dataclasses import dataclass

import polars as pl

from pipeline import metrics, tasks
from pipeline.core import registry
from pipeline.core.errors import ConfigError, DataError, nearest
from pipeline.core.records import Item
from pipeline.data import rows as sources
from pipeline.sandbox import run as sandbox
from pipeline.settings import ModelSpec, SweepSpec, TaskSpec
from pipeline.store import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark in one style, as a sweep asks it."""

    spec: TaskSpec
    items: list[Item]
    examples: list[Item]
    """Items for worked examples; empty for styles without."""
    num_rows: int
    """Rows of the whole data set."""
    example_source: str
    """The split that the examples are from, or an empty string."""

    @property
    def name(self) -> str:
        """Task and style, as in `mmlu.five_shot`."""
        return f"{self.spec.name}.{self.spec.style}"

    @property
    def task(self) -> tasks.Task:
        """The benchmark in its style."""
        return tasks.get(self.spec.name, self.spec.style)


def check_consent(spec: SweepSpec, run_folder: str | None = None) -> None:
    """Nothing, or ConfigError where scoring would run programs without consent.

    Asked before the night, not after it; for the scores of `run_folder`, since it keeps none.
    """
    running = [t.name for t in spec.tasks if tasks.get(t.name, t.style).executes_code]
    if not running or spec.allow_code_execution:
        return
    if run_folder is None:
        how = "--allow-code-execution or `allow_code_execution = true` in the sweep"
        how += ", or leave it out with --tasks"
    else:
        how = f"`datesweep score {run_folder} --allow-code-execution`; a run keeps no consent"
    raise ConfigError(
        f"task {', '.join(running)} runs programs that the model writes "
        f"(pipeline/sandbox/run.py says how they are confined); allow it with {how}"
    )


def scored_by(spec: TaskSpec) -> tuple[str, ...]:
    """Metrics under which the answers are scored: the sweep's choice, else the task's own."""
    return tuple(dict.fromkeys(spec.metrics or tasks.get(spec.name, spec.style).metrics))


def fitting_metrics(spec: TaskSpec) -> list[str]:
    """Every metric that a task can be judged by: those that read what its own metrics read."""
    read = {metrics.get(name).reads for name in tasks.get(spec.name, spec.style).metrics}
    return [name for name in registry.names("metrics") if metrics.get(name).reads in read]


def check_metrics(spec: SweepSpec) -> None:
    """Nothing, or ConfigError where a task names a metric that it cannot be judged by."""
    for task in spec.tasks:
        fitting = fitting_metrics(task)
        for name in scored_by(task):
            if name not in fitting:
                raise ConfigError(
                    f"task {task.name}.{task.style}: it cannot be judged by {name!r}; "
                    f"allowed in its `metrics`: {', '.join(fitting)}"
                )


def chosen_metrics(specs: list[TaskSpec], names: list[str]) -> list[TaskSpec]:
    """`specs`, each judged by those of the metrics `names` that fit it, in that order.

    Raises:
        ConfigError: a metric is unknown or fits no task, or none fits some task.
    """
    known, fitting = registry.names("metrics"), [fitting_metrics(spec) for spec in specs]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"no metric {name!r}; allowed: {', '.join(known)}{nearest(name, known)}"
            )
        if not any(name in found for found in fitting):
            raise ConfigError(
                f"no task of this run can be judged by {name}: "
                f"{', '.join(f'{s.name}.{s.style}' for s in specs)}"
            )
    for spec, found in zip(specs, fitting, strict=True):
        if not {*found} & {*names}:
            raise ConfigError(
                f"task {spec.name}.{spec.style} can be judged by none of "
                f"{', '.join(names)}; also name one of {', '.join(found)}"
            )
    chosen = [[name for name in names if name in found] for found in fitting]
    return [
        spec.model_copy(update={"metrics": mine}) for spec, mine in zip(specs, chosen, strict=True)
    ]


def layers(spec: TaskSpec) -> tuple[str, ...] | None:
    """How programs of a task's outputs are to be confined, as this machine can.

    None where there are none.
    """
    return sandbox.layers() if tasks.get(spec.name, spec.style).executes_code else None


def max_tokens(spec: TaskSpec, task: tasks.Task, model: ModelSpec) -> int:
    """Longest output in tokens: the sweep's value, else the task's own.

    More for a model that thinks aloud where a task lets it write.
    """
    return (spec.max_tokens or task.max_tokens) + (
        model.thinking_tokens if task.kind == "text" else 0
    )


def load(spec: TaskSpec, data_root: str | None) -> Benchmark:
    """One task of a sweep: its items, narrowed to its limit, and its worked examples.

    Raises:
        ConfigError: the task does not offer the style. DataError: the data is missing, not as the
            task expects, or of another size than the sweep says.
    """
    task = tasks.get(spec.name, spec.style)
    items = list(task.items(sources.rows(task.source, data_root)))
    if not items or (spec.rows is not None and len(items) != spec.rows):
        raise DataError(
            f"task {task.name}: {task.source.dataset} ({task.source.config}, "
            f"{task.source.split}) has {len(items):,} rows"
            + (
                f", and the sweep says rows = {spec.rows:,}: it is another edition, or a "
                "mirror of a part of it"
                if items
                else ""
            )
        )
    examples, origin = _examples(task, items, data_root)
    return Benchmark(
        spec=spec,
        items=select(items, spec.limit, spec.subset_seed),
        examples=examples,
        num_rows=len(items),
        example_source=origin,
    )


def _examples(task: tasks.Task, items: list[Item], data_root: str | None) -> tuple[list[Item], str]:
    if not task.num_shots:
        return [], ""
    source = sources.first_available(task.example_sources, data_root)
    return list(
        task.examples(sources.rows(source, data_root), items)
    ), f"{source.config}/{source.split}"


def select(items: list[Item], limit: int | None, seed: int = 0) -> list[Item]:
    """At most `limit` items, in their own order: from each group those whose ids hash lowest, as
    evenly from all groups as may be.

    That is the same choice on every machine and for every model; a larger limit keeps what a
    smaller one chose. 285 items of MMLU are thus five of each of its 57 subjects.
    """
    if limit is None or limit >= len(items):
        return items
    digest = {
        i.item_id: hashlib.sha256(f"{seed or ''}{i.task}:{i.item_id}".encode()).digest()
        for i in items
    }
    seen: dict[str, int] = {}
    rank: dict[str, tuple[int, bytes]] = {}
    for item in sorted(items, key=lambda i: digest[i.item_id]):
        rank[item.item_id] = seen.get(item.group, 0), digest[item.item_id]
        seen[item.group] = rank[item.item_id][0] + 1
    chosen = set(sorted(rank, key=rank.__getitem__)[:limit])
    return [item for item in items if item.item_id in chosen]


def signatures(task: TaskSpec, items: pl.DataFrame) -> dict[str, str]:
    """The metrics that a task is judged by and their signatures, for all the `items` that it asks."""
    return {name: metrics.get(name).signature_for(items) for name in scored_by(task)}


def as_scored(run: Run, spec: SweepSpec) -> SweepSpec:
    """`spec` with the metrics that `score --metrics` chose for `run`, if it did."""
    chosen = run.chosen_metrics()
    changed = [
        task.model_copy(update={"metrics": chosen.get(f"{task.name}.{task.style}", task.metrics)})
        for task in spec.tasks
    ]
    return spec.model_copy(update={"tasks": changed})


def with_metrics(run: Run, spec: SweepSpec, names: list[str]) -> SweepSpec:
    """`spec` with each task scored by those of the metrics `names` that fit it.

    The choice is kept where the scores are, so that it outlives a new plan of the same run.

    Raises:
        ConfigError: a metric is unknown or fits no task, or none fits some task.
    """
    chosen = chosen_metrics(spec.tasks, names)
    run.choose_metrics({f"{task.name}.{task.style}": task.metrics or [] for task in chosen})
    return as_scored(run, spec)
