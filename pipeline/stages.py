"""The stages of a sweep in a line: plan, generate, score, analyse, report. Each can be run alone, again, or on another machine."""

import hashlib
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from pipeline import analyses, plan, registry, report, score
from pipeline.config import SweepSpec
from pipeline.dates import skipped_leap_days
from pipeline.errors import StoreError
from pipeline.progress import Reporter, duration
from pipeline.report import Provenance
from pipeline.store import Run, write_json


def default_folder(spec: SweepSpec) -> Path:
    """`runs/<sweep>`; a narrowed sweep gets a folder of its own, so it never stands in the way of the whole one."""
    if not spec.narrowing:
        return Path("runs") / spec.name
    suffix = hashlib.sha256(repr(sorted(spec.narrowing.items())).encode()).hexdigest()[:6]
    return Path("runs") / f"{spec.name}-narrowed-{suffix}"


def make_plan(run: Run, spec: SweepSpec, reporter: Reporter) -> None:
    """Plan `run`, unless it was planned before with exactly these settings.

    Raises:
        StoreError: the folder holds a run of other settings.
    """
    with reporter.waiting("reading tasks and models"):
        gathered = plan.gather(spec, reporter.say)
    if run.claim(gathered.settings):
        # Titles, replicas, paths and the like may have changed; the stages that come later read them from here.
        write_json({**run.manifest(), "sweep": plan.stored(spec)}, run.manifest_path)
    else:
        with reporter.waiting("checking that every prompt carries its date"):
            plan.write(run, spec, gathered, reporter.say)


def plan_line(run: Run) -> str:
    """What `run` asks, in one line."""
    counts = run.manifest()["counts"]
    asked = f"{counts['models']} models x {counts['items']:,} items x {counts['variants']} variants, and the placebo"
    return f"plan: {counts['prompts']:,} prompts ({asked}), {counts['prompt_tokens']:,} prompt tokens -> {run.folder}"


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
    """What a user should know of a plan: a February 29 that was left out, dates that a chat template writes by itself."""
    calendar, notes = spec.calendar, []
    if calendar.dates is None and (left_out := skipped_leap_days(calendar.first, calendar.last, calendar.leap_day)):
        days = ", ".join(map(str, left_out))
        notes.append(f'{days} is left out, so that a year has 365 dates as in the paper; keep it with `leap_day = "keep"` under [calendar]')
    for name, found in run.prompts().items():
        if own := found["template_dates"]:
            notes.append(f"{name}: its chat template also writes a date of its own, the same in every prompt: {', '.join(own)}")
    return notes


def spec_of(run: Run) -> SweepSpec:
    """The settings with which `run` was planned."""
    return SweepSpec.model_validate_json(json.dumps(run.manifest()["sweep"]))


def analyse(run: Run, spec: SweepSpec, reporter: Reporter) -> None:
    """Write every analysis table of `run`.

    Raises:
        StoreError: generation or scoring is not complete.
    """
    score.check_generated(run, spec)
    with reporter.waiting("analysing"):
        evidence = analyses.evidence(run.completions(), run.scores(), run.plan_table("variants"), run.plan_table("items"))
        names = registry.names("analyses")
        for name in names:
            run.write_table(name, analyses.get(name)(evidence))
    reporter.say(f"analyse: {len(names)} tables in {run.folder / 'tables'}")


def write_report(run: Run, spec: SweepSpec) -> Path:
    """The path of the report of `run`, written from its tables.

    Raises:
        StoreError: there are no tables yet.
    """
    tables = run.tables()
    if missing := sorted({*registry.names("analyses")} - {*tables}):
        raise StoreError(f"{run.folder} lacks the tables {', '.join(missing)}; run `datesweep analyse {run.folder}` first")
    return report.write(run.folder, tables, provenance(run, spec))


