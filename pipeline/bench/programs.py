"""A year of HumanEval through the score stage: 365 dates of 164 programs, each run confined.

The completions are simulated: for every item some dozens of programs that repeat over the dates as
a greedy model's do, few often and many seldom. They are the package's reference solution, harmless
edits of it, and where they lie beside the mirror (`outputs/humaneval`), the programs that others
published for three models, wrong ones and endless ones included.
"""

import datetime
import functools
import json
import os
import time
from pathlib import Path

import numpy as np
import polars as pl

from pipeline import score
from pipeline.bench import Bench, Figures, _plans, scratch
from pipeline.bench._human_eval import edits
from pipeline.core import cores, tables
from pipeline.core.records import Completion, Item
from pipeline.plan import make_plan
from pipeline.settings import CalendarSpec, SweepSpec, TaskSpec
from pipeline.store import Run, write_parquet

ABOUT = (
    "365 dates x 164 HumanEval completions through the score stage, each distinct program run "
    "once, confined"
)
KINDS = 73
"""Programs of one item: with these, one completion in five has a program that no date before it
had."""
SEED = 0


def measure(bench: Bench) -> Figures:
    """The time of a year, or of a `share` of its dates."""
    with scratch() as folder:
        spec, run = _sweep(bench), Run(folder / "run")
        _complete(run, make_plan(run, spec, bench.reporter).items)
        started = time.perf_counter()
        score.score(run, spec, bench.reporter)
        seconds = time.perf_counter() - started
        scores = run.scores().collect()
        missing = {
            f"programs_{status}": scores.filter(status=status).height
            for status in ("no_answer", "timeout", "failed")
        }
        return {
            "programs_completions": run.completions().select(pl.len()).collect().item(),
            "programs_distinct": scores.height,
            "programs_s": seconds,
            "programs_distinct_per_s": scores.height / seconds,
            "programs_workers": cores.num_cores(),
            **missing,
            "programs_passed": scores.filter(pl.col("stats").list.first() == 1).height,
        }


def _sweep(bench: Bench) -> SweepSpec:
    first = datetime.date(2024, 1, 1)
    last = first + datetime.timedelta(days=max(1, round(365 * bench.share)))
    return SweepSpec(
        name="programs",
        models=[_plans.counting(bench, "published", "Published and edited programs")],
        tasks=[TaskSpec(name="humaneval")],
        calendar=CalendarSpec(first=first, last=last, control=False),
        allow_code_execution=True,
    )


def _complete(run: Run, items: list[Item]) -> None:
    """Write every shard of the plan, as a model would have filled it."""
    rng, programs = np.random.default_rng(SEED), {item.item_id: _programs(item) for item in items}
    often = 1 / np.arange(1, KINDS + 1)
    asked = run.requests().collect()
    chosen = rng.choice(KINDS, asked.height, p=often / often.sum()).tolist()
    texts = [
        programs[item][kind % len(programs[item])]
        for item, kind in zip(asked["item_id"], chosen, strict=True)
    ]
    completions = asked.with_columns(
        model=pl.lit("published"),
        engine=pl.lit("default"),
        prompt_hash=pl.lit(""),
        output_id=pl.Series([tables.output_id(text, []) for text in texts]),
        text=pl.Series(texts),
        label_logprobs=pl.lit([], dtype=pl.List(pl.Float64)),
        finish_reason=pl.lit("stop"),
        num_prompt_tokens=pl.lit(0),
        num_output_tokens=pl.lit(0),
    )
    columns = [pl.col(name).cast(dtype) for name, dtype in tables.schema(Completion).items()]
    for (shard,), rows in completions.partition_by("shard", as_dict=True).items():
        write_parquet(rows.select(columns), run.completion_path("published", shard))


def _programs(item: Item) -> list[str]:
    """`KINDS` answers to an item, as a model writes them."""
    prompt = item.fields["prompt"]
    bodies = edits(item.target.removeprefix(prompt), KINDS)
    edited = [f"```python\n{prompt}{body}\n```" for body in bodies]
    return [*_published().get(item.item_id, []), *edited][:KINDS]


@functools.cache
def _published() -> dict[str, list[str]]:
    """Programs that others published, by item."""
    programs: dict[str, list[str]] = {}
    if root := os.environ.get("DATESWEEP_DATA"):
        for path in sorted((Path(root).parent / "outputs" / "humaneval").glob("reflexion_*.jsonl")):
            for row in map(json.loads, path.read_text().splitlines()):
                programs.setdefault(row["task_id"], []).append(row["completion"])
    return programs
