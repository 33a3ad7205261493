"""Runs to generate, and what was said about it."""

from pathlib import Path

from pipeline.core.progress import Reporter
from pipeline.plan import make_plan
from pipeline.settings import SweepSpec
from pipeline.store import Run


class Said(Reporter):
    """What was reported, kept."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def lines_with(self, part: str) -> list[str]:
        return [line for line in self.lines if part in line]


def a_longer_sweep(spec: SweepSpec, *, replicas: int | str) -> SweepSpec:
    """Enough shards for something to happen between the first and the last."""
    update = {
        "calendar": spec.calendar.model_copy(update={"step": 4}),
        "engine": spec.engine.model_copy(update={"replicas": replicas}),
    }
    return spec.model_copy(update=update)


def planned(spec: SweepSpec, folder: Path) -> Run:
    run = Run(folder)
    make_plan(run, spec, Reporter())
    return run
