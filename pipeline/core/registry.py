"""Plug-ins: every module of a package that defines one object of a kind, named after its file.

Names come from the file list alone, so settings can be checked without importing a task's or
metric's dependencies.
"""

import importlib
from pathlib import Path
from types import ModuleType

from pipeline.core.errors import ConfigError, nearest


def names(package: str) -> list[str]:
    """Sorted names of the plug-ins in `pipeline/<package>`, without importing any."""
    folder = Path(__file__).parents[1] / package
    return sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))


def module(package: str, name: str) -> ModuleType:
    """The module `pipeline.<package>.<name>`.

    Raises:
        ConfigError: no such plug-in; the message lists what exists.
    """
    known = names(package)
    if name not in known:
        hint = nearest(name, known)
        raise ConfigError(
            f"no entry {name!r} in pipeline/{package}{hint}; there are: {', '.join(known)}"
        )
    return importlib.import_module(f"pipeline.{package}.{name}")
