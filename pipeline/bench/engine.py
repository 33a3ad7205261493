"""Real vLLM through the streaming window, against its own call with the same requests.

The engine settings are the sweep's; `--engine` tries others.
"""

from pipeline import engines
from pipeline.bench import Bench, Figures, _plans, scratch
from pipeline.bench._trial import Timed, Trial, run
from pipeline.plan import Rate, keep_rate

ABOUT = "tokens per second of real vLLM through the window, and over vLLM's own call"
NUM_LABEL, NUM_TEXT = 192, 64
"""Requests of one timed round. Texts must fill the default batch: with fewer, a smaller one looks
better than it is."""
NUM_LABEL_MIXED = 72


def measure(bench: Bench) -> Figures:
    """The window over vLLM's own call, and rates, which are kept for `datesweep plan`."""
    with scratch() as folder:
        composer = _plans.composer(bench, folder)
        label = _plans.requests(composer, NUM_LABEL, of_labels=True)
        text = _plans.requests(composer, NUM_TEXT, of_labels=False)
        batches = {"label": label, "text": text, "mixed": [*label[:NUM_LABEL_MIXED], *text]}
        trial = Trial(
            model=bench.model,
            engine=bench.spec.engine,
            batches={name: requests for name, requests in batches.items() if requests},
            also_bare=True,
        )
        timed = run(trial, folder / "engine.log")
    _keep_rate(bench, timed)
    figures: Figures = {}
    for name, t in timed.items():
        figures |= {
            f"{name}_computed_tokens_per_s": t.computed_tokens_per_s,
            f"{name}_tokens_per_s": (t.prompt_tokens + t.output_tokens) / t.seconds,
            f"{name}_cached_share": t.cached_tokens / t.prompt_tokens,
            f"{name}_window_over_bare_vllm": t.over_bare or 0.0,
        }
    return figures


def _keep_rate(bench: Bench, timed: dict[str, Timed]) -> None:
    """Keep the rates of prompts, from label requests, and of outputs, from text requests.

    Those of outputs are what text requests take beyond their prompts.
    """
    if "label" not in timed:
        return
    prompt = timed["label"].computed_tokens_per_s
    output = prompt
    if text := timed.get("text"):
        writing_s = max(text.seconds - (text.prompt_tokens - text.cached_tokens) / prompt, 1e-3)
        output = text.output_tokens / writing_s
    measured_on = f"{engines.build()}, {engines.processor()}"
    keep_rate(bench.model.name, Rate(prompt, output, measured_on))
