"""Throughput and overhead on this machine: one file per benchmark, each found by its file name.

To add one, write `pipeline/bench/<name>.py` with

    ABOUT     what it measures, one sentence
    measure   function of a `Bench` that returns figures by name, with units in the names

Seeds are fixed, a warm-up comes first, and figures are medians. Everything goes to standard output;
the last line is JSON.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from pipeline.core import cores, registry
from pipeline.core.progress import Reporter
from pipeline.engines import processor
from pipeline.settings import ModelSpec, SweepSpec

REPEATS = 3


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


Figures = dict[str, float | int | str]


def main(names: list[str], bench: Bench) -> Figures:
    """The figures of the benchmarks `names`, also printed as a table and, on the last line, as
    JSON.

    Raises:
        ConfigError: there is no such benchmark.
    """
    measures = {
        name: cast(Callable[[Bench], Figures], registry.module("bench", name).measure)
        for name in names
    }
    figures: Figures = {}
    for name, measure in measures.items():
        bench.reporter.say(f"bench {name}: {registry.module('bench', name).ABOUT}")
        figures |= measure(bench)
    figures |= machine()
    table = Table(title=f"datesweep bench {' '.join(names)}", show_header=False)
    for name, value in figures.items():
        table.add_row(
            name,
            f"{value:,.3f}"
            if isinstance(value, float)
            else f"{value:,}"
            if isinstance(value, int)
            else value,
        )
    Console().print(table)
    print(json.dumps(figures))  # noqa: T201 - results go to standard output, and this line to other programs
    return figures


def machine() -> Figures:
    """What the figures were measured on."""
    import importlib.metadata

    versions = {
        name: importlib.metadata.version(name)
        for name in ("datesweep", "polars", "ray", "transformers")
    }
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "cpu_cores": cores.num_cores(),
        "processor": processor(),
        "load_average_at_end": busy,
        **versions,
    }


def median(measure: Callable[[], float], repeats: int = REPEATS) -> float:
    """The median of `repeats` measurements, after one that warms up."""
    measure()
    return statistics.median(measure() for _ in range(repeats))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="datesweep-bench-") as folder:
        yield Path(folder)
