"""Keep what libraries and native code say off the terminal, and keep it in a log."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def output_to(log: Path) -> Iterator[None]:
    """While inside, everything this process writes to its standard output and error, native code
    included, goes to the end of `log`.
    """
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


def redirect_output(log: Path) -> None:
    """Send everything this process writes from now on to the end of `log`: for a worker that has no
    terminal.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


def tail(log: Path, num_lines: int = 15) -> str:
    """The last lines of `log`, for an error message; empty when there is none."""
    if not log.is_file():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-num_lines:])


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
