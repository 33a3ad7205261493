"""Where the numbers of a run come from: what its report says below the tables."""

from dataclasses import dataclass, field

from pipeline.core.progress import duration
from pipeline.plan import foreseen_tokens, signatures
from pipeline.settings import ModelSpec, SweepSpec
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
    facts = {model.name: run.engine_facts(model.name) for model in spec.models}
    versions = {k: v for f in facts.values() if f for k, v in f.versions.items()}
    sections = {
        "Run": {"sweep": spec.name, "fingerprint": manifest.fingerprint[:16]}
        | manifest.counts.in_words(),
        "Dates and conditions": _calendar(spec),
        "Metrics": _signatures(run, spec),
        "Metrics chosen with score --metrics": {
            task: ", ".join(names) for task, names in run.chosen_metrics().items()
        },
        "Data": {
            name: f"{task.dataset} ({manifest.data[name]}), {task.num_items} items"
            for name, task in manifest.settings.tasks.items()
        },
        "Versions": manifest.settings.versions | versions,
        "Throughput": _throughput(run),
        "Programs of the model": run.confinement(),
    }
    for model in spec.models:
        values = _model_section(model, prompts[model.name], facts[model.name])
        sections[f"Model {model.name}"] = values
    return Provenance(
        title=spec.title or spec.name,
        description=spec.description,
        is_simulated=any(model.backend != "vllm" for model in spec.models),
        narrowing=spec.narrowing,
        sections={name: values for name, values in sections.items() if values},
    )


def _calendar(spec: SweepSpec) -> dict[str, str]:
    days, calendar = spec.calendar.days(), spec.calendar
    leap_day = "left out" if calendar.leap_day == "skip" else "kept"
    conditions = spec.conditions.model_dump().items()
    return {
        "dates": f"{len(days)}, from {days[0]} to {days[-1]}" if days else "none",
        "formats": ", ".join(calendar.formats),
        "February 29": leap_day if calendar.dates is None else "as listed",
        "control without a date": "yes" if calendar.control else "no",
        "placebo": f"{calendar.placebo} variants asked again",
        **{axis.replace("_", " "): ", ".join(map(str, values)) for axis, values in conditions},
    }


def _model_section(
    model: ModelSpec, prompts: PromptReport, facts: EngineFacts | None
) -> dict[str, str]:
    weights, sampling = model.weights, model.sampling
    source = weights.hub or weights.package or "a local folder"
    dates = ", ".join(prompts.template_dates) or "none"
    template = f"hash {prompts.template_hash}{', from the model file' * bool(model.template.paper)}"
    drawn = f"temperature {sampling.temperature}, top-p {sampling.top_p}, top-k {sampling.top_k}"
    settings, hardware = (facts.settings, facts.hardware) if facts else ({}, {})
    rule = "greedy" if sampling.temperature == 0 else drawn
    return {
        "weights": source + (f" at {weights.revision}" if weights.revision else ""),
        "licence": model.licence,
        "chat template": f"{template}; dates of its own: {dates}",
        "labels": "a space and a letter" if model.label_form == "spaced" else "a bare letter",
        "sampling": f"{rule}, seed {sampling.seed}",
        "engine": ", ".join(f"{key} {value}" for key, value in settings.items()),
        **{key: value for key, value in hardware.items() if value},
    }


def _throughput(run: Run) -> dict[str, str]:
    shards = run.telemetry()
    requests, prompt_tokens, cached_tokens, output_tokens = (
        sum(getattr(shard, key) for shard in shards)
        for key in ("requests", "prompt_tokens", "cached_tokens", "output_tokens")
    )
    share = 100 * cached_tokens / max(prompt_tokens, 1)
    seconds = sum(shard.replica_s for shard in shards)
    rate = (prompt_tokens + output_tokens) / max(seconds, 1e-9)
    computed, foreseen = prompt_tokens - cached_tokens, foreseen_tokens(run)
    times = f", {computed / foreseen:.3f} times what the plan foresees" if foreseen else ""
    return {
        "requests": f"{requests:,}",
        "prompt tokens": f"{prompt_tokens:,}, of which {share:.1f}% came from the prefix cache",
        "computed": f"{computed:,} prompt tokens{times}",
        "output tokens": f"{output_tokens:,}",
        "generation": (
            f"{duration(seconds)} of one replica's time at {rate:,.0f} tokens/s (cached ones "
            "counted), without loading models"
        ),
    }


def _signatures(run: Run, spec: SweepSpec) -> dict[str, str]:
    """Metric name -> signature, for the metrics of the sweep's tasks."""
    items = run.plan_table("items")
    return {
        name: signature
        for task in spec.tasks
        for name, signature in signatures(task, items.filter(task=task.name)).items()
    }
