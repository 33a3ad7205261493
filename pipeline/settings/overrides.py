"""A sweep made smaller, or asked of other models or another engine, by options of a command."""

import datetime
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.dates import spread
from pipeline.core.errors import ConfigError, nearest
from pipeline.settings.faults import Faults, checked
from pipeline.settings.files import model_names, model_path
from pipeline.settings.load import check_model_names, model_file
from pipeline.settings.schema import CalendarSpec, EngineSpec, ModelSpec, SweepSpec, TaskSpec

_WITHOUT_EFFECT = ("replicas", "threads")
"""Engine settings that change how the work is shared out and no result, so that a run keeps its
name under them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What options of a command change in a sweep; names are separated by commas."""

    limit: int | None = None
    """At most this many items of each task; it never widens a sweep."""
    dates: str | None = None
    """`2024-01-05,2024-07-05`, a range `2024-01-01..2024-01-31`, or a count of dates to spread over
    the calendar, 0 for none."""
    models: str | None = None
    """Names of models of the sweep or of the configs folder, or paths of model files."""
    tasks: str | None = None
    """Names, each of a task or of a task in one style (`mmlu.cot`)."""
    engine: str | None = None
    """Engine settings, as in `max_num_seqs=4,dtype=float16`. Without a `name` they get one made of
    those that can change a result; where there are none, the sweep's own name stays."""
    allow_code_execution: bool = False
    """Consent, beside the sweep's own."""


def override(spec: SweepSpec, overrides: Overrides) -> SweepSpec:
    """`spec` as `overrides` change it; what narrows it is kept in its `narrowing`.

    Raises:
        ConfigError: a name, date or setting that there is not, or two models of one name.
    """
    narrowing = {
        "--limit": overrides.limit,
        "--dates": overrides.dates,
        "--models": overrides.models,
        "--tasks": overrides.tasks,
    }
    changes = {
        "engine": _engine(spec.engine, overrides.engine),
        "tasks": _tasks(_limited(spec.tasks, overrides.limit), overrides.tasks),
        "models": _models(spec.models, overrides.models),
        "calendar": _calendar(spec.calendar, overrides.dates),
        "narrowing": {option: str(v) for option, v in narrowing.items() if v is not None},
        "allow_code_execution": spec.allow_code_execution or overrides.allow_code_execution,
    }
    return spec.model_copy(update=changes)


def _engine(spec: EngineSpec, given: str | None) -> EngineSpec:
    if given is None:
        return spec
    values = _engine_values(given)
    own = [f"{key}-{value}" for key, value in values.items() if key not in _WITHOUT_EFFECT]
    if own:
        values.setdefault("name", "-".join(own))
    return checked(EngineSpec, {**spec.model_dump(), **values}, "--engine")


def _engine_values(given: str) -> dict[str, Any]:
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
    """A value as TOML reads it, or `text` where it lacks its quotes or `is_text` anyway."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return text if is_text and not isinstance(value, str) else value


def _limited(tasks: list[TaskSpec], limit: int | None) -> list[TaskSpec]:
    if limit is None:
        return tasks
    if limit < 1:
        raise ConfigError(f"--limit: given {limit}; allowed: a whole number from 1")
    return [t.model_copy(update={"limit": min(limit, t.limit or limit)}) for t in tasks]


def _tasks(swept: list[TaskSpec], given: str | None) -> list[TaskSpec]:
    if given is None:
        return swept
    names = _names(given, "--tasks")
    known = {name for t in swept for name in (t.name, f"{t.name}.{t.style}")}
    if unknown := [name for name in names if name not in known]:
        hints = "".join(nearest(name, known) for name in unknown)
        allowed = ", ".join(f"{t.name}.{t.style}" for t in swept)
        raise ConfigError(
            f"--tasks: given {given!r}; allowed, as this sweep has them: {allowed}{hints}"
        )
    return [t for t in swept if t.name in names or f"{t.name}.{t.style}" in names]


def _models(swept: list[ModelSpec], given: str | None) -> list[ModelSpec]:
    if given is None:
        return swept
    by_name = {m.name: m for m in swept}
    chosen = [
        by_name.get(name) or _other_model(name, by_name) for name in _names(given, "--models")
    ]
    faults = Faults()
    check_model_names(chosen, Path("--models"), faults)
    faults.raise_if_any()
    return chosen


def _other_model(name: str, swept: dict[str, ModelSpec]) -> ModelSpec:
    path, others = model_path(name), model_names()
    if not path.is_file():
        raise ConfigError(
            f"--models: given {name!r}{nearest(name, [*swept, *others])}; this sweep has "
            f"{', '.join(swept)}; also allowed: a .toml file, or {', '.join(others)}"
        )
    return model_file(path)


def _names(given: str, option: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"{option}: given {given!r}; allowed: names separated by commas")
    return names


def _calendar(spec: CalendarSpec, given: str | None) -> CalendarSpec:
    if given is None:
        return spec
    # Years come after: a chosen day is asked in each of them.
    allowed = spec.model_copy(update={"years": None}).days()
    return spec.model_copy(update={"dates": _days(given, allowed)})


def _days(given: str, allowed: list[datetime.date]) -> list[datetime.date]:
    try:
        if given.isdigit():
            return spread(allowed, int(given))
        if ".." in given:
            first, last = (datetime.date.fromisoformat(part) for part in given.split(".."))
            days = [d for d in allowed if first <= d <= last]
        else:
            days = [datetime.date.fromisoformat(part.strip()) for part in given.split(",")]
    except ValueError as error:
        raise ConfigError(
            f"--dates: given {given!r} ({error}); allowed: a count, dates like "
            "2024-01-05,2024-07-05, or a range like 2024-01-01..2024-01-31"
        ) from None
    if not allowed:
        raise ConfigError(f"--dates: given {given!r}; this sweep has no dates to choose from")
    missing = [d.isoformat() for d in days if d not in allowed]
    if missing or not days:
        raise ConfigError(
            f"--dates: given {given!r}; not swept: {', '.join(missing) or 'all of it'}; "
            f"this sweep has {len(allowed)} dates from {allowed[0]} to {allowed[-1]}"
        )
    return days
