"""The folder where fetched data and converted models are kept between runs, and the lock under
which it is filled.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def folder() -> Path:
    """DATESWEEP_CACHE, else `datesweep` in the user's cache folder."""
    if given := os.environ.get("DATESWEEP_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "datesweep"


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """While inside, no other process fills `target`; its folder is made first.

    Whoever comes second waits, and then finds the target. The lock falls with its process, however
    that ends.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
