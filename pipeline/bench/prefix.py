"""What prefix order and prefix cache are worth: label requests in plan order and shuffled, with the cache and without."""

import random

from pipeline.bench import Bench, Figures, _plans, scratch
from pipeline.bench._trial import Trial, run

ABOUT = "the plan's order against a shuffled one, with the prefix cache and without"
NUM_REQUESTS = 240
SEED = 0


def measure(bench: Bench) -> Figures:
    """Requests per second and computed prompt tokens under each combination."""
    with scratch() as folder:
        composer = _plans.composer(bench, folder)
        ordered = _plans.requests(composer, NUM_REQUESTS, lambda r: bool(r.label_token_ids))
        shuffled = random.Random(SEED).sample(ordered, len(ordered))  # noqa: S311 - an order, not a secret
        figures: Figures = {"prefix_requests": len(ordered), "prefix_prompt_tokens": sum(len(r.token_ids) for r in ordered)}
        for cache in (True, False):
            bench.reporter.say(f"  prefix cache {'on' if cache else 'off'}")
            spec = bench.spec.engine.model_copy(update={"prefix_caching": cache})
            batches = {"ordered": ordered, "shuffled": shuffled}
            trial = Trial(model=bench.model, engine=spec, max_model_len=_plans.longest(ordered), batches=batches)
            for order, timed in run(trial, folder / f"cache-{cache}.log").items():
                name = f"{order}_cache_{'on' if cache else 'off'}"
                figures[f"{name}_requests_per_s"] = len(ordered) / timed.seconds
                figures[f"{name}_computed_prompt_tokens"] = timed.prompt_tokens - timed.cached_tokens
        return figures
