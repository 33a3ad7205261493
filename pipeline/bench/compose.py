"""Composition: plan rows to token ids on one core, against rendering and tokenising each prompt.

And how long the segments take to make.
"""

import itertools
import time

from pipeline.bench import Bench, Figures, _plans, median_s, scratch
from pipeline.core.records import Item, Variant
from pipeline.generate import Composer
from pipeline.plan import Benchmark

ABOUT = "prompts per second on one core, spliced and in full"
NUM_SPLICED = 200_000
NUM_IN_FULL = 300
"""Prompts of one timed round; they repeat where the sweep has fewer."""
MOST_COMPARED = 500

Pairs = list[tuple[int, int]]
"""Rows of the plan: item and arm."""


def measure(bench: Bench) -> Figures:
    """Rates, their ratio, and the number of prompts that were compared token by token."""
    with scratch() as folder:
        composer = _plans.composer(bench, folder)
        pairs = composer.plan.requests.select("item", "arm").rows()
        started = time.perf_counter()
        _compose(composer, pairs, len(pairs))
        first_s = time.perf_counter() - started
        spliced = NUM_SPLICED / median_s(lambda: _compose(composer, pairs, NUM_SPLICED))[0]
        named = [composer.plan.named(*pair) for pair in _repeated(pairs, NUM_IN_FULL)]
        in_full = NUM_IN_FULL / median_s(lambda: [_whole(composer, *row) for row in named])[0]
        return {
            "compose_prompts_per_s": spliced,
            "render_and_tokenise_prompts_per_s": in_full,
            "compose_over_render_and_tokenise": spliced / in_full,
            "compose_first_pass_s": first_s,
            "compose_distinct_prompts": len(pairs),
            "compose_prompts_compared": _compared(composer, pairs),
        }


def _repeated(pairs: Pairs, count: int) -> "itertools.islice[tuple[int, int]]":
    return itertools.islice(itertools.cycle(pairs), count)


def _compose(composer: Composer, pairs: Pairs, count: int) -> None:
    for position, (item, arm) in enumerate(_repeated(pairs, count)):
        composer.compose(position, item, arm)


def _whole(composer: Composer, benchmark: Benchmark, item: Item, variant: Variant) -> list[int]:
    """The ids of one prompt, rendered once and tokenised, as a pipeline without splicing would."""
    builder, shots = composer.builder, benchmark.task.shots(item, benchmark.examples)
    return builder.tokenizer.encode(builder.text(benchmark.task, item, variant, shots))


def _compared(composer: Composer, pairs: Pairs) -> int:
    """How many prompts, evenly from the plan, were found to be the same either way."""
    positions = range(0, len(pairs), max(1, len(pairs) // MOST_COMPARED))
    for position in positions:
        request, _ = composer.compose(position, *pairs[position])
        if request.token_ids != _whole(composer, *composer.plan.named(*pairs[position])):
            raise AssertionError(
                "spliced ids differ from those of the whole prompt at position "
                f"{position}; please report this"
            )
    return len(positions)
