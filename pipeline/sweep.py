"""The whole program on one page: plan, generate, score, analyse, report.

Each stage reads one part of a run folder and writes another, and can be run alone, again, or on
another machine. This is the only place that strings them together.
"""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pipeline import analyses, generate, plan, report, score
from pipeline.core.progress import Reporter
from pipeline.data import fetch
from pipeline.settings import SweepSpec
from pipeline.store import Place, Run


def default_folder(spec: SweepSpec) -> Path:
    """`runs/<sweep>`; narrowed sweeps and named engine settings have folders of their own."""
    name = spec.name if spec.engine.name == "default" else f"{spec.name}-{spec.engine.name}"
    if not spec.narrowing:
        return Path("runs") / name
    suffix = hashlib.sha256(repr(sorted(spec.narrowing.items())).encode()).hexdigest()[:6]
    return Path("runs") / f"{name}-narrowed-{suffix}"


def run_sweep(
    spec: SweepSpec,
    folder: str | Place,
    reporter: Reporter,
    address: str | None = None,
    *,
    around: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Run:
    """The run in `folder`, with everything that `spec` asks: what is there is not made again.

    Args:
        spec: the settings, with consent where scoring runs programs.
        folder: a path or a URL; `default_folder` names the usual one.
        reporter: gets lines and progress for people.
        address: an existing Ray cluster; by default one is started here.
        around: called with each stage's name; the stage runs inside what it returns.

    Raises:
        PipelineError: something the user can mend; what is written is kept.
    """
    fetch.check_present(spec)  # models and data; what is missing is told before work begins
    run = Run(folder)
    with run.locked():
        with around("plan"):
            plan.make_plan(run, spec, reporter)
        reporter.say(plan.plan_line(run))
        # Metrics that `score --metrics` chose for this run outlive its planning again.
        spec = plan.as_scored(run, spec)
        with around("generate"):
            generate.generate(run, spec, reporter, address)
        with around("score"):
            score.score(run, spec, reporter, address)
        with around("analyse"):
            analyses.analyse(run, spec, reporter)
        with around("report"):
            report.write_report(run, spec)
    return run
