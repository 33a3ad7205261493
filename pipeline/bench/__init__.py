"""Throughput and overhead on this machine: one file per benchmark, each found by its file name.

To add one, write `pipeline/bench/<name>.py` with

    ABOUT     what it measures, one sentence
    measure   function of a `Bench` that returns figures by name, with units in the names

Seeds are fixed, a warm-up comes first, and figures are medians. Everything goes to standard output;
the last line is JSON.
"""

import importlib.metadata
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from rich.console import Console
from rich.table import Table

from pipeline.core import cores, registry
from pipeline.core.progress import Reporter
from pipeline.engines import processor
from pipeline.settings import ModelSpec, SweepSpec

REPEATS = 3

Figures = dict[str, float | int | str]
Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a benchmark works with."""

    spec: SweepSpec
    """The sweep whose model and tasks are timed."""
    share: float
    """How much of the full size to do, for benchmarks that take long; above 0, at most 1."""
    reporter: Reporter

    @property
    def model(self) -> ModelSpec:
        """The sweep's first model."""
        return self.spec.models[0]


def main(names: list[str], bench: Bench) -> Figures:
    """The figures of the benchmarks `names`, also printed as a table and as JSON.

    Raises:
        ConfigError: there is no such benchmark.
    """
    modules = {name: registry.module("bench", name) for name in names}
    figures: Figures = {}
    for name, module in modules.items():
        bench.reporter.say(f"bench {name}: {module.ABOUT}")
        figures |= cast(Callable[[Bench], Figures], module.measure)(bench)
    figures |= _machine()
    table = Table(title=f"datesweep bench {' '.join(names)}", show_header=False)
    for name, value in figures.items():
        table.add_row(name, _shown(value))
    Console().print(table)
    print(json.dumps(figures))  # noqa: T201 - results go to standard output, and this line to other programs
    return figures


def _shown(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"


def _machine() -> Figures:
    """What the figures were measured on."""
    packages = ("datesweep", "polars", "ray", "transformers")
    return {
        "cpu_cores": cores.num_cores(),
        "processor": processor(),
        "load_average_at_end": os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
        **{name: importlib.metadata.version(name) for name in packages},
    }


def median_s(work: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of the clock and of CPU time, after a first time that warms up."""
    work()
    spans = []
    for _ in range(REPEATS):
        started, cpu_started = time.perf_counter(), time.process_time()
        work()
        spans.append((time.perf_counter() - started, time.process_time() - cpu_started))
    wall, cpu = zip(*spans, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def in_turn(
    number: int, ours: Callable[[], Ours], theirs: Callable[[], Theirs]
) -> tuple[Ours, Theirs]:
    """What both give; on even numbers ours goes first, on odd ones theirs.

    So a slow minute of the machine falls on both.
    """
    if number % 2:
        late = theirs()
        return ours(), late
    return ours(), theirs()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="datesweep-bench-") as folder:
        yield Path(folder)