def status_table(run: Run) -> Table:
    """What of `run` is done: completions per model, scores, tables, report."""
    spec, shards = spec_of(run), run.plan_table("requests").group_by("shard").len()
    rows = dict(zip(shards["shard"], shards["len"], strict=True))
    table = Table("stage", "done", "next", title=f"{run.folder}: {spec.title or spec.name}", title_justify="left")
    for model in spec.models:
        left = run.missing_shards(model.name, list(rows))
        missing = sum(rows[s] for s in left)
        text = f"{sum(rows.values()) - missing:,} of {sum(rows.values()):,} completions"
        table.add_row(f"generate {model.name}", text, f"datesweep generate {run.folder}" if left else "")
    scored, chunks = score.progress(run, spec)
    table.add_row(
        "score", f"{scored} of {chunks} chunks" if chunks else "", "" if chunks and scored == chunks else f"datesweep score {run.folder}"
    )
    tables, names = sorted(run.tables()), registry.names("analyses")
    table.add_row("analyse", ", ".join(tables) or "nothing yet", "" if tables == names else f"datesweep analyse {run.folder}")
    page = run.folder / "report.html"
    table.add_row("report", str(page) if page.is_file() else "nothing yet", "" if page.is_file() else f"datesweep report {run.folder}")
    return table


def provenance(run: Run, spec: SweepSpec) -> Provenance:
    """Where the numbers of `run` come from, for its report."""
    manifest, prompts = run.manifest(), run.prompts()
    facts = {m.name: run.engine_facts(m.name) for m in spec.models}
    counts = {name.replace("_", " "): f"{value:,}" for name, value in manifest["counts"].items()}
    sections = {
        "Run": {"sweep": spec.name, "fingerprint": manifest["fingerprint"][:16], **counts},
        "Dates": _calendar(spec),
        "Metrics": score.signatures(spec),
        "Data": {
            name: f"{t['dataset']} ({manifest['data'][name]}), {t['num_items']} items" for name, t in manifest["settings"]["tasks"].items()
        },
        "Versions": {**manifest["settings"]["versions"], **{k: v for f in facts.values() for k, v in f.get("versions", {}).items()}},
        "Throughput": _throughput(run),
        "Programs of the model": score.confinement(run),
    }
    for model in spec.models:
        sections[f"Model {model.name}"] = _model_section(spec, model.name, prompts[model.name], facts[model.name])
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
        "dates": f"{len(days)}, from {days[0]} to {days[-1]}",
        "formats": ", ".join(calendar.formats),
        "February 29": "as listed" if calendar.dates else "left out" if calendar.leap_day == "skip" else "kept",
        "control without a date": "yes" if calendar.control else "no",
        "placebo dates": str(calendar.placebo),
    }


def _model_section(spec: SweepSpec, name: str, prompts: dict[str, Any], facts: dict[str, Any]) -> dict[str, str]:
    model = spec.model(name)
    source = model.weights.hub or model.weights.package or "a local folder"
    sampling = model.sampling
    greedy = (
        "greedy" if sampling.temperature == 0 else f"temperature {sampling.temperature}, top-p {sampling.top_p}, top-k {sampling.top_k}"
    )
    shows = ", ".join(prompts["template_dates"]) or "none"
    return {
        "weights": source + (f" at {model.weights.revision}" if model.weights.revision else ""),
        "licence": model.licence,
        "chat template": f"hash {prompts['template_hash']}; dates of its own: {shows}",
        "sampling": f"{greedy}, seed {sampling.seed}",
        "engine": ", ".join(f"{k} {v}" for k, v in facts.get("settings", {}).items()),
        **{k: v for k, v in facts.get("hardware", {}).items() if v},
    }


def _throughput(run: Run) -> dict[str, str]:
    shards = run.telemetry()
    total = {key: sum(s[key] for s in shards) for key in ("requests", "prompt_tokens", "cached_tokens", "output_tokens")}
    share = 100 * total["cached_tokens"] / max(total["prompt_tokens"], 1)
    seconds = sum(s["replica_s"] for s in shards)
    rate = (total["prompt_tokens"] + total["output_tokens"]) / max(seconds, 1e-9)
    return {
        "requests": f"{total['requests']:,}",
        "prompt tokens": f"{total['prompt_tokens']:,}, of which {share:.1f}% came from the prefix cache",
        "output tokens": f"{total['output_tokens']:,}",
        "generation": f"{duration(seconds)} of one replica's time at {rate:,.0f} tokens/s (cached ones counted), without loading models",
    }
