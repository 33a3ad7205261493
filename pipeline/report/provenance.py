"""Where the numbers of a run come from: what its report says below the tables."""

from dataclasses import dataclass, field

from pipeline.core.progress import duration
from pipeline.plan import foreseen_tokens, signatures
from pipeline.settings import SweepSpec
from pipeline.store import EngineFacts, PromptReport, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the numbers of a report come from."""

    title: str
    description: str
    is_simulated: bool = False
    """Whether the answers come from the simulated engine and not from a model; the report then says
    so in large letters."""
    narrowing: dict[str, str] = field(default_factory=dict)
    """What was cut from the sweep, e.g. {"limit": "10 items per task"}; empty when all of it
    ran."""
    sections: dict[str, dict[str, str]] = field(default_factory=dict)
    """Heading -> name -> value, shown in this order, e.g. {"Engine": {"vllm": "0.32.1"}}."""


def provenance_of(run: Run, spec: SweepSpec) -> Provenance:
    """Where the numbers of `run` come from, for its report."""
    manifest, prompts = run.manifest(), run.prompts()
    facts = {m.name: run.engine_facts(m.name) for m in spec.models}
    counts = {name.replace("_", " "): f"{value:,}" for name, value in manifest["counts"].items()}
    sections = {
        "Run": {"sweep": spec.name, "fingerprint": manifest["fingerprint"][:16], **counts},
        "Dates and conditions": _calendar(spec),
        "Metrics": _signatures(run, spec),
        "Metrics chosen with score --metrics": {
            task: ", ".join(names) for task, names in run.chosen_metrics().items()
        },
        "Data": {
            name: f"{t['dataset']} ({manifest['data'][name]}), {t['num_items']} items"
            for name, t in manifest["settings"]["tasks"].items()
        },
        "Versions": {
            **manifest["settings"]["versions"],
            **{k: v for f in facts.values() if f for k, v in f.versions.items()},
        },
        "Throughput": _throughput(run),
        "Programs of the model": run.confinement(),
    }
    for model in spec.models:
        sections[f"Model {model.name}"] = _model_section(
            spec, model.name, prompts[model.name], facts[model.name]
        )
    return Provenance(
        title=spec.title or spec.name,
        description=spec.description,
        is_simulated=any(m.backend != "vllm" for m in spec.models),
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
    spec: SweepSpec, name: str, prompts: PromptReport, facts: EngineFacts | None
) -> dict[str, str]:
    model = spec.model(name)
    source = model.weights.hub or model.weights.package or "a local folder"
    sampling, template = model.sampling, model.template
    greedy = (
        "greedy"
        if sampling.temperature == 0
        else f"temperature {sampling.temperature}, top-p {sampling.top_p}, top-k {sampling.top_k}"
    )
    shows = ", ".join(prompts.template_dates) or "none"
    return {
        "weights": source + (f" at {model.weights.revision}" if model.weights.revision else ""),
        "licence": model.licence,
        "chat template": f"hash {prompts.template_hash}{', from the model file' * bool(template.paper)}; "
        f"dates of its own: {shows}",
        "labels": "a space and a letter"
        if spec.model(name).label_form == "spaced"
        else "a bare letter",
        "sampling": f"{greedy}, seed {sampling.seed}",
        "engine": ", ".join(f"{k} {v}" for k, v in (facts.settings if facts else {}).items()),
        **{k: v for k, v in (facts.hardware if facts else {}).items() if v},
    }


def _throughput(run: Run) -> dict[str, str]:
    shards = run.telemetry()
    total = {
        key: sum(getattr(s, key) for s in shards)
        for key in ("requests", "prompt_tokens", "cached_tokens", "output_tokens")
    }
    share = 100 * total["cached_tokens"] / max(total["prompt_tokens"], 1)
    seconds = sum(s.replica_s for s in shards)
    rate = (total["prompt_tokens"] + total["output_tokens"]) / max(seconds, 1e-9)
    computed, foreseen = total["prompt_tokens"] - total["cached_tokens"], foreseen_tokens(run)
    return {
        "requests": f"{total['requests']:,}",
        "prompt tokens": f"{total['prompt_tokens']:,}, of which {share:.1f}% came from the prefix cache",
        "computed": f"{computed:,} prompt tokens"
        + (f", {computed / foreseen:.3f} times what the plan foresees" if foreseen else ""),
        "output tokens": f"{total['output_tokens']:,}",
        "generation": f"{duration(seconds)} of one replica's time at {rate:,.0f} tokens/s (cached ones "
        "counted), without loading models",
    }


def _signatures(run: Run, spec: SweepSpec) -> dict[str, str]:
    """Metric name -> signature, for the metrics of the sweep's tasks."""
    items = run.plan_table("items")
    return {
        name: text
        for task in spec.tasks
        for name, text in signatures(task, items.filter(task=task.name)).items()
    }
