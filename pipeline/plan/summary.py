"""What a plan asks, in lines and tables for a terminal."""

from rich.table import Table

from pipeline import tasks
from pipeline.core.dates import skipped_leap_days
from pipeline.plan.stage import Plan
from pipeline.settings import SweepSpec
from pipeline.store import Run


def plan_line(run: Run) -> str:
    """What `run` asks, in one line."""
    counts = run.manifest()["counts"]
    asked = (
        f"{counts['models']} models x {counts['items']:,} items x {counts['variants']:,} "
        "variants, and the placebo"
    )
    return (
        f"plan: {counts['prompts']:,} prompts ({asked}), {counts['prompt_tokens']:,} prompt "
        f"tokens -> {run.folder}"
    )


def task_table(planned: Plan) -> Table:
    """How many items each task has, beside the paper's numbers."""
    table = Table(
        "task", "rows", "asked", "in the paper", "matches", title="tasks", title_justify="left"
    )
    for benchmark in planned.benchmarks:
        task, count = benchmark.task, len(benchmark.items)
        sizes = {
            "the paper's set": task.paper_items,
            "the paper's likely subset": task.paper_subset,
        }
        matches = next(
            (name for name, size in sizes.items() if size == count),
            "neither: no range over dates to compare with the paper's",
        )
        paper = " or ".join(f"{size:,}" for size in sizes.values() if size is not None)
        table.add_row(
            benchmark.name, f"{benchmark.num_rows:,}", f"{count:,}", paper, matches if paper else ""
        )
    table.columns[0].overflow = "fold"
    return table


def plan_table(run: Run) -> Table:
    """What `run` asks, in numbers."""
    manifest = run.manifest()
    table = Table(title=f"plan of {manifest['sweep']['name']}", show_header=False)
    for name, value in manifest["counts"].items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    table.add_row("fingerprint", manifest["fingerprint"][:16])
    table.add_row("folder", str(run.folder))
    return table


def plan_notes(run: Run, spec: SweepSpec) -> list[str]:
    """What a user should know of a plan: a February 29 that was left out, dates that a chat
    template writes by itself.
    """
    calendar, notes = spec.calendar, []
    if calendar.dates is None and (
        left_out := skipped_leap_days(calendar.first, calendar.last, calendar.leap_day)
    ):
        days = ", ".join(map(str, left_out))
        notes.append(
            f"{days} is left out, so that a year has 365 dates as in the paper; keep it "
            'with `leap_day = "keep"` under [calendar]'
        )
    if len(spec.conditions.option_orders) > 1 and (
        without := [t.name for t in spec.tasks if not tasks.get(t.name, t.style).has_options]
    ):
        notes.append(
            f"{', '.join(without)}: no answer options to reorder, so every order asks the "
            "same prompts again"
        )
    without_date = (
        [axis for axis, count in _dated_axes(spec).items() if count > 1]
        if not calendar.days()
        else []
    )
    if without_date:
        notes.append(f"{', '.join(without_date)}: no effect, as the sweep has no dates")
    if "template" in spec.conditions.placements and calendar.control:
        notes.append(
            "the control beside dates in the template's own slot is the prompt of paper "
            "mode, as such a template always writes a date"
        )
    for name, report in run.prompts().items():
        if own := report.template_dates:
            notes.append(
                f"{name}: its chat template also writes a date of its own, the same in "
                f"every prompt: {', '.join(own)}"
            )
    return notes


def _dated_axes(spec: SweepSpec) -> dict[str, int]:
    """Axes that only dates have, and how many values the sweep gives them."""
    return {
        "placements": len(spec.conditions.placements),
        "formats": len(spec.calendar.formats),
        "years": len(spec.calendar.years or []),
    }
