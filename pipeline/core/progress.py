"""One progress display for every stage: a live line on a terminal, a line now and then in a log."""

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LOG_EVERY_S = 15.0
"""Seconds between lines where the output is not a terminal."""


class Stage(Protocol):
    """The progress of one stage."""

    def update(self, done: int, detail: str = "") -> None:
        """`done` units of the total are finished; `detail` is shown beside the count."""
        ...


class Reporter:
    """Says what is going on, on the terminal or in a log."""

    def __init__(self, console: Console | None = None) -> None:
        # Standard error by default, so that standard output stays clean for results.
        self.console = console or Console(stderr=True)

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """While inside, show that something of unknown length is going on."""
        if not self.console.is_terminal:
            self.say(text)
            yield
            return
        with self.console.status(escape(text)):
            yield

    @contextlib.contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Stage]:
        """While inside, the progress of a stage of `total` units, with an ETA.

        Afterwards, one line that says how long it took.
        """
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            shown: _Live | _Log
            if self.console.is_terminal:
                shown = _Live(stack.enter_context(_progress(self.console)), name, total)
            else:
                shown = _Log(self, name, total, unit)
            yield shown
        took = f"{name}: {total:,} {unit} in {duration(time.monotonic() - started)}"
        self.say(_detailed(took, shown.detail))


def _detailed(text: str, detail: str) -> str:
    return f"{text}; {detail}" if detail else text


def duration(seconds: float) -> str:
    """A span of time as people write it: `8 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _progress(console: Console) -> Progress:
    # Made to fit 80 columns with counts in the millions.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=6),
        TextColumn("{task.fields[count]}"),
        TextColumn("ETA"),
        TimeRemainingColumn(compact=True),
        TextColumn("[dim]{task.fields[detail]}"),
        console=console,
        transient=True,
    )


class _Live:
    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self.progress, self.total, self.detail = progress, total, ""
        # The first word is enough beside the bar; the whole name stands in the line that stays.
        self.task = progress.add_task(name.split()[0], total=total, detail="", count="")

    def update(self, done: int, detail: str = "") -> None:
        self.detail = detail or self.detail
        count = f"{done:,}/{self.total:,}"
        self.progress.update(self.task, completed=done, detail=self.detail, count=count)


class _Log:
    def __init__(self, reporter: Reporter, name: str, total: int, unit: str) -> None:
        self.reporter, self.name, self.total, self.unit = reporter, name, total, unit
        self.detail = ""
        self.started = self.printed = time.monotonic()
        self.first: int | None = None

    def update(self, done: int, detail: str = "") -> None:
        self.detail = detail or self.detail
        self.first = done if self.first is None else self.first
        now = time.monotonic()
        if now - self.printed < LOG_EVERY_S or done >= self.total:
            return
        self.printed = now
        rate = (done - self.first) / (now - self.started)
        eta = f", ETA {duration((self.total - done) / rate)}" if rate > 0 else ""
        line = f"{self.name}: {done:,} of {self.total:,} {self.unit}{eta}"
        self.reporter.say(_detailed(line, self.detail))
