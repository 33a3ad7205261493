"""What of a run is done, what is missing, and what comes next."""

from rich.table import Table

from pipeline import score
from pipeline.core import registry
from pipeline.plan import planned_spec
from pipeline.store import Run


def status_table(run: Run) -> Table:
    """What of `run` is done: completions per model, scores, tables, report."""
    spec, rows = planned_spec(run), run.shard_sizes()
    table = Table(
        "stage",
        "done",
        "next",
        title=f"{run.folder}: {spec.title or spec.name}",
        title_justify="left",
    )
    for model in spec.models:
        left = run.missing_shards(model.name, list(rows))
        missing = sum(rows[s] for s in left)
        text = f"{sum(rows.values()) - missing:,} of {sum(rows.values()):,} completions"
        table.add_row(
            f"generate {model.name}", text, f"datesweep generate {run.folder}" if left else ""
        )
    scored, chunks = score.progress(run, spec)
    table.add_row(
        "score",
        f"{scored} of {chunks} chunks" if chunks else "",
        "" if chunks and scored == chunks else f"datesweep score {run.folder}",
    )
    tables, names = sorted(run.tables()), registry.names("analyses")
    table.add_row(
        "analyse",
        ", ".join(tables) or "nothing yet",
        "" if tables == names else f"datesweep analyse {run.folder}",
    )
    page = run.report_path
    table.add_row(
        "report",
        str(page) if page.is_file() else "nothing yet",
        "" if page.is_file() else f"datesweep report {run.folder}",
    )
    return table
