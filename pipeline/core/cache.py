"""The folder where fetched data and converted models are kept between runs."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from pipeline.core import locks


def folder() -> Path:
    """DATESWEEP_CACHE, else `datesweep` in the user's cache folder."""
    if given := os.environ.get("DATESWEEP_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "datesweep"


def filling(target: Path) -> AbstractContextManager[None]:
    """While inside, no other process fills `target`: whoever comes second waits, and finds it."""
    return locks.exclusive(target.with_name(f"{target.name}.lock"), wait=True)
