"""The stages of a sweep in a line: plan, generate, score, analyse, report.

Each can be run alone, again, or on another machine.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from pipeline import analyses, report, score, tasks
from pipeline.core import registry
from pipeline.core.dates import skipped_leap_days
from pipeline.core.errors import StoreError
from pipeline.core.progress import Reporter, duration
from pipeline.plan import Plan, benchmarks, checks, cost, stage as plan
from pipeline.report import Provenance
from pipeline.settings import SweepSpec
from pipeline.store import Place, Run, write_json


def default_folder(spec: SweepSpec) -> Path:
    """`runs/<sweep>`; a narrowed sweep, or one with an engine setting of its own, gets a folder of
    its own.
    """
    name = spec.name if spec.engine.name == "default" else f"{spec.name}-{spec.engine.name}"
    if not spec.narrowing:
        return Path("runs") / name
    suffix = hashlib.sha256(repr(sorted(spec.narrowing.items())).encode()).hexdigest()[:6]
    return Path("runs") / f"{name}-narrowed-{suffix}"


def make_plan(run: Run, spec: SweepSpec, reporter: Reporter) -> Plan:
    """The plan of `run`, written unless it was planned before with exactly these settings.

    Raises:
        StoreError: the folder holds a run of other settings.
    """
    with reporter.waiting("reading tasks and models"):
        gathered = plan.gather(spec, reporter.say)
    if run.claim(gathered.settings):
        # Titles, replicas, paths and the like may have changed; the stages that come later read
        # them from here.
        write_json({**run.manifest(), "sweep": plan.stored(spec)}, run.manifest_path)
    else:
        with reporter.waiting("checking that every prompt carries its date"):
            plan.write(run, spec, gathered, reporter.say)
    return gathered


def check_gold(planned: Plan, spec: SweepSpec, reporter: Reporter) -> None:
    """Prove, for every task, that the right answer of every item gets full marks through the real
    extraction and metrics.

    Raises:
        DataError: one does not; names the item and what was read out of its right answer.
    """
    for benchmark in planned.benchmarks:
        orders = spec.conditions.option_orders
        with reporter.waiting(
            f"scoring the {len(benchmark.items):,} right answers of {benchmark.name}"
        ):
            scores = checks.check_gold(benchmark, orders)
        found = ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
        reporter.say(
            f"gold {benchmark.name}: {found} on {len(benchmark.items):,} right answers"
            + f" in {len(orders)} orders" * (len(orders) > 1)
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
    for name, found in run.prompts().items():
        if own := found["template_dates"]:
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


def spec_of(run: Run) -> SweepSpec:
    """The settings with which `run` was planned, and the metrics that were chosen for it since."""
    return as_judged(run, SweepSpec.model_validate_json(json.dumps(run.manifest()["sweep"])))


def with_metrics(run: Run, spec: SweepSpec, names: list[str]) -> SweepSpec:
    """`spec` with each task judged by those of the metrics `names` that fit it.

    `run` keeps them, also when it is planned again.

    Raises:
        ConfigError: a metric is unknown or fits no task, or none fits some task.
    """
    chosen = {
        f"{task.name}.{task.style}": task.metrics
        for task in benchmarks.chosen_metrics(spec.tasks, names)
    }
    write_json({**run.manifest(), "metrics": chosen}, run.manifest_path)
    return as_judged(run, spec)


def as_judged(run: Run, spec: SweepSpec) -> SweepSpec:
    """`spec` with the metrics that `score --metrics` chose for `run`, if it did."""
    chosen = run.manifest().get("metrics", {})
    changed = [
        task.model_copy(update={"metrics": chosen.get(f"{task.name}.{task.style}", task.metrics)})
        for task in spec.tasks
    ]
    return spec.model_copy(update={"tasks": changed})


def analyse(run: Run, spec: SweepSpec, reporter: Reporter) -> None:
    """Write every analysis table of `run`.

    Raises:
        StoreError: generation or scoring is not complete.
    """
    score.check_generated(run, spec)
    with reporter.waiting("analysing"):
        evidence = analyses.evidence(
            run.completions(),
            run.scores(),
            run.plan_table("variants"),
            run.plan_table("items"),
            run.sums(),
        )
        names = registry.names("analyses")
        for name in names:
            run.write_table(name, analyses.get(name)(evidence))
    reporter.say(f"analyse: {len(names)} tables in {run.folder / 'tables'}")


def write_report(run: Run, spec: SweepSpec) -> Place:
    """The path of the report of `run`, written from its tables.

    Raises:
        StoreError: there are no tables yet.
    """
    tables = run.tables()
    if missing := sorted({*registry.names("analyses")} - {*tables}):
        raise StoreError(
            f"{run.folder} lacks the tables {', '.join(missing)}; run `datesweep analyse "
            f"{run.folder}` first"
        )
    return report.write(run.folder, tables, provenance(run, spec))


def status_table(run: Run) -> Table:
    """What of `run` is done: completions per model, scores, tables, report."""
    spec, rows = spec_of(run), run.shard_sizes()
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
    page = run.folder / "report.html"
    table.add_row(
        "report",
        str(page) if page.is_file() else "nothing yet",
        "" if page.is_file() else f"datesweep report {run.folder}",
    )
    return table


def provenance(run: Run, spec: SweepSpec) -> Provenance:
    """Where the numbers of `run` come from, for its report."""
    manifest, prompts = run.manifest(), run.prompts()
    facts = {m.name: run.engine_facts(m.name) for m in spec.models}
    counts = {name.replace("_", " "): f"{value:,}" for name, value in manifest["counts"].items()}
    sections = {
        "Run": {"sweep": spec.name, "fingerprint": manifest["fingerprint"][:16], **counts},
        "Dates and conditions": _calendar(spec),
        "Metrics": score.signatures(run, spec),
        "Data": {
            name: f"{t['dataset']} ({manifest['data'][name]}), {t['num_items']} items"
            for name, t in manifest["settings"]["tasks"].items()
        },
        "Versions": {
            **manifest["settings"]["versions"],
            **{k: v for f in facts.values() for k, v in f.get("versions", {}).items()},
        },
        "Throughput": _throughput(run),
        "Programs of the model": score.confinement(run),
    }
    for model in spec.models:
        sections[f"Model {model.name}"] = _model_section(
            spec, model.name, prompts[model.name], facts[model.name]
        )
    return Provenance(
        title=spec.title or spec.name,
        description=spec.description,
        is_simulated=any(m.backend == "simulated" for m in spec.models),
        narrowing=spec.narrowing,
        sections={name: rows for name, rows in sections.items() if rows},
    )


def _calendar(spec: SweepSpec) -> dict[str, str]:
    days, calendar = spec.calendar.days(), spec.calendar
    return {
        "dates": f"{len(days)}, from {days[0]} to {days[-1]}" if days else "none",
        "formats": ", ".join(calendar.formats),
        "February 29": "as listed"
        if calendar.dates is not None
        else "left out"
        if calendar.leap_day == "skip"
        else "kept",
        "control without a date": "yes" if calendar.control else "no",
        "placebo": f"{calendar.placebo} variants asked again",
        **{
            axis.replace("_", " "): ", ".join(map(str, values))
            for axis, values in spec.conditions.model_dump().items()
        },
    }


def _model_section(
    spec: SweepSpec, name: str, prompts: dict[str, Any], facts: dict[str, Any]
) -> dict[str, str]:
    model = spec.model(name)
    source = model.weights.hub or model.weights.package or "a local folder"
    sampling, template = model.sampling, model.template
    greedy = (
        "greedy"
        if sampling.temperature == 0
        else f"temperature {sampling.temperature}, top-p {sampling.top_p}, top-k {sampling.top_k}"
    )
    shows = ", ".join(prompts["template_dates"]) or "none"
    return {
        "weights": source + (f" at {model.weights.revision}" if model.weights.revision else ""),
        "licence": model.licence,
        "chat template": f"hash {prompts['template_hash']}{', from the model file' * bool(template.paper)}; "
        f"dates of its own: {shows}",
        "labels": "a space and a letter"
        if spec.model(name).label_form == "spaced"
        else "a bare letter",
        "sampling": f"{greedy}, seed {sampling.seed}",
        "engine": ", ".join(f"{k} {v}" for k, v in facts.get("settings", {}).items()),
        **{k: v for k, v in facts.get("hardware", {}).items() if v},
    }


def _throughput(run: Run) -> dict[str, str]:
    shards = run.telemetry()
    total = {
        key: sum(s[key] for s in shards)
        for key in ("requests", "prompt_tokens", "cached_tokens", "output_tokens")
    }
    share = 100 * total["cached_tokens"] / max(total["prompt_tokens"], 1)
    seconds = sum(s["replica_s"] for s in shards)
    rate = (total["prompt_tokens"] + total["output_tokens"]) / max(seconds, 1e-9)
    computed, floor = total["prompt_tokens"] - total["cached_tokens"], cost.floor(run)
    return {
        "requests": f"{total['requests']:,}",
        "prompt tokens": f"{total['prompt_tokens']:,}, of which {share:.1f}% came from the prefix cache",
        "computed": f"{computed:,} prompt tokens"
        + (f", {computed / floor:.3f} times what the plan foresees" if floor else ""),
        "output tokens": f"{total['output_tokens']:,}",
        "generation": f"{duration(seconds)} of one replica's time at {rate:,.0f} tokens/s (cached ones "
        "counted), without loading models",
    }
