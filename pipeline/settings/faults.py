"""Everything that is wrong with settings, in the words of a settings file."""

import re
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from pipeline.core.errors import ConfigError, nearest
from pipeline.settings.schema import Spec

Valid = TypeVar("Valid", bound=Spec)

_ALLOWED = {
    "greater_than_equal": "a number from {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number up to {le}",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "string_pattern_mismatch": "letters, digits, dots, dashes and underscores, since it becomes "
    "part of a path",
    "list_type": "a list in brackets",
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
    "too_short": "at least {min_length} entry",
}
"""What pydantic's error types mean in the words of a settings file."""
_UNION_MEMBERS = ("int", "bool", "str", "float", "literal['auto']", "constrained-int")
"""Parts of pydantic's locations (`step.int`) that are no keys of a settings file."""


class Faults:
    """The faults, in the order of the files."""

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


def validate(kind: type[Valid], raw: dict[str, Any], path: Path, faults: Faults) -> Valid | None:
    """Settings of `kind`, or None after adding what is wrong with those of `path` to `faults`."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        explained: dict[str, list[str]] = {}
        for fault in error.errors(include_url=False):
            key = ".".join(str(part) for part in fault["loc"] if part not in _UNION_MEMBERS)
            explained.setdefault(key, []).append(_explain(kind, dict(fault)))
        for key, texts in explained.items():
            # A value that may be a number or "auto" fails once for each; to the reader it is one.
            others = [text.split("allowed: ")[-1] for text in texts[1:]]
            faults.add(path, key, " or ".join([texts[0], *others]))
        return None


def checked(kind: type[Valid], raw: dict[str, Any], origin: str) -> Valid:
    """Settings of `kind` from options of the command line, which `origin` names.

    Raises:
        ConfigError: lists every fault.
    """
    faults = Faults()
    spec = validate(kind, raw, Path(origin), faults)
    faults.raise_if_any()
    return cast(Valid, spec)


def _explain(kind: type[Spec], fault: dict[str, Any]) -> str:
    given, error, context = fault["input"], fault["type"], fault.get("ctx", {})
    is_tasks = fault["loc"] == ("tasks",)
    if error == "extra_forbidden":
        keys = _keys(kind, fault["loc"][:-1])
        hint = nearest(str(fault["loc"][-1]), keys)
        return f"unknown key, given {given!r}; allowed here: {', '.join(keys)}{hint}"
    if error == "missing":
        tables = ", as one table headed [[tasks]] for each task" if is_tasks else ""
        return f"missing; it must be given{tables}"
    if error == "value_error":
        return f"given {given!r}: {context['error']}"
    allowed = _ALLOWED.get(error, fault["msg"]).format(**context)
    if error == "list_type" and is_tasks:
        allowed = "a list of tables, each headed [[tasks]] in double brackets"
    hint = nearest(given, re.findall(r"'([^']*)'", allowed)) if isinstance(given, str) else ""
    return f"given {given!r}; allowed: {allowed}{hint}"


def _keys(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    for part in location:
        if isinstance(part, str) and part in kind.model_fields:
            kind = _model_in(kind.model_fields[part].annotation) or kind
    return [name for name in kind.model_fields if name != "narrowing"]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for arg in get_args(annotation) if (model := _model_in(arg))), None)
