"""Keep what libraries and native code say off the terminal, and keep it in a log."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def output_to(log: Path) -> Iterator[None]:
    """While inside, standard output and error go to the end of `log`, native code's included."""
    _flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    try:
        redirect_output(log)
        yield
    finally:
        _flush()
        for number, original in saved.items():
            os.dup2(original, number)
            os.close(original)


def redirect_output(log: Path) -> None:
    """Send standard output and error to the end of `log` for good: a worker has no terminal."""
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
