"""The `datesweep` command: options, and which stage or command gets them.

Everything heavy is imported inside the commands, so that `--help` is quick.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.core.errors import PipelineError

if TYPE_CHECKING:
    from pipeline.core.progress import Reporter
    from pipeline.settings import SweepSpec
    from pipeline.store import Run

ABOUT = """
Does a hidden detail of the prompt, today's date above all, change a model's benchmark score?

A [b]sweep[/b] file names models, tasks and dates. A [b]run[/b] is a folder with what came of it.
Try:

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


HELP = {
    "SWEEP": "A sweep file, or the name of one in configs/sweeps.",
    "RUN": "A run folder, e.g. runs/demo or s3://bucket/demo.",
    "RUN...": "Run folders of one sweep under several engine settings.",
    "RUN_A": "A scored run folder.",
    "RUN_B": "Another, of the same items and dates or some of them.",
    "KIND": "tasks, models, metrics, formats, conditions, sweeps, or all.",
    "[NAME...]": "compose, engine, prefix, score, which are the default; scale, programs.",
    "--out": "Run folder, a path or a URL like s3://bucket/run; runs/<sweep> by default.",
    "--limit": "At most this many items of each task.",
    "--dates": "Only these dates: 2024-01-05,2024-07-05, or 2024-01-01..2024-01-31, or a count to "
    "spread.",
    "--models": "Only these models, separated by commas: of the sweep, of configs/models, or .toml "
    "files.",
    "--tasks": "Only these tasks of the sweep, separated by commas: mmlu, or mmlu.cot for one "
    "style.",
    "--engine": "Other engine settings, e.g. max_num_seqs=4,name=batch-4 or dtype=float16; the run "
    "gets their name.",
    "--allow-code-execution": "Run programs that the model writes (HumanEval), confined.",
    "--address": "An existing Ray cluster, e.g. auto; by default one is started here.",
    "--check-gold": "Also prove that every right answer gets full marks.",
    "--rate": "Tokens per second of one replica, PROMPT or PROMPT,OUTPUT; by default as `bench "
    "engine` measured here.",
    "--gpus": "Also say how long so many GPUs take.",
    "--metrics": "Judge by these instead, separated by commas, e.g. accuracy,brier; each task "
    "takes those that fit it.",
    "--pair": "Set a model of RUN_A against one of RUN_B, as in llama=qwen; may be repeated.",
    "--task": "The task, or one style of it: mmlu, mmlu.five_shot.",
    "--item": "The item's id; the first item by default.",
    "--date": "A date like 2024-03-05, or `control`; the sweep's first date by default.",
    "--condition": "What else is varied, e.g. iso;placement=user_end; the sweep's first by "
    "default.",
    "--model": "The model; the sweep's first by default.",
    "--sweep": "The sweep whose model and tasks are timed.",
    "--share": "Do only this share of scale, programs, and the items of score.",
    "--ray/--no-ray": "Also start a local Ray session, which takes seconds.",
}


def _option(flag: str, text: str = "", **limits: Any) -> Any:
    return typer.Option(flag, help=text or HELP[flag], **limits)


def _argument(name: str) -> Any:
    return typer.Argument(metavar=name, help=HELP[name])


Sweep = Annotated[str, _argument("SWEEP")]
RunFolder = Annotated[str, _argument("RUN")]
Out = Annotated[str | None, _option("--out")]
Limit = Annotated[int | None, _option("--limit")]
Dates = Annotated[str | None, _option("--dates")]
Models = Annotated[str | None, _option("--models")]
Tasks = Annotated[str | None, _option("--tasks")]
Engine = Annotated[str | None, _option("--engine")]
Consent = Annotated[bool, _option("--allow-code-execution")]
Address = Annotated[str | None, _option("--address")]


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
    spec = _spec(
        sweep,
        limit=limit,
        dates=dates,
        models=models,
        tasks=tasks,
        engine=engine,
        allow_code_execution=allow_code_execution,
    )
    from pipeline.report import delta_table
    from pipeline.sweep import default_folder, run_sweep

    reporter = _reporter()
    finished = run_sweep(spec, out or default_folder(spec), reporter, address)
    _print(delta_table(finished.tables()))
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
    check_gold: Annotated[bool, _option("--check-gold")] = False,
    rate: Annotated[str | None, _option("--rate")] = None,
    gpus: Annotated[int | None, _option("--gpus", min=1)] = None,
) -> None:
    """Check every prompt of a sweep and write down what is to be asked.

    Needs no GPU and starts no engine.
    """
    spec = _spec(
        sweep,
        limit=limit,
        dates=dates,
        models=models,
        tasks=tasks,
        engine=engine,
        allow_code_execution=allow_code_execution,
    )
    from pipeline import plan as stage
    from pipeline.data import fetch
    from pipeline.store import Run
    from pipeline.sweep import default_folder

    reporter = _reporter()
    stated_rate = stage.stated_rate(rate) if rate else None
    fetch.check_present(spec, weights=False)
    folder = Run(out or default_folder(spec))
    with folder.locked():
        planned = stage.make_plan(folder, spec, reporter)
        if check_gold:
            stage.check_gold(planned, spec, reporter)
        _print(stage.task_table(planned))
        _print(stage.plan_table(folder))
        _print(stage.cost_table(folder, spec, stated_rate, gpus))
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
    metrics: Annotated[str | None, _option("--metrics")] = None,
    address: Address = None,
    allow_code_execution: Consent = False,
) -> None:
    """Score the completions of a run, each distinct output once.

    Given again, with other metrics or a newer extraction.
    """
    from pipeline import plan, score as stage

    with _opened(run_folder) as (folder, spec):
        # Consent is not stored in a run: whoever scores it here gives it here.
        spec = spec.model_copy(update={"allow_code_execution": allow_code_execution})
        plan.check_consent(spec, run_folder)
        if metrics:
            spec = plan.with_metrics(folder, spec, [name.strip() for name in metrics.split(",")])
        stage.score(folder, spec, _reporter(), address)


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
        _print(delta_table(folder.tables()))
        _reporter().say(f"report: {path}")


