"""Read sweep and model files and list everything that is wrong with them at once."""

import datetime
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pipeline.core import registry
from pipeline.core.dates import is_leap_day
from pipeline.core.errors import nearest
from pipeline.settings.faults import Faults, validate
from pipeline.settings.files import model_names, model_path, sweep_path, unknown_model
from pipeline.settings.schema import CalendarSpec, ModelSpec, SweepSpec


def load_sweep(name: str) -> SweepSpec:
    """The sweep file `name` (a path, or a bare name in `configs/sweeps`) with its model files.

    Raises:
        ConfigError: lists every fault of the sweep file and of all its model files, or else every
            style that a task does not offer.
    """
    path, faults = sweep_path(name), Faults()
    raw = _read(path, faults)
    models = [_find_model(entry, path, faults) for entry in _model_entries(raw, path, faults)]
    _check_calendar(raw.get("calendar"), path, faults)
    _check_duplicates(raw, path, faults)
    check_model_names(models, path, faults)
    # Model files have faults of their own; a stand-in keeps them from being reported twice.
    usable = [m for m in models if m is not None] or [ModelSpec.model_construct(name="stand-in")]
    spec = cast(SweepSpec, validate(SweepSpec, {**raw, "models": usable}, path, faults))
    faults.raise_if_any()
    _check_styles(spec, path)
    if spec.data_root is None:
        return spec
    return spec.model_copy(update={"data_root": str((path.parent / spec.data_root).resolve())})


def model_file(path: Path) -> ModelSpec:
    """The model file at `path`.

    Raises:
        ConfigError: lists every fault of the file.
    """
    faults = Faults()
    spec = _model(path, faults)
    faults.raise_if_any()
    return cast(ModelSpec, spec)


def _model(path: Path, faults: Faults) -> ModelSpec | None:
    raw = _read(path, faults)
    spec = validate(ModelSpec, raw, path, faults)
    _check_weights(raw.get("weights"), path, faults)
    if spec is None or spec.weights.path is None:
        return spec
    folder = str((path.parent / spec.weights.path).resolve())
    return spec.model_copy(update={"weights": spec.weights.model_copy(update={"path": folder})})


def _read(path: Path, faults: Faults) -> dict[str, Any]:
    text = path.read_text()
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # An impossible date such as 2024-02-30 stops the parser; as text it is reported with the
        # other faults.
        date = r"(?<=[=\[,\s])(\d{4}-\d{2}-\d{2})(?=[\s,\]#]|$)"
        try:
            return tomllib.loads(re.sub(date, _quote_impossible, text, flags=re.M))
        except tomllib.TOMLDecodeError:
            faults.add(path, "", f"not valid TOML: {error}")
            faults.raise_if_any()
            raise


def _quote_impossible(date: re.Match[str]) -> str:
    try:
        datetime.date.fromisoformat(date[1])
    except ValueError:
        return f'"{date[1]}"'
    return date[1]


def _model_entries(raw: dict[str, Any], path: Path, faults: Faults) -> list[str]:
    entries = raw.get("models")
    if isinstance(entries, list) and entries and all(isinstance(e, str) for e in entries):
        return entries
    allowed = f"a list of model files or of names among {', '.join(model_names())}"
    faults.add(path, "models", f"given {entries!r}; allowed: {allowed}")
    return []


def _find_model(entry: str, sweep: Path, faults: Faults) -> ModelSpec | None:
    path = model_path(entry, sweep.parent)
    if path.is_file():
        return _model(path, faults)
    faults.add(sweep, "models", unknown_model(entry))
    return None


def check_model_names(models: Sequence[ModelSpec | None], path: Path, faults: Faults) -> None:
    """Add a fault for each name that several of the `models` have.

    `path` is the file, or option, that lists them.
    """
    names = [m.name for m in models if m is not None]
    for name in sorted({n for n in names if names.count(n) > 1}):
        fault = f"two model files say name = {name!r}, and results are kept by name"
        faults.add(path, "models", f"{fault}; allowed: a name of its own for each")


def _check_weights(raw: Any, path: Path, faults: Faults) -> None:
    if not isinstance(raw, dict):
        return
    given = [key for key in ("hub", "path", "package") if key in raw]
    if len(given) != 1:
        fault = f"given {' and '.join(given) or 'none'} of hub, path, package"
        faults.add(path, "weights", f"{fault}; allowed: exactly one of them")


def _check_calendar(raw: Any, path: Path, faults: Faults) -> None:
    if not isinstance(raw, dict):
        return
    usual = CalendarSpec()
    first, last = raw.get("first", usual.first), raw.get("last", usual.last)
    is_span = type(first) is type(last) is datetime.date
    if is_span and first > last:
        fault = f"given {last}, which is before first = {first}"
        faults.add(path, "calendar.last", f"{fault}; allowed: the same date or a later one")
    if "dates" in raw and (others := [k for k in ("first", "last", "step") if k in raw]):
        fault = f"given together with {', '.join(others)}"
        allowed = "either dates, or first, last and step"
        faults.add(path, "calendar.dates", f"{fault}; allowed: {allowed}")
    if raw.get("dates") == [] and raw.get("control") is False:
        fault = "empty, and control = false: nothing would be asked"
        faults.add(path, "calendar.dates", f"{fault}; allowed: dates, or the control, or both")
    is_one_leap_day = is_span and first == last and is_leap_day(first)
    if is_one_leap_day and raw.get("leap_day", "skip") == "skip":
        fault = 'the only date is a February 29, which "skip" leaves out'
        faults.add(path, "calendar.leap_day", f'{fault}; allowed here: "keep"')


def _check_duplicates(raw: dict[str, Any], path: Path, faults: Faults) -> None:
    tasks = [t for t in _entries(raw, "tasks") if isinstance(t, dict)]
    listed = {
        "tasks": [f"{t.get('name')}.{t.get('style', 'zero_shot')}" for t in tasks],
        "models": [m for m in _entries(raw, "models") if isinstance(m, str)],
    }
    for part in ("calendar", "conditions"):
        table = raw[part] if isinstance(raw.get(part), dict) else {}
        listed |= {f"{part}.{axis}": _entries(table, axis) for axis in table}
    for key, names in listed.items():
        for entry in sorted({str(e) for e in names if names.count(e) > 1}):
            faults.add(path, key, f"{entry} is given twice; allowed: once")


def _entries(table: dict[str, Any], key: str) -> list[Any]:
    return table[key] if isinstance(table.get(key), list) else []


def _check_styles(spec: SweepSpec, path: Path) -> None:
    """Raise where a task does not offer the style it is asked in.

    Tasks load heavy packages, so that all other faults come first.
    """
    faults = Faults()
    for i, task in enumerate(spec.tasks):
        if task.style == "zero_shot":
            continue
        offered = list(registry.module("tasks", task.name).TASK.styles)
        if task.style not in offered:
            allowed = f"{', '.join(offered)}{nearest(task.style, offered)}"
            fault = f"given {task.style!r}; allowed for task {task.name}: {allowed}"
            faults.add(path, f"tasks.{i}.style", fault)
    faults.raise_if_any()
