"""The proof that a right answer gets full marks, through the real extraction and metrics."""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from pipeline import metrics, tasks
from pipeline.core import tables
from pipeline.core.errors import DataError
from pipeline.core.progress import Reporter
from pipeline.core.records import Item
from pipeline.plan.benchmarks import Benchmark
from pipeline.plan.scoring import scored_by
from pipeline.plan.stage import Plan
from pipeline.settings import SweepSpec

TOLERANCE = 1e-6
"""Distance from a perfect score that rounding may leave in a sum of logarithms."""


def check_gold(plan: Plan, spec: SweepSpec, reporter: Reporter) -> None:
    """Nothing, or DataError where the right answer of an item does not get full marks.

    It names the item and what was read out of its right answer.
    """
    orders = spec.conditions.option_orders
    for benchmark in plan.benchmarks:
        count = f"{len(benchmark.items):,} right answers"
        with reporter.waiting(f"scoring the {count} of {benchmark.name}"):
            scores = gold_scores(benchmark, orders)
        listed = ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
        in_orders = f" in {len(orders)} orders" if len(orders) > 1 else ""
        reporter.say(f"gold {benchmark.name}: {listed} on {count}{in_orders}")


def gold_scores(benchmark: Benchmark, option_orders: Sequence[int]) -> dict[str, float]:
    """Metric -> score of the right answer of every item; all are perfect.

    Raises:
        DataError: an item's right answer does not get full marks; names the first, and what was
            read out of it.
    """
    outputs = pl.concat([gold_outputs(benchmark, order) for order in option_orders])
    answers = outputs.hstack(benchmark.task.answers(outputs))
    names = scored_by(benchmark.spec)
    return {name: _score(benchmark, metrics.get(name), answers) for name in names}


def gold_outputs(benchmark: Benchmark, option_order: int) -> pl.DataFrame:
    """What a perfect model gives for every item shown in an order of its options.

    In the columns that scoring reads.
    """
    task, is_label = benchmark.task, benchmark.task.kind == "label"
    shown = [tasks.reordered(item, option_order) for item in benchmark.items]
    texts = ["" if is_label else task.gold_output(item) for item in shown]
    logprobs = [
        [0.0 if label.strip() == item.target else -math.inf for label in task.labels(item)]
        if is_label
        else []
        for item in shown
    ]
    return tables.from_records(Item, benchmark.items).with_columns(
        option_order=pl.lit(option_order, dtype=pl.Int64),
        text=pl.Series(texts, dtype=pl.String),
        label_logprobs=pl.Series(logprobs, dtype=pl.List(pl.Float64)),
    )


def _score(benchmark: Benchmark, metric: metrics.Metric, answers: pl.DataFrame) -> float:
    segments = metric.segments(answers)
    stats = np.array(segments["stats"].to_list(), dtype=np.float64)
    score = float(metric.combine(stats.sum(axis=0), np.array(len(stats))))
    perfect = 100.0 if metric.higher_is_better else 0.0
    if abs(score - perfect) <= TOLERANCE:
        return score
    singles = metric.combine(stats, np.ones(len(stats)))
    worst = int(np.abs(singles - perfect).argmax())
    row = {**answers.row(worst, named=True), **segments.row(worst, named=True)}
    raise DataError(
        f"task {benchmark.name}: the right answers get {score:.4f} in {metric.name}; the worst is "
        f"item {row['item_id']}: {row['status']} {row['detail']} with the answer "
        f"{row['answer'][:80]!r} by rule {row['rule']}, right is {row['target'][:80]!r}"
    )
