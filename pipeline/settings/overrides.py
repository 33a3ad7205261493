"""A sweep made smaller, or asked of other models or another engine, by options of the command line."""

import datetime
import tomllib
from pathlib import Path
from typing import Any

from pipeline.core import dates
from pipeline.core.errors import ConfigError, nearest
from pipeline.settings import load as settings
from pipeline.settings.schema import (
    EngineSpec,
    ModelSpec,
    SweepSpec,
    TaskSpec,
    configs_folder,
    model_names,
)

_WITHOUT_EFFECT = ("replicas", "threads")
"""Engine settings that change how the work is shared out and no result, so that a run keeps its
name under them."""


def narrow(
    spec: SweepSpec,
    *,
    limit: int | None = None,
    days: str | None = None,
    models: str | None = None,
    tasks: str | None = None,
) -> SweepSpec:
    """The sweep with fewer items, dates or tasks, or with other models.

    What was changed is kept in `narrowing`.

    `days` is `2024-01-05,2024-07-05`, a range `2024-01-01..2024-01-31`, or a count of dates to
    spread over the calendar, 0 for none. `tasks` are names, each of a task or of a task in one
    style (`mmlu.cot`). `models` are names of models of the sweep or of the configs folder, or paths
    of model files. Names are separated by commas.

    Raises:
        ConfigError: a name or date that the sweep does not have, or two models of one name.
    """
    changes: dict[str, Any] = {}
    if limit is not None:
        if limit < 1:
            raise ConfigError(f"--limit: given {limit}; allowed: a whole number from 1")
        changes["tasks"] = [
            t.model_copy(update={"limit": min(limit, t.limit or limit)}) for t in spec.tasks
        ]
    if tasks is not None:
        changes["tasks"] = _choose_tasks(tasks, changes.get("tasks", spec.tasks))
    if models is not None:
        changes["models"] = _choose_models(models, spec)
    if days is not None:
        # Years come after: a chosen day is asked in each of them.
        allowed = spec.calendar.model_copy(update={"years": None}).days()
        changes["calendar"] = spec.calendar.model_copy(
            update={"dates": _choose_days(days, allowed)}
        )
    given = {"--limit": limit, "--dates": days, "--models": models, "--tasks": tasks}
    return spec.model_copy(
        update={**changes, "narrowing": {k: str(v) for k, v in given.items() if v is not None}}
    )


def set_engine(spec: SweepSpec, given: str | None) -> SweepSpec:
    """The sweep with other engine settings, `given` as `max_num_seqs=4,dtype=float16`.

    Without a `name` they get one made of those that can change a result; where there are none, the
    sweep's own name stays.

    Raises:
        ConfigError: an unknown setting, a value that it does not allow, or one given twice or not
            at all.
    """
    if given is None:
        return spec
    values = _engine_values(given)
    if own := "-".join(
        f"{key}-{value}" for key, value in values.items() if key not in _WITHOUT_EFFECT
    ):
        values.setdefault("name", own)
    engine = settings.checked(EngineSpec, {**spec.engine.model_dump(), **values}, "--engine")
    return spec.model_copy(update={"engine": engine})


def _engine_values(given: str) -> dict[str, Any]:
    """Key -> value of each `key=value` of an option."""
    values: dict[str, Any] = {}
    for part in given.split(","):
        key, _, text = (side.strip() for side in part.partition("="))
        if not key or not text:
            raise ConfigError(
                f"--engine: given {given!r}, where {part!r} is no setting; allowed: as in "
                "max_num_seqs=4,dtype=float16"
            )
        if key in values:
            raise ConfigError(f"--engine: given {given!r}; {key} is given twice; allowed: once")
        values[key] = _value(text, is_text=key == "name")
    return values


def _value(text: str, *, is_text: bool) -> Any:
    """A value as TOML reads it, or the text itself where quotes were left out or where it `is_text`
    anyway.
    """
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return text if is_text and not isinstance(value, str) else value


def _choose_models(given: str, spec: SweepSpec) -> list[ModelSpec]:
    chosen = [_find_model(name, spec) for name in _names(given, "--models")]
    faults = settings.Faults()
    settings.check_model_names(chosen, Path("--models"), faults)
    faults.raise_if_any()
    return chosen


def _find_model(name: str, spec: SweepSpec) -> ModelSpec:
    own = {m.name: m for m in spec.models}
    path = Path(name) if name.endswith(".toml") else configs_folder() / "models" / f"{name}.toml"
    if name in own:
        return own[name]
    if not path.is_file():
        others = ", ".join(model_names())
        hint = nearest(name, [*own, *model_names()])
        raise ConfigError(
            f"--models: given {name!r}{hint}; this sweep has {', '.join(own)}; also "
            f"allowed: a .toml file, or {others}"
        )
    return settings.model_file(path)


def _choose_tasks(given: str, allowed: list[TaskSpec]) -> list[TaskSpec]:
    wanted = _names(given, "--tasks")
    known = {name for t in allowed for name in (t.name, f"{t.name}.{t.style}")}
    if unknown := [name for name in wanted if name not in known]:
        hints = "".join(nearest(name, known) for name in unknown)
        names = ", ".join(f"{t.name}.{t.style}" for t in allowed)
        raise ConfigError(
            f"--tasks: given {given!r}; allowed, as this sweep has them: {names}{hints}"
        )
    return [t for t in allowed if t.name in wanted or f"{t.name}.{t.style}" in wanted]


def _names(given: str, option: str) -> list[str]:
    wanted = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not wanted:
        raise ConfigError(f"{option}: given {given!r}; allowed: names separated by commas")
    return wanted


def _choose_days(given: str, allowed: list[datetime.date]) -> list[datetime.date]:
    form = "a count, dates like 2024-01-05,2024-07-05, or a range like 2024-01-01..2024-01-31"
    try:
        if given.isdigit():
            return dates.spread(allowed, int(given))
        if ".." in given:
            first, last = (datetime.date.fromisoformat(part) for part in given.split(".."))
            days = [d for d in allowed if first <= d <= last]
        else:
            days = [datetime.date.fromisoformat(part.strip()) for part in given.split(",")]
    except ValueError as error:
        raise ConfigError(f"--dates: given {given!r} ({error}); allowed: {form}") from None
    if not allowed:
        raise ConfigError(f"--dates: given {given!r}; this sweep has no dates to choose from")
    missing = [d.isoformat() for d in days if d not in allowed]
    if missing or not days:
        span = f"{len(allowed)} dates from {allowed[0]} to {allowed[-1]}"
        raise ConfigError(
            f"--dates: given {given!r}; not swept: {', '.join(missing) or 'all of it'}; "
            f"this sweep has {span}"
        )
    return days
