"""What a plan asks and what it will take, in lines and tables for a terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from pipeline import tasks
from pipeline.core.dates import skipped_leap_days
from pipeline.plan.cost import Rate, block_size, disk_bytes, kept_rates
from pipeline.plan.stage import Plan
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import PromptTokens, Run


def plan_line(run: Run) -> str:
    """What `run` asks, in one line."""
    counts = run.manifest().counts
    return (
        f"plan: {counts.prompts:,} prompts ({counts.models} models x {counts.items:,} "
        f"items x {counts.variants:,} variants, and the placebo), "
        f"{counts.prompt_tokens:,} prompt tokens -> {run.folder}"
    )


def task_table(plan: Plan) -> Table:
    """How many items each task has, beside the paper's numbers."""
    headings = ("task", "rows", "asked", "in the paper", "matches")
    table = Table(*headings, title="tasks", title_justify="left")
    table.columns[0].overflow = "fold"
    for benchmark in plan.benchmarks:
        task, num_items = benchmark.task, len(benchmark.items)
        paper = " or ".join(
            f"{n:,}" for n in (task.paper_items, task.paper_subset) if n is not None
        )
        if num_items == task.paper_items:
            match = "the paper's set"
        elif num_items == task.paper_subset:
            match = "the paper's likely subset"
        else:
            match = "neither: no range over dates to compare with the paper's"
        numbers = (f"{benchmark.num_rows:,}", f"{num_items:,}", paper)
        table.add_row(benchmark.name, *numbers, match if paper else "")
    return table


def plan_table(run: Run) -> Table:
    """What `run` asks, in numbers."""
    manifest = run.manifest()
    table = Table(title=f"plan of {manifest.sweep['name']}", show_header=False)
    for name, count in manifest.counts.in_words().items():
        table.add_row(name, count)
    table.add_row("fingerprint", manifest.fingerprint[:16])
    table.add_row("folder", str(run.folder))
    return table


def cost_table(run: Run, spec: SweepSpec, stated: Rate | None, num_gpus: int | None) -> Table:
    """What each model of `run` will take; time where a rate is stated or was measured here."""
    table = Table(
        title="what each model will take",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("model", overflow="fold", max_width=20)
    on_gpus = [f"on {num_gpus} GPUs"] if num_gpus else []
    for name in ("prompt", "floor", "computed", "cached", "output", "disk", "GPU-h", *on_gpus):
        table.add_column(name, justify="right", no_wrap=True)
    reports, num_rows = run.prompts(), run.manifest().counts.prompts_per_model
    rates = {m.name: stated for m in spec.models} if stated else kept_rates()
    size = block_size(spec)
    for model in spec.models:
        tokens = reports[model.name].tokens
        computed = tokens.blocks[size]
        table.add_row(
            model.name,
            *map(_short, (tokens.prompt, tokens.tree, computed)),
            f"{100 * (1 - computed / max(tokens.prompt, 1)):.0f}%",
            _short(tokens.output),
            f"{_short(disk_bytes(num_rows, tokens.output))}B",
            *_times(model, tokens, computed, rates.get(model.name), num_gpus),
        )
    table.caption = (
        "Tokens. floor: distinct prefixes, which no cache can save. computed: with a cache of "
        f"blocks of {size}. output: at most, if no answer ends early. {_origin(spec, rates)}"
    )
    return table


def _short(count: int) -> str:
    """A number of three digits or so, with a unit."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _times(
    model: ModelSpec, tokens: PromptTokens, computed: int, rate: Rate | None, num_gpus: int | None
) -> list[str]:
    """Hours of GPUs, and, where their number is given, hours until all is done."""
    if rate is None:
        return ["?"] * (2 if num_gpus else 1)
    hours = rate.seconds(computed, tokens.output) / 3600
    size = model.tensor_parallel_size
    times = [f"{hours * size:,.2f}"]
    if num_gpus:
        times.append(f"{hours / (num_gpus // size):,.2f} h" if num_gpus >= size else "too few")
    return times


def _origin(spec: SweepSpec, rates: dict[str, Rate]) -> str:
    """Where the rates are from."""
    known = {model.name: rates[model.name] for model in spec.models if model.name in rates}
    if not known:
        return "Time is unknown: give --rate, or run `datesweep bench engine --models MODEL` once."
    if measured := [f"{name} on {r.conditions}" for name, r in known.items() if r.conditions]:
        return f"Time as `datesweep bench engine` measured it here: {'; '.join(measured)}."
    rate = next(iter(known.values()))
    return (
        f"Time as stated, at {rate.prompt:,.0f} computed prompt and {rate.output:,.0f} output "
        "tokens per second of a replica."
    )


def plan_notes(run: Run, spec: SweepSpec) -> list[str]:
    """What a user should know of a plan: dates left out, axes without effect, dates not swept."""
    calendar, notes = spec.calendar, list[str]()
    if calendar.dates is None and (
        left_out := skipped_leap_days(calendar.first, calendar.last, calendar.leap_day)
    ):
        notes.append(
            f"{', '.join(map(str, left_out))} is left out, so that a year has 365 dates as in the "
            'paper; keep it with `leap_day = "keep"` under [calendar]'
        )
    without_options = [t.name for t in spec.tasks if not tasks.get(t.name, t.style).has_options]
    if len(spec.conditions.option_orders) > 1 and without_options:
        notes.append(
            f"{', '.join(without_options)}: no answer options to reorder, so every order asks the "
            "same prompts again"
        )
    dated_axes: dict[str, Sequence[object]] = {
        "placements": spec.conditions.placements,
        "formats": calendar.formats,
        "years": calendar.years or [],
    }
    idle = [axis for axis, values in dated_axes.items() if len(values) > 1]
    if idle and not calendar.days():
        notes.append(f"{', '.join(idle)}: no effect, as the sweep has no dates")
    if "template" in spec.conditions.placements and calendar.control:
        notes.append(
            "the control beside dates in the template's own slot is the prompt of paper mode, as "
            "such a template always writes a date"
        )
    for model, report in run.prompts().items():
        if report.template_dates:
            notes.append(
                f"{model}: its chat template also writes a date of its own, the same in every "
                f"prompt: {', '.join(report.template_dates)}"
            )
    return notes
