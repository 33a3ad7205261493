"""Plans of a sweep for benchmarks that start an engine."""

from collections.abc import Callable
from pathlib import Path

from pipeline.bench import Bench
from pipeline.core.records import Request
from pipeline.generate import Composer
from pipeline.plan import stage as plan
from pipeline.settings import ModelSpec
from pipeline.store import Run


def composer(bench: Bench, folder: Path) -> Composer:
    """A composer over the plan of the bench's sweep, written to `folder`."""
    run = Run(folder / "run")
    plan.write(run, bench.spec, plan.gather(bench.spec, bench.reporter.say), bench.reporter.say)
    return Composer(run, bench.spec, bench.model)


def no_model(bench: Bench, name: str, title: str) -> ModelSpec:
    """A model that computes nothing and only counts, with the prompts of the bench's model."""
    return ModelSpec(
        name=name,
        title=title,
        licence="none",
        backend="counting",
        weights=bench.model.weights,
        template=bench.model.template,
    )


def requests(composer: Composer, most: int, wanted: Callable[[Request], bool]) -> list[Request]:
    """The first `most` requests of the plan for which `wanted` holds, in plan order."""
    found: list[Request] = []
    for position in range(composer.plan.requests.height):
        if len(found) == most:
            break
        if wanted(request := composer.request(position)):
            found.append(request)
    return found


def longest(requests: list[Request]) -> int:
    """Tokens that the longest of `requests` needs, prompt and output."""
    return max(len(r.token_ids) + r.sampling.max_tokens for r in requests)
