"""Stage 3: completions and scores become tables, one for each question."""

from collections.abc import Callable
from typing import cast

import polars as pl

from pipeline.analyses._evidence import Evidence, evidence
from pipeline.core import registry
from pipeline.core.progress import Reporter
from pipeline.settings import SweepSpec
from pipeline.store import Run


def analyse(run: Run, spec: SweepSpec, reporter: Reporter) -> None:
    """Write every analysis table of `run`.

    Raises:
        StoreError: generation or scoring is not complete.
    """
    run.check_generated([model.name for model in spec.models])
    with reporter.waiting("analysing"):
        measured = evidence(
            run.completions(), run.scores(), run.plan_table("variants"), run.plan_table("items")
        )
        names = registry.names("analyses")
        for name in names:
            run.write_table(name, get(name)(measured))
    reporter.say(f"analyse: {len(names)} tables in {run.folder / 'tables'}")


def get(name: str) -> Callable[[Evidence], pl.DataFrame]:
    """The `table` function of the analysis `name`.

    Raises:
        ConfigError: there is no such analysis.
    """
    return cast(Callable[[Evidence], pl.DataFrame], registry.module("analyses", name).table)
