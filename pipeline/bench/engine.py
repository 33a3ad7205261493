"""Real vLLM through the streaming window: against its own call, against the floor, and under other
settings.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline import engines as engines
from pipeline.bench import Bench, Figures, _plans, scratch
from pipeline.bench._trial import Timed, Trial, run
from pipeline.core.errors import EngineError
from pipeline.core.records import Request
from pipeline.plan import Rate, keep_rate

ABOUT = (
    "tokens per second of real vLLM, and what other settings are worth; takes long, mostly to "
    "start engines, unless --share is below 1"
)
NUM_LABEL, NUM_TEXT = 192, 64
"""Requests of one timed round. Texts must fill the default batch: with fewer, a smaller one looks
better than it is."""
CANDIDATES: dict[str, dict[str, list[Any]]] = {
    "cpu": {
        "block_size": [64, 128],
        "max_num_seqs": [16, 32, 128],
        "max_num_batched_tokens": [1024, 4096],
        "window": [64, 256],
    },
    "gpu": {
        "block_size": [32, 64],
        "max_num_seqs": [256, 512, 2048],
        "max_num_batched_tokens": [8192, 32768],
        "window": [1024, 4096],
    },
}
"""Values to try beside the defaults of `engine.resolve`, one setting at a time, the others at their
defaults."""
CLEARLY = 1.03
"""How much faster a setting must be to be proposed; less is noise on a shared machine."""


def measure(bench: Bench) -> Figures:
    """The window over vLLM's own call, rates for `datesweep plan`, and the settings that are faster
    than the defaults.
    """
    with scratch() as folder:
        composer = _plans.composer(bench, folder)
        label = _plans.requests(composer, NUM_LABEL, lambda r: bool(r.label_token_ids))
        text = _plans.requests(composer, NUM_TEXT, lambda r: not r.label_token_ids)
        batches = {
            name: found
            for name, found in (("label", label), ("text", text), ("mixed", [*label[:72], *text]))
            if found
        }
        longest = _plans.longest([*label, *text])
        trial = Trial(
            model=bench.model,
            engine=bench.spec.engine,
            max_model_len=longest,
            batches=batches,
            also_bare=True,
        )
        usual = run(trial, folder / "usual.log")
        figures = _figures(usual)
        if bench.share >= 1:
            figures |= _propose(
                bench, replace(trial, batches=_most_varied(batches), also_bare=False), folder
            )
    _remember(bench, usual)
    return figures


def _figures(timed: dict[str, Timed]) -> Figures:
    found: Figures = {}
    for name, t in timed.items():
        found |= {
            f"{name}_computed_tokens_per_s": t.computed_tokens_per_s,
            f"{name}_tokens_per_s": (t.prompt_tokens + t.output_tokens) / t.seconds,
            f"{name}_cached_share": t.cached_tokens / t.prompt_tokens,
            f"{name}_window_over_bare_vllm": t.over_bare or 0.0,
        }
    return found


def _most_varied(batches: dict[str, list[Request]]) -> dict[str, list[Request]]:
    """Label and text requests together where the sweep has both, since the settings suit them
    differently.
    """
    *_, name = batches
    return {name: batches[name]}


def _propose(bench: Bench, trial: Trial, folder: Path) -> Figures:
    """Speed under each candidate setting over that of the defaults, timed in the same way, and what
    to set.

    The defaults are timed again at the end: how far that is from 1 tells how noisy the machine is.
    """
    usual = _speed(trial, folder / "default.log")
    found: Figures = {}
    proposals = []
    for setting, values in CANDIDATES[engines.build()].items():
        tried = {value: _ratio(bench, trial, setting, value, usual, folder) for value in values}
        ratios = {value: ratio for value, ratio in tried.items() if ratio is not None}
        found |= {f"{setting}={value}_over_default": ratio for value, ratio in ratios.items()}
        best = max(ratios, key=lambda value: ratios[value], default=None)
        if best is not None and ratios[best] > CLEARLY:
            proposals.append(f"{setting}={best}")
    found["defaults_again_over_default"] = _speed(trial, folder / "again.log") / usual
    return {**found, "proposed_engine_settings": ",".join(proposals) or "the defaults"}


def _ratio(
    bench: Bench, trial: Trial, setting: str, value: Any, usual: float, folder: Path
) -> float | None:
    """Speed over the `usual`; None where the engine does not start with this value."""
    spec = trial.engine.model_copy(update={setting: value})
    try:
        ratio = _speed(replace(trial, engine=spec), folder / f"{setting}-{value}.log") / usual
    except EngineError as error:
        bench.reporter.say(f"  {setting} = {value} does not start: {str(error).splitlines()[0]}")
        return None
    bench.reporter.say(f"  {setting} = {value}: {ratio:.3f} times the default's speed")
    return ratio


def _speed(trial: Trial, log: Path) -> float:
    """Requests per second; computed tokens would favour a setting that caches less."""
    [(name, timed)] = run(trial, log).items()
    return len(trial.batches[name]) / timed.seconds


def _remember(bench: Bench, timed: dict[str, Timed]) -> None:
    """Keep the rates for `datesweep plan`: of prompts from label requests, of outputs from what
    text requests take beyond their prompts.
    """
    if "label" not in timed:
        return
    prompt = timed["label"].computed_tokens_per_s
    output = prompt
    if text := timed.get("text"):
        writing = max(text.seconds - (text.prompt_tokens - text.cached_tokens) / prompt, 1e-3)
        output = text.output_tokens / writing
    measured_on = f"{engines.build()}, {engines.processor()}"
    keep_rate(bench.model.name, Rate(prompt, output, measured_on))
