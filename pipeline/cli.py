"""The `datesweep` command.

It parses options and calls stages; everything heavy is imported inside the commands, so `--help` is
quick.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.core.errors import ConfigError, PipelineError

if TYPE_CHECKING:
    from pipeline.core.progress import Reporter
    from pipeline.settings import SweepSpec
    from pipeline.store import Run

ABOUT = """
Does a hidden detail of the prompt, today's date above all, change a model's benchmark score?

A [b]sweep[/b] file names models, tasks and dates. A [b]run[/b] is a folder with what came of it. Try:

  datesweep run configs/sweeps/demo.toml       plan, generate, score, analyse, report

  datesweep run full-year-cpu --limit 2        the same for a named sweep, narrowed

  datesweep status runs/demo                   what is done and what is missing

A killed run goes on where it stopped when the same command is given again.
"""

app = typer.Typer(
    name="datesweep",
    help=ABOUT,
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Sweep = Annotated[
    str, typer.Argument(metavar="SWEEP", help="A sweep file, or the name of one in configs/sweeps.")
]
RunFolder = Annotated[
    str, typer.Argument(metavar="RUN", help="A run folder, e.g. runs/demo or s3://bucket/demo.")
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out", help="Run folder, a path or a URL like s3://bucket/run; runs/<sweep> by default."
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", help="At most this many items of each task.")]
Dates = Annotated[
    str | None,
    typer.Option(
        "--dates",
        help="Only these dates: 2024-01-05,2024-07-05, or 2024-01-01..2024-01-31, or a count to "
        "spread.",
    ),
]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        help="Only these models, separated by commas: of the sweep, of configs/models, or .toml "
        "files.",
    ),
]
Tasks = Annotated[
    str | None,
    typer.Option(
        "--tasks",
        help="Only these tasks of the sweep, separated by commas: mmlu, or mmlu.cot for one style.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Other engine settings, e.g. max_num_seqs=4,name=batch-4 or dtype=float16; the run "
        "gets their name.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        help="Judge by these instead, separated by commas, e.g. accuracy,brier; each task takes "
        "those that fit it.",
    ),
]
Consent = Annotated[
    bool,
    typer.Option(
        "--allow-code-execution", help="Run programs that the model writes (HumanEval), confined."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", help="An existing Ray cluster, e.g. auto; by default one is started here."
    ),
]


@app.command()
def run(
    sweep: Sweep,
    out: Out = None,
    limit: Limit = None,
    dates: Dates = None,
    models: Models = None,
    tasks: Tasks = None,
    engine: Engine = None,
    allow_code_execution: Consent = False,
    address: Address = None,
) -> None:
    """Do everything: plan, generate, score, analyse, report.

    Given again, it goes on where it stopped.
    """
    spec = _spec(sweep, limit, dates, models, tasks, engine, allow_code_execution)
    from pipeline.report import delta_table
    from pipeline.sweep import default_folder, run_sweep

    reporter = _reporter()
    finished = run_sweep(spec, out or default_folder(spec), reporter, address)
    _console().print(delta_table(finished.tables()))
    reporter.say(f"report: {finished.report_path}")


@app.command()
def plan(
    sweep: Sweep,
    out: Out = None,
    limit: Limit = None,
    dates: Dates = None,
    models: Models = None,
    tasks: Tasks = None,
    engine: Engine = None,
    allow_code_execution: Consent = False,
    check_gold: Annotated[
        bool,
        typer.Option("--check-gold", help="Also prove that every right answer gets full marks."),
    ] = False,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            help="Tokens per second of one replica, PROMPT or PROMPT,OUTPUT; by default as "
            "`bench engine` measured here.",
        ),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, help="Also say how long so many GPUs take.")
    ] = None,
) -> None:
    """Check every prompt of a sweep and write down what is to be asked.

    Needs no GPU and starts no engine.
    """
    spec = _spec(sweep, limit, dates, models, tasks, engine, allow_code_execution)
    from pipeline import plan as stage
    from pipeline.data import fetch
    from pipeline.plan import cost
    from pipeline.sweep import default_folder

    reporter, stated = _reporter(), cost.stated_rate(rate) if rate else None
    fetch.check_present(spec, weights=False)
    with _locked(out or default_folder(spec)) as folder:
        planned = stage.make_plan(folder, spec, reporter)
        if check_gold:
            stage.check_gold(planned, spec, reporter)
        _console().print(stage.task_table(planned))
        _console().print(stage.plan_table(folder))
        _console().print(cost.table(folder, spec, stated, gpus))
        for note in stage.plan_notes(folder, spec):
            reporter.say(note)
        reporter.say(f"next: datesweep generate {folder.folder}")


@app.command()
def generate(run_folder: RunFolder, address: Address = None) -> None:
    """Make the completions of a planned run that are not there yet."""
    from pipeline import generate as stage
    from pipeline.data import fetch

    with _opened(run_folder) as (folder, spec):
        fetch.check_present(spec, data=False)
        stage.generate(folder, spec, _reporter(), address)


@app.command()
def score(
    run_folder: RunFolder,
    metrics: Metrics = None,
    address: Address = None,
    allow_code_execution: Consent = False,
) -> None:
    """Score the completions of a run, each distinct output once.

    Given again, with other metrics or a newer extraction.
    """
    from pipeline import plan, score as stage

    with _opened(run_folder) as (folder, spec):
        # Consent is not stored in a run: whoever scores it here gives it here.
        _check_consent(run_folder, spec, allow_code_execution)
        if metrics:
            spec = plan.with_metrics(folder, spec, [name.strip() for name in metrics.split(",")])
        stage.score(
            folder,
            spec.model_copy(update={"allow_code_execution": allow_code_execution}),
            _reporter(),
            address,
        )


@app.command()
def analyse(run_folder: RunFolder) -> None:
    """Turn scores into tables: by date, deltas, flips, noise floor."""
    from pipeline import analyses

    with _opened(run_folder) as (folder, spec):
        analyses.analyse(folder, spec, _reporter())


@app.command()
def report(run_folder: RunFolder) -> None:
    """Write report.html from the tables of a run, and print the table of deltas."""
    from pipeline.report import delta_table, write_report

    with _opened(run_folder) as (folder, spec):
        path = write_report(folder, spec)
        _console().print(delta_table(folder.tables()))
        _reporter().say(f"report: {path}")


@app.command()
def status(run_folder: RunFolder) -> None:
    """Say what of a run is done and what is missing."""
    from pipeline.commands.status import status_table

    _console().print(status_table(_open(run_folder)))


@app.command()
def fetch(sweep: Sweep, models: Models = None, tasks: Tasks = None) -> None:
    """Download the models and data of a sweep once, for machines without network, and print what is
    pinned.
    """
    spec = _spec(sweep, None, None, models, tasks, None, True)
    from pipeline.data import fetch as stage

    _console().print(stage.fetch(spec, _reporter()))


@app.command()
def join(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Run folders of one sweep under several engine settings."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Also write the joined scores to this .parquet or .csv file."),
    ] = None,
) -> None:
    """Compare runs that differ in the engine only: batch size, precision, GPU."""
    from pipeline.commands import join as joined

    if out is not None:
        joined.check_out(out)
    frame = joined.joined(runs)
    _console().print(joined.table(frame))
    if out is not None:
        joined.write(frame, out)
        _reporter().say(f"joined: {out}")


@app.command()
def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="A scored run folder.")],
    run_b: Annotated[
        str,
        typer.Argument(
            metavar="RUN_B", help="Another, of the same items and dates or some of them."
        ),
    ],
    pair: Annotated[
        list[str] | None,
        typer.Option(
            "--pair",
            help="Set a model of RUN_A against one of RUN_B, as in llama=qwen; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Also write all columns to this .parquet or .csv file."),
    ] = None,
) -> None:
    """Say what changes from one run to another: paired differences B - A with 95% intervals,
    outcomes that flip, what has no partner.

    Two runs of one model may differ in anything: engine, checkpoint, prompts. Models are paired by
    name, or where each run has only one.
    """
    from pipeline.commands import compare as compared, join as joined

    if out is not None:
        joined.check_out(out)
    found = compared.compare(run_a, run_b, pair or [])
    _console().print(compared.table_of(found))
    if out is not None:
        joined.write(found.rows, out)
        _reporter().say(f"compared: {out}")


@app.command()
def show(
    sweep: Sweep,
    task: Annotated[
        str, typer.Option("--task", help="The task, or one style of it: mmlu, mmlu.five_shot.")
    ],
    item: Annotated[
        str | None, typer.Option("--item", help="The item's id; the first item by default.")
    ] = None,
    date: Annotated[
        str | None,
        typer.Option(
            "--date",
            help="A date like 2024-03-05, or `control`; the sweep's first date by default.",
        ),
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option(
            "--condition",
            help="What else is varied, e.g. iso;placement=user_end; the sweep's first by default.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The model; the sweep's first by default.")
    ] = None,
) -> None:
    """Show the exact prompt of an item under a date: its text, its token ids, and which of them
    hold the date.
    """
    spec = _spec(sweep, None, None, model, task, None, True)
    from pipeline.commands import show as inspect

    _console().print(inspect.show(spec, item, date, condition))


@app.command("list")
def list_names(
    kind: Annotated[
        str, typer.Argument(help="tasks, models, metrics, formats, conditions, sweeps, or all.")
    ] = "all",
) -> None:
    """List what there is to name in a sweep."""
    from pipeline.commands import show as inspect

    _console().print(inspect.listing(kind))


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]",
            help="compose, engine, prefix, score, which are the default; scale, programs.",
        ),
    ] = None,
    sweep: Annotated[
        str, typer.Option("--sweep", help="The sweep whose model and tasks are timed.")
    ] = "demo",
    share: Annotated[
        float,
        typer.Option(
            "--share",
            min=0.0001,
            max=1.0,
            help="Do only this share of scale, programs, and the items of score; below 1, "
            "engine tries no other settings.",
        ),
    ] = 1.0,
    models: Models = None,
    engine: Engine = None,
) -> None:
    """Measure throughput and overhead on this machine.

    The last line is JSON with units in the keys.
    """
    spec = _spec(sweep, None, None, models, None, engine, True)
    from pipeline import bench as benchmarks

    work = benchmarks.Bench(spec=spec, share=share, reporter=_reporter())
    benchmarks.main(names or ["compose", "engine", "prefix", "score"], work)


@app.command()
def doctor(
    out: Annotated[
        str,
        typer.Option(
            "--out", help="Where runs are to go, a folder or a URL like s3://bucket/runs."
        ),
    ] = "runs",
    ray: Annotated[
        bool,
        typer.Option("--ray/--no-ray", help="Also start a local Ray session, which takes seconds."),
    ] = True,
) -> None:
    """Say what this machine offers a run, what is wrong with it and how to mend it.

    Exit status 1 if something would stop a run.
    """
    from pipeline.commands import doctor as checks

    with _reporter().waiting("looking at this machine"):
        found = checks.examine(out, with_ray=ray)
    _console().print(checks.table_of(found))
    if not checks.is_fit(found):
        raise typer.Exit(1)


def _spec(
    sweep: str,
    limit: int | None,
    dates: str | None,
    models: str | None,
    tasks: str | None,
    engine: str | None,
    allow_code_execution: bool,
) -> "SweepSpec":
    from pipeline import settings

    spec = settings.set_engine(settings.load_sweep(sweep), engine)
    spec = settings.narrow(spec, limit=limit, days=dates, models=models, tasks=tasks)
    return spec.model_copy(
        update={"allow_code_execution": spec.allow_code_execution or allow_code_execution}
    )


def _check_consent(run_folder: str, spec: "SweepSpec", given: bool) -> None:
    """Refuse to score programs without consent, naming the one way to give it for a run that is
    there.
    """
    from pipeline import tasks

    running = [t.name for t in spec.tasks if tasks.get(t.name, t.style).executes_code]
    if running and not given:
        raise ConfigError(
            f"{run_folder}: task {', '.join(running)} runs programs that the model wrote, "
            "and consent is not kept in a run; give it with "
            f"`datesweep score {run_folder} --allow-code-execution` (pipeline/sandbox.py "
            "says how they are confined)"
        )


@contextlib.contextmanager
def _locked(folder: "str | Path") -> Iterator["Run"]:
    from pipeline.store import Run

    opened = Run(folder)
    with opened.locked():
        yield opened


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[tuple["Run", "SweepSpec"]]:
    from pipeline.plan import planned_spec

    opened = _open(folder)
    with opened.locked():
        yield opened, planned_spec(opened)


def _open(folder: str) -> "Run":
    from pipeline.store import Run

    return Run.open(folder)


def _reporter() -> "Reporter":
    from pipeline.core.progress import Reporter

    return Reporter()


def _console() -> Any:
    from rich.console import Console

    return Console(soft_wrap=False)


def main() -> None:
    """Run the command; an error meant for the user prints as one message and exits with its status,
    2.
    """
    try:
        app()
    except PipelineError as error:
        typer.secho(f"datesweep: {error}", err=True, fg=typer.colors.RED)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        typer.secho(
            "\ndatesweep: stopped; what is written is kept, and the same command goes on "
            "from there",
            err=True,
        )
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
