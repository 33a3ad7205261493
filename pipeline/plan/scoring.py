"""By what the answers of a sweep are scored, and consent to run programs."""

import polars as pl

from pipeline import metrics, tasks
from pipeline.core import registry
from pipeline.core.errors import ConfigError, nearest
from pipeline.settings import SweepSpec, TaskSpec
from pipeline.store import Run


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
        f"(pipeline/sandbox/__init__.py says how they are confined); allow it with {how}"
    )


def scored_by(spec: TaskSpec) -> tuple[str, ...]:
    """Metrics under which the answers are scored: the sweep's choice, else the task's own."""
    return tuple(dict.fromkeys(spec.metrics or tasks.get(spec.name, spec.style).metrics))


def signatures(spec: TaskSpec, items: pl.DataFrame) -> dict[str, str]:
    """Metric -> its signature, for all the `items` that a task asks."""
    return {name: metrics.get(name).signature_for(items) for name in scored_by(spec)}


def fitting_metrics(spec: TaskSpec) -> list[str]:
    """Every metric that can score a task: those that read what its own metrics read."""
    read = {metrics.get(name).reads for name in tasks.get(spec.name, spec.style).metrics}
    return [name for name in registry.names("metrics") if metrics.get(name).reads in read]


def check_metrics(spec: SweepSpec) -> None:
    """Nothing, or ConfigError where a task names a metric that cannot score it."""
    for task in spec.tasks:
        fitting = fitting_metrics(task)
        for name in scored_by(task):
            if name not in fitting:
                raise ConfigError(
                    f"task {_name(task)}: it cannot be judged by {name!r}; allowed in its "
                    f"`metrics`: {', '.join(fitting)}"
                )


def as_scored(run: Run, spec: SweepSpec) -> SweepSpec:
    """`spec` with the metrics that `score --metrics` chose for `run`, if it did."""
    chosen = run.chosen_metrics()
    changed = [
        task.model_copy(update={"metrics": chosen.get(_name(task), task.metrics)})
        for task in spec.tasks
    ]
    return spec.model_copy(update={"tasks": changed})


def with_metrics(run: Run, spec: SweepSpec, names: list[str]) -> SweepSpec:
    """`spec` with each task scored by those of the metrics `names` that fit it.

    The choice is kept where the scores are, so that it outlives a new plan of the same run.

    Raises:
        ConfigError: a metric is unknown or fits no task, or none fits some task.
    """
    run.choose_metrics(_chosen(spec.tasks, names))
    return as_scored(run, spec)


def _chosen(specs: list[TaskSpec], names: list[str]) -> dict[str, list[str]]:
    """Benchmark -> those of the metrics `names` that fit it, in that order."""
    known = registry.names("metrics")
    fitting = {_name(spec): fitting_metrics(spec) for spec in specs}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"no metric {name!r}; allowed: {', '.join(known)}{nearest(name, known)}"
            )
        if not any(name in allowed for allowed in fitting.values()):
            raise ConfigError(f"no task of this run can be judged by {name}: {', '.join(fitting)}")
    for benchmark, allowed in fitting.items():
        if not {*allowed} & {*names}:
            raise ConfigError(
                f"task {benchmark} can be judged by none of {', '.join(names)}; also name one of "
                f"{', '.join(allowed)}"
            )
    return {
        benchmark: [name for name in names if name in allowed]
        for benchmark, allowed in fitting.items()
    }


def _name(spec: TaskSpec) -> str:
    return f"{spec.name}.{spec.style}"
