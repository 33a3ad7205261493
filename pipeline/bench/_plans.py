"""Plans of a sweep, and requests of them, for benchmarks."""

from pathlib import Path

from pipeline.bench import Bench
from pipeline.core.records import Request
from pipeline.generate import Composer
from pipeline.plan import make_plan
from pipeline.settings import ModelSpec
from pipeline.store import Run


def composer(bench: Bench, folder: Path) -> Composer:
    """A composer over the plan of the bench's sweep, written to `folder`."""
    run = Run(folder / "run")
    make_plan(run, bench.spec, bench.reporter)
    return Composer(run, bench.spec, bench.model)


def counting(bench: Bench, name: str, title: str) -> ModelSpec:
    """A model that computes nothing and only counts, with the prompts of the bench's model."""
    return ModelSpec(
        name=name,
        title=title,
        licence="none",
        backend="counting",
        weights=bench.model.weights,
        template=bench.model.template,
    )


def requests(composer: Composer, most: int, *, of_labels: bool) -> list[Request]:
    """The first `most` requests of the plan that ask for labels, or for text."""
    chosen: list[Request] = []
    for position in range(composer.plan.requests.height):
        request = composer.request(position)
        if bool(request.label_token_ids) == of_labels:
            chosen.append(request)
        if len(chosen) == most:
            break
    return chosen
