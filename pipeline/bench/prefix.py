"""What prefix order and prefix cache are worth.

MMLU with five worked examples, in plan order and shuffled, with the cache and without.
"""

import random
from dataclasses import replace

from pipeline.bench import Bench, Figures, _plans, scratch
from pipeline.bench._trial import Trial, run
from pipeline.settings import TaskSpec

ABOUT = "the plan's order against a shuffled one, with the prefix cache and without"
NUM_REQUESTS = 48
"""Prompts of some 500 tokens with five worked examples, which items of one subject share."""
SEED = 0


def measure(bench: Bench) -> Figures:
    """Requests per second and computed prompt tokens under each combination."""
    tasks = [TaskSpec(name="mmlu", style="five_shot", limit=12)]
    five_shot = replace(bench, spec=bench.spec.model_copy(update={"tasks": tasks}))
    with scratch() as folder:
        composer = _plans.composer(five_shot, folder)
        ordered = _plans.requests(composer, NUM_REQUESTS, of_labels=True)
        shuffled = random.Random(SEED).sample(ordered, len(ordered))  # noqa: S311 - an order, not a secret
        figures: Figures = {
            "prefix_requests": len(ordered),
            "prefix_prompt_tokens": sum(len(r.token_ids) for r in ordered),
        }
        for cache in ("on", "off"):
            bench.reporter.say(f"  prefix cache {cache}")
            engine = bench.spec.engine.model_copy(update={"prefix_caching": cache == "on"})
            batches = {"ordered": ordered, "shuffled": shuffled}
            trial = Trial(model=bench.model, engine=engine, batches=batches)
            for order, timed in run(trial, folder / f"cache-{cache}.log").items():
                name, computed = f"{order}_cache_{cache}", timed.prompt_tokens - timed.cached_tokens
                figures[f"{name}_requests_per_s"] = len(ordered) / timed.seconds
                figures[f"{name}_computed_prompt_tokens"] = computed
        return figures
