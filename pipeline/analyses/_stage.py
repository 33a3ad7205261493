"""Stage 4: completions and scores become tables, one for each question."""

from typing import Protocol, cast

import polars as pl

from pipeline.analyses._evidence import Evidence, evidence_of_run
from pipeline.core import registry
from pipeline.core.progress import Reporter
from pipeline.settings import SweepSpec
from pipeline.store import Run


class Analysis(Protocol):
    """What each file of this room offers."""

    SCHEMA: pl.Schema

    @staticmethod
    def table(evidence: Evidence) -> pl.DataFrame:
        """The answer, with the columns `SCHEMA`."""


def get(name: str) -> Analysis:
    """The analysis `name`.

    Raises:
        ConfigError: there is no such analysis.
    """
    return cast(Analysis, registry.module("analyses", name))


def analyse(run: Run, spec: SweepSpec, reporter: Reporter) -> None:
    """Write every analysis table of `run`.

    Raises:
        StoreError: generation or scoring is not complete.
    """
    run.check_generated([model.name for model in spec.models])
    with reporter.waiting("analysing"):
        evidence = evidence_of_run(run)
        names = registry.names("analyses")
        for name in names:
            analysis = get(name)
            run.write_table(name, analysis.table(evidence).match_to_schema(analysis.SCHEMA))
    reporter.say(f"analyse: {len(names)} tables in {run.folder / 'tables'}")
