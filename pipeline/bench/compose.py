"""Composition: plan rows to token ids on one core, against rendering and tokenising each prompt.

And how long the segments take to make.
"""

import itertools
import time

from pipeline.bench import Bench, Figures, median, scratch
from pipeline.core.records import Item, Variant
from pipeline.generate import Composer
from pipeline.plan import Benchmark, stage as plan
from pipeline.store import Run

ABOUT = "prompts per second on one core, spliced and in full"
NUM_SPLICED = 200_000
NUM_IN_FULL = 300
"""Prompts of one timed round; they repeat where the sweep has fewer."""


def measure(bench: Bench) -> Figures:
    """Rates, their ratio, and the number of prompts that were compared token by token."""
    with scratch() as folder:
        run = Run(folder / "run")
        plan.write(run, bench.spec, plan.gather(bench.spec, bench.reporter.say), bench.reporter.say)
        composer = Composer(run, bench.spec, bench.model)
        rows = composer.plan.requests
        pairs = list(zip(rows["item"].to_list(), rows["arm"].to_list(), strict=True))
        started = time.perf_counter()
        for position, (item, arm) in enumerate(pairs):
            composer.compose(position, item, arm)
        first_s = time.perf_counter() - started
        spliced = median(lambda: _spliced(composer, pairs))
        in_full = median(lambda: _in_full(composer, pairs))
        return {
            "compose_prompts_per_s": spliced,
            "render_and_tokenise_prompts_per_s": in_full,
            "compose_over_render_and_tokenise": spliced / in_full,
            "compose_first_pass_s": first_s,
            "compose_distinct_prompts": len(pairs),
            "compose_prompts_compared": _compared(composer, pairs),
        }


def _spliced(composer: Composer, pairs: list[tuple[int, int]]) -> float:
    endless = itertools.islice(itertools.cycle(pairs), NUM_SPLICED)
    started = time.perf_counter()
    for position, (item, arm) in enumerate(endless):
        composer.compose(position, item, arm)
    return NUM_SPLICED / (time.perf_counter() - started)


def _in_full(composer: Composer, pairs: list[tuple[int, int]]) -> float:
    chosen = [
        composer.plan.named(*pair) for pair in itertools.islice(itertools.cycle(pairs), NUM_IN_FULL)
    ]
    started = time.perf_counter()
    for row in chosen:
        _whole(composer, *row)
    return NUM_IN_FULL / (time.perf_counter() - started)


def _whole(composer: Composer, benchmark: Benchmark, item: Item, variant: Variant) -> list[int]:
    """The ids of one prompt, rendered once and tokenised, as a pipeline without splicing would."""
    builder, shots = composer.builder, benchmark.task.shots(item, benchmark.examples)
    return builder.tokenizer.encode(builder.text(benchmark.task, item, variant, shots))


def _compared(composer: Composer, pairs: list[tuple[int, int]]) -> int:
    step = max(1, len(pairs) // 500)
    for position in range(0, len(pairs), step):
        request, _ = composer.compose(position, *pairs[position])
        if request.token_ids != _whole(composer, *composer.plan.named(*pairs[position])):
            raise AssertionError(
                "spliced ids differ from those of the whole prompt at position "
                f"{position}; please report this"
            )
    return len(range(0, len(pairs), step))
