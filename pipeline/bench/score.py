"""Scoring: programs run in the sandbox, label outputs and translations per second, on the demo's own items."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import polars as pl

from pipeline import asked, metrics, proofs, tasks
from pipeline.bench import Bench, Figures, median
from pipeline.config import TaskSpec
from pipeline.errors import DataError

ABOUT = "programs, label outputs and translations scored per second"
NUM_PROGRAMS, NUM_LABELS, NUM_TRANSLATIONS = 48, 200_000, 2_000
TASKS = {"humaneval": NUM_PROGRAMS, "mmlu": NUM_LABELS, "wmt16_en_de": NUM_TRANSLATIONS}


def measure(bench: Bench) -> Figures:
    """Rates under all metrics of each kind of task; programs with as many workers as there are cores, the others on one."""
    figures: Figures = {}
    for name, count in TASKS.items():
        try:
            outputs = _outputs(name, count, bench.spec.data_root)
        except DataError as error:
            bench.reporter.say(f"  {name} is left out: {error}")
            continue
        work = _programs if tasks.get(name).executes_code else _frame
        figures[f"score_{name}_outputs_per_s"] = median(partial(_rate, work, outputs))
    return {**figures, "score_program_workers": os.cpu_count() or 1}


def _outputs(name: str, count: int, data_root: str | None) -> pl.DataFrame:
    """The right answers of the task's items, repeated to `count` rows."""
    gold = proofs.gold_outputs(asked.load(TaskSpec(name=name), data_root), 0)
    return pl.concat([gold] * (count // gold.height + 1)).head(count).with_columns(style=pl.lit("zero_shot"))


def _rate(work: Callable[[pl.DataFrame], None], outputs: pl.DataFrame) -> float:
    started = time.perf_counter()
    work(outputs)
    return outputs.height / (time.perf_counter() - started)


def _frame(outputs: pl.DataFrame) -> None:
    task = tasks.get(outputs["task"][0])
    answers = outputs.hstack(task.answers(outputs))
    for name in task.metrics:
        metrics.get(name).segments(answers)


def _programs(outputs: pl.DataFrame) -> None:
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(_frame, outputs.iter_slices(max(1, outputs.height // (4 * workers)))))
