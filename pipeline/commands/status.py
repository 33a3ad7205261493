"""What of a run is done, what is missing, and what comes next."""

from rich.table import Table

from pipeline import score
from pipeline.core import registry
from pipeline.plan import planned_spec
from pipeline.store import Run


def status_table(run: Run) -> Table:
    """What of `run` is done: completions per model, scores, tables, report."""
    spec, sizes = planned_spec(run), run.shard_sizes()
    title = f"{run.folder}: {spec.title or spec.name}"
    table = Table("stage", "done", "next", title=title, title_justify="left")

    def add(stage: str, done: str, command: str, *, is_done: bool) -> None:
        table.add_row(stage, done, "" if is_done else f"datesweep {command} {run.folder}")

    total = sum(sizes.values())
    for model in spec.models:
        missing = run.missing_shards(model.name, list(sizes))
        completions = f"{total - sum(sizes[s] for s in missing):,} of {total:,} completions"
        add(f"generate {model.name}", completions, "generate", is_done=not missing)
    scored, chunks = score.progress(run, spec)
    done = f"{scored} of {chunks} chunks" if chunks else ""
    add("score", done, "score", is_done=0 < chunks == scored)
    for task, names in run.chosen_metrics().items():
        table.add_row("", f"{task} by {', '.join(names)}, as `score --metrics` chose", "")
    tables = sorted(run.tables())
    is_analysed = tables == registry.names("analyses")
    add("analyse", ", ".join(tables) or "nothing yet", "analyse", is_done=is_analysed)
    is_reported = run.report_path.is_file()
    done = str(run.report_path) if is_reported else "nothing yet"
    add("report", done, "report", is_done=is_reported)
    return table
