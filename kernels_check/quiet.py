"""Keep what libraries and native code say out of the way of the result, and keep it."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def output_to(log: Path) -> Iterator[None]:
    """While inside, everything this process writes to its standard output and error, native code included, goes to the end of `log`."""
    _flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for number in saved:
            os.dup2(target, number)
        yield
    finally:
        _flush()
        for number, original in saved.items():
            os.dup2(original, number)
            os.close(original)
        os.close(target)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
