"""Read sweep and model files and list everything that is wrong with them at once."""

import datetime
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from pipeline.core import registry
from pipeline.core.errors import ConfigError, nearest
from pipeline.settings.schema import (
    ModelSpec,
    Spec,
    SweepSpec,
    configs_folder,
    model_names,
    sweep_path,
)

Valid = TypeVar("Valid", bound=Spec)

_ALLOWED = {
    "greater_than_equal": "a number from {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number up to {le}",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "string_pattern_mismatch": "letters, digits, dots, dashes and underscores, since it becomes part of a path",
    "list_type": "a list in brackets",
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
    "too_short": "at least {min_length} entry",
}
"""What pydantic's error types mean in the words of a settings file."""


class Faults:
    """The faults found so far, in the order of the files."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, file: Path, path: str, text: str) -> None:
        """Note that `path` in `file` is wrong, and how."""
        self.lines.append(f"{file}: {path}: {text}" if path else f"{file}: {text}")

    def raise_if_any(self) -> None:
        """Raise one ConfigError that lists every fault."""
        if self.lines:
            count = f"{len(self.lines)} fault{'s' if len(self.lines) > 1 else ''} in the settings"
            raise ConfigError("\n  ".join([f"{count}:", *self.lines]))


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
    usable = [m for m in models if m is not None] or [_STAND_IN]
    spec: SweepSpec = _validate(SweepSpec, {**raw, "models": usable}, path, faults)
    faults.raise_if_any()
    _check_styles(spec, path)
    if spec.data_root is not None:
        spec = spec.model_copy(update={"data_root": str((path.parent / spec.data_root).resolve())})
    return spec


_STAND_IN = ModelSpec.model_construct(name="stand-in")


def _read(path: Path, faults: Faults) -> dict[str, Any]:
    text = path.read_text()
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        try:
            # An impossible date such as 2024-02-30 stops the parser; as text it is reported with
            # the other faults.
            return tomllib.loads(
                re.sub(
                    r"(?<=[=\[,\s])(\d{4}-\d{2}-\d{2})(?=[\s,\]#]|$)",
                    _quote_impossible,
                    text,
                    flags=re.M,
                )
            )
        except tomllib.TOMLDecodeError:
            faults.add(path, "", f"not valid TOML: {error}")
            faults.raise_if_any()
            raise


def _quote_impossible(found: re.Match[str]) -> str:
    try:
        datetime.date.fromisoformat(found[1])
    except ValueError:
        return f'"{found[1]}"'
    return found[1]


def _model_entries(raw: dict[str, Any], path: Path, faults: Faults) -> list[str]:
    entries = raw.get("models")
    if isinstance(entries, list) and entries and all(isinstance(e, str) for e in entries):
        return entries
    faults.add(
        path,
        "models",
        f"given {entries!r}; allowed: a list of model files or of names among "
        f"{', '.join(model_names())}",
    )
    return []


def _find_model(entry: str, sweep: Path, faults: Faults) -> ModelSpec | None:
    path = (
        sweep.parent / entry
        if entry.endswith(".toml")
        else configs_folder() / "models" / f"{entry}.toml"
    )
    if not path.is_file():
        known = model_names()
        faults.add(
            sweep,
            "models",
            f"given {entry!r}; allowed: a .toml file or one of "
            f"{', '.join(known)}{nearest(entry, known)}",
        )
        return None
    return load_model(path, faults)


def load_model(path: Path, faults: Faults) -> ModelSpec | None:
    """The model file at `path`, or None after adding its faults to `faults`."""
    raw = _read(path, faults)
    spec: ModelSpec | None = _validate(ModelSpec, raw, path, faults)
    _check_weights(raw.get("weights"), path, faults)
    if spec is None or spec.weights.path is None:
        return spec
    weights = spec.weights.model_copy(
        update={"path": str((path.parent / spec.weights.path).resolve())}
    )
    return spec.model_copy(update={"weights": weights})


def model_file(path: Path) -> ModelSpec:
    """The model file at `path`.

    Raises:
        ConfigError: lists every fault of the file.
    """
    faults = Faults()
    spec = load_model(path, faults)
    faults.raise_if_any()
    return cast(ModelSpec, spec)


def checked(kind: type[Valid], raw: dict[str, Any], origin: str) -> Valid:
    """Settings of `kind` from options of the command line, which `origin` names.

    Raises:
        ConfigError: lists every fault.
    """
    faults = Faults()
    found = _validate(kind, raw, Path(origin), faults)
    faults.raise_if_any()
    return cast(Valid, found)


def _check_weights(raw: Any, path: Path, faults: Faults) -> None:
    if (
        isinstance(raw, dict)
        and len(given := [k for k in ("hub", "path", "package") if k in raw]) != 1
    ):
        faults.add(
            path,
            "weights",
            f"given {' and '.join(given) or 'none'} of hub, path, package; allowed: "
            "exactly one of them",
        )


def _check_calendar(raw: Any, path: Path, faults: Faults) -> None:
    if not isinstance(raw, dict):
        return
    first = raw.get("first", datetime.date(2024, 1, 1))
    last = raw.get("last", datetime.date(2024, 12, 31))
    if type(first) is type(last) is datetime.date and first > last:
        faults.add(
            path,
            "calendar.last",
            f"given {last}, which is before first = {first}; allowed: the same date or a later one",
        )
    if "dates" in raw and (both := [k for k in ("first", "last", "step") if k in raw]):
        faults.add(
            path,
            "calendar.dates",
            f"given together with {', '.join(both)}; allowed: either dates, or first, last "
            "and step",
        )
    if raw.get("dates") == [] and raw.get("control") is False:
        faults.add(
            path,
            "calendar.dates",
            "empty, and control = false: nothing would be asked; allowed: dates, or the "
            "control, or both",
        )
    leap_days = [
        d for d in (first, last) if type(d) is datetime.date and (d.month, d.day) == (2, 29)
    ]
    if first == last and leap_days and raw.get("leap_day", "skip") == "skip":
        faults.add(
            path,
            "calendar.leap_day",
            'the only date is a February 29, which "skip" leaves out; allowed here: "keep"',
        )


def check_model_names(models: Sequence[ModelSpec | None], path: Path, faults: Faults) -> None:
    """Add a fault for each name that several of the `models` have.

    `path` is the file, or option, that lists them.
    """
    names = [m.name for m in models if m is not None]
    for name in sorted({n for n in names if names.count(n) > 1}):
        faults.add(
            path,
            "models",
            f"two model files say name = {name!r}, and results are kept by name; allowed: "
            "a name of its own for each",
        )


def _check_duplicates(raw: dict[str, Any], path: Path, faults: Faults) -> None:
    entries = raw["tasks"] if isinstance(raw.get("tasks"), list) else []
    tasks = [
        f"{t.get('name')}.{t.get('style', 'zero_shot')}" for t in entries if isinstance(t, dict)
    ]
    models = (
        [m for m in raw.get("models", []) if isinstance(m, str)]
        if isinstance(raw.get("models"), list)
        else []
    )
    tables = {
        part: raw[part] for part in ("calendar", "conditions") if isinstance(raw.get(part), dict)
    }
    axes = {
        f"{part}.{axis}": v
        for part, table in tables.items()
        for axis, v in table.items()
        if isinstance(v, list)
    }
    listed: dict[str, list[Any]] = {"tasks": tasks, "models": models, **axes}
    for key, names in listed.items():
        for entry in sorted({str(e) for e in names if names.count(e) > 1}):
            faults.add(path, key, f"{entry} is given twice; allowed: once")


def _check_styles(spec: SweepSpec, path: Path) -> None:
    """Raise where a task does not offer the style it is asked in.

    Tasks load heavy packages, so that all other faults come first.
    """
    styled = [(i, t) for i, t in enumerate(spec.tasks) if t.style != "zero_shot"]
    if not styled:
        return
    faults = Faults()
    for i, task in styled:
        offered = list(registry.module("tasks", task.name).TASK.styles)
        if task.style not in offered:
            hint = nearest(task.style, offered)
            faults.add(
                path,
                f"tasks.{i}.style",
                f"given {task.style!r}; allowed for task {task.name}: {', '.join(offered)}{hint}",
            )
    faults.raise_if_any()


def _validate(kind: type[Spec], raw: dict[str, Any], path: Path, faults: Faults) -> Any:
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        explained: dict[str, list[str]] = {}
        for fault in error.errors(include_url=False):
            explained.setdefault(_path(fault["loc"]), []).append(_explain(kind, dict(fault)))
        for where, texts in explained.items():
            # A value that may be a number or "auto" fails once for each; to the reader it is one
            # fault.
            others = [text.split("allowed: ")[-1] for text in texts[1:]]
            faults.add(path, where, " or ".join([texts[0], *others]))
        return None


def _path(location: tuple[int | str, ...]) -> str:
    # Union members appear in pydantic's locations (`step.int`); a settings file knows only keys and
    # positions.
    return ".".join(str(part) for part in location if part not in _UNION_MEMBERS)


_UNION_MEMBERS = ("int", "bool", "str", "float", "literal['auto']", "constrained-int")


def _explain(kind: type[Spec], fault: dict[str, Any]) -> str:
    given, error, context = fault["input"], fault["type"], fault.get("ctx", {})
    is_tasks = bool(fault["loc"] == ("tasks",))
    if error == "extra_forbidden":
        allowed = _keys(kind, fault["loc"][:-1])
        return (
            f"unknown key, given {given!r}; allowed here: "
            f"{', '.join(allowed)}{nearest(str(fault['loc'][-1]), allowed)}"
        )
    if error == "missing":
        return (
            "missing; it must be given" + ", as one table headed [[tasks]] for each task" * is_tasks
        )
    if error == "value_error":
        return f"given {given!r}: {context['error']}"
    allowed_text = _ALLOWED.get(error, fault["msg"]).format(**context)
    if error == "list_type" and is_tasks:
        allowed_text = "a list of tables, each headed [[tasks]] in double brackets"
    hint = nearest(given, re.findall(r"'([^']*)'", allowed_text)) if isinstance(given, str) else ""
    return f"given {given!r}; allowed: {allowed_text}{hint}"


def _keys(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    for part in location:
        if isinstance(part, str) and part in kind.model_fields:
            kind = _model_in(kind.model_fields[part].annotation) or kind
    return [name for name in kind.model_fields if name != "narrowing"]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