@app.command()
def status(run_folder: RunFolder) -> None:
    """Say what of a run is done and what is missing."""
    from pipeline.commands.status import status_table
    from pipeline.store import Run

    _print(status_table(Run.open(run_folder)))


@app.command()
def fetch(sweep: Sweep, models: Models = None, tasks: Tasks = None) -> None:
    """Download the models and data of a sweep once, for machines without network.

    Prints what is pinned.
    """
    spec = _spec(sweep, models=models, tasks=tasks)
    from pipeline.data import fetch as stage

    _print(stage.fetch(spec, _reporter()))


@app.command()
def join(
    runs: Annotated[list[str], _argument("RUN...")],
    out: Annotated[
        Path | None, _option("--out", "Also write the joined scores to this .parquet or .csv file.")
    ] = None,
) -> None:
    """Compare runs that differ in the engine only: batch size, precision, GPU."""
    from pipeline.commands.join import joined, table
    from pipeline.commands.out_file import check_out, write_out

    if out is not None:
        check_out(out)
    frame = joined(runs)
    _print(table(frame))
    if out is not None:
        write_out(frame, out)
        _reporter().say(f"joined: {out}")


@app.command()
def compare(
    run_a: Annotated[str, _argument("RUN_A")],
    run_b: Annotated[str, _argument("RUN_B")],
    pair: Annotated[list[str] | None, _option("--pair")] = None,
    out: Annotated[
        Path | None, _option("--out", "Also write all columns to this .parquet or .csv file.")
    ] = None,
) -> None:
    """Say what changes from one run to another: paired differences B - A with 95% intervals.

    Also outcomes that flip, and what has no partner. Two runs of one model may differ in anything:
    engine, checkpoint, prompts. Models are paired by name, or where each run has only one.
    """
    from pipeline.commands import compare as command
    from pipeline.commands.out_file import check_out, write_out

    if out is not None:
        check_out(out)
    comparison = command.compare(run_a, run_b, pair or [])
    _print(command.table_of(comparison))
    if out is not None:
        write_out(comparison.rows, out)
        _reporter().say(f"compared: {out}")


@app.command()
def show(
    sweep: Sweep,
    task: Annotated[str, _option("--task")],
    item: Annotated[str | None, _option("--item")] = None,
    date: Annotated[str | None, _option("--date")] = None,
    condition: Annotated[str | None, _option("--condition")] = None,
    model: Annotated[str | None, _option("--model")] = None,
) -> None:
    """Show the exact prompt of an item under a date.

    Its text, its token ids, and which of them hold the date.
    """
    spec = _spec(sweep, models=model, tasks=task)
    from pipeline.commands.show import show as prompt

    _print(prompt(spec, item, date, condition))


@app.command("list")
def list_names(kind: Annotated[str, typer.Argument(help=HELP["KIND"])] = "all") -> None:
    """List what there is to name in a sweep."""
    from pipeline.commands.list import tables

    _print(tables(kind))


@app.command()
def bench(
    names: Annotated[list[str] | None, _argument("[NAME...]")] = None,
    sweep: Annotated[str, _option("--sweep")] = "demo",
    share: Annotated[float, _option("--share", min=0.0001, max=1.0)] = 1.0,
    models: Models = None,
    engine: Engine = None,
) -> None:
    """Measure throughput and overhead on this machine.

    The last line is JSON with units in the keys.
    """
    spec = _spec(sweep, models=models, engine=engine, allow_code_execution=True)
    from pipeline import bench as benchmarks

    work = benchmarks.Bench(spec=spec, share=share, reporter=_reporter())
    benchmarks.main(names or ["compose", "engine", "prefix", "score"], work)


@app.command()
def doctor(
    out: Annotated[
        str, _option("--out", "Where runs are to go, a folder or a URL like s3://bucket/runs.")
    ] = "runs",
    ray: Annotated[bool, _option("--ray/--no-ray")] = True,
) -> None:
    """Say what this machine offers a run, what is wrong with it and how to mend it.

    Exit status 1 if something would stop a run.
    """
    from pipeline.commands.doctor import examine, is_fit, table_of

    with _reporter().waiting("looking at this machine"):
        findings = examine(out, with_ray=ray)
    _print(table_of(findings))
    if not is_fit(findings):
        raise typer.Exit(1)


def _spec(sweep: str, **options: Any) -> "SweepSpec":
    from pipeline.settings import Overrides, load_sweep, override

    return override(load_sweep(sweep), Overrides(**options))


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[tuple["Run", "SweepSpec"]]:
    from pipeline.plan import planned_spec
    from pipeline.store import Run

    opened = Run.open(folder)
    with opened.locked():
        yield opened, planned_spec(opened)


def _reporter() -> "Reporter":
    from pipeline.core.progress import Reporter

    return Reporter()


def _print(page: Any) -> None:
    from rich.console import Console

    Console(soft_wrap=False).print(page)


def main() -> None:
    """Run the command; an error meant for the user prints as one message, with exit status 2."""
    try:
        app()
    except PipelineError as error:
        typer.secho(f"datesweep: {error}", err=True, fg=typer.colors.RED)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        kept = "what is written is kept, and the same command goes on from there"
        typer.secho(f"\ndatesweep: stopped; {kept}", err=True)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
