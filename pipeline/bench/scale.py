"""A year of MMLU through everything but a model: plan, composition, window, shards, scores and
tables, with an engine that only counts.

The items are MMLU's own where DATESWEEP_DATA has them, else made-up ones of the same number and
about the same length.
"""

import datetime
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pipeline import generate, score
from pipeline.analyses import analyse
from pipeline.bench import Bench, Figures, _plans, scratch
from pipeline.core import cores
from pipeline.plan import stage as plan
from pipeline.settings import CalendarSpec, EngineSpec, SweepSpec, TaskSpec
from pipeline.store import Run

ABOUT = "the full MMLU year, 5.3 million requests, with an engine that only counts"
NUM_ITEMS, NUM_SUBJECTS = 14_042, 57
SAMPLE_EVERY_S = 0.5


def measure(bench: Bench) -> Figures:
    """Rates, memory and the time of each stage.

    With a `share` below 1, of that share of the items.
    """
    with scratch() as folder:
        spec, run = _sweep(bench, folder), Run(folder / "run")
        memory, seconds = _Memory(), {}
        for name, work in _STAGES.items():
            with memory.watched(name):
                seconds[name] = _timed(partial(work, run, spec, bench))
        counts = run.manifest()["counts"]
        return {
            "scale_requests": counts["prompts"],
            "scale_prompt_tokens": counts["prompt_tokens"],
            "scale_requests_per_s": counts["prompts"] / seconds["generate"],
            **{f"scale_{name}_s": value for name, value in seconds.items()},
            **memory.figures(),
            "scale_bytes_per_completion": _size(folder / "run" / "completions") / counts["prompts"],
        }


def _plan(run: Run, spec: SweepSpec, bench: Bench) -> None:
    plan.write(run, spec, plan.gather(spec, bench.reporter.say), bench.reporter.say)


_STAGES: dict[str, Callable[[Run, SweepSpec, Bench], object]] = {
    "plan": _plan,
    "generate": lambda run, spec, bench: generate.generate(run, spec, bench.reporter),
    "score": lambda run, spec, bench: score.score(run, spec, bench.reporter),
    "analyse": lambda run, spec, bench: analyse(run, spec, bench.reporter),
}


def _size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _sweep(bench: Bench, folder: Path) -> SweepSpec:
    model = _plans.no_model(bench, "counting", "An engine that only counts")
    limit = None if bench.share >= 1 else max(1, round(NUM_ITEMS * bench.share))
    return SweepSpec(
        name="scale",
        models=[model],
        tasks=[TaskSpec(name="mmlu", limit=limit)],
        calendar=CalendarSpec(
            first=datetime.date(2024, 1, 1), last=datetime.date(2024, 12, 31), placebo=12
        ),
        engine=EngineSpec(replicas=min(2, cores.num_cores()), threads=1, shard_rows=16_384),
        data_root=_mirror(folder),
    )


def _mirror(folder: Path) -> str:
    """A mirror with MMLU's test split: the user's, or made-up rows."""
    own = os.environ.get("DATESWEEP_DATA")
    if own and (Path(own) / "cais/mmlu/all/test.parquet").is_file():
        return own
    path = folder / "mirror" / "cais" / "mmlu" / "all" / "test.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in _rows()))
    return str(folder / "mirror")


def _rows() -> Iterator[dict[str, object]]:
    filler = (
        "A made-up question of about the length that questions have, with some words to fill "
        "it, and a number to tell it apart:"
    )
    for i in range(NUM_ITEMS):
        choices = [f"the answer numbered {(i * 7 + j) % 1009}" for j in range(4)]
        yield {
            "question": f"{filler} {i}",
            "subject": f"subject {i * NUM_SUBJECTS // NUM_ITEMS:02d}",
            "choices": choices,
            "answer": i % 4,
        }


class _Memory:
    """Resident memory of this process and of its Ray workers, sampled while a stage works."""

    def __init__(self) -> None:
        self.samples: dict[str, list[tuple[float, int, int]]] = {}
        """For each stage: time, and bytes of this process and of the largest worker."""

    @contextmanager
    def watched(self, stage: str) -> Iterator[None]:
        """Sample while inside."""
        stop, found = threading.Event(), self.samples.setdefault(stage, [])
        thread = threading.Thread(target=_watch, args=(stop, found), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def figures(self) -> Figures:
        """Peaks over all stages.

        And for the longest one, how much more is held at most than in its first quarter.
        """
        every = [sample for found in self.samples.values() for sample in found]
        generate = [sample for sample in self.samples["generate"] if sample[2]]
        return {
            "scale_driver_peak_gb": max((driver for _, driver, _ in every), default=0) / 1e9,
            "scale_worker_peak_gb": max((worker for _, _, worker in every), default=0) / 1e9,
            "scale_generate_driver_peak_over_first_quarter": _growth(generate, 1),
            "scale_generate_worker_peak_over_first_quarter": _growth(generate, 2),
        }


def _growth(found: list[tuple[float, int, int]], column: int) -> float:
    """The largest value over the largest of the first quarter, by whose end every part has come
    into use.
    """
    if not found:
        return 1.0
    start, stop = found[0][0], found[-1][0]
    early = [sample[column] for sample in found if sample[0] <= start + (stop - start) / 4]
    return max(sample[column] for sample in found) / max(early)


def _watch(stop: threading.Event, found: list[tuple[float, int, int]]) -> None:
    import psutil

    own = psutil.Process()
    while not stop.wait(SAMPLE_EVERY_S):
        sizes = [0]
        for child in own.children(recursive=True):
            try:
                if child.name().startswith("ray::"):
                    sizes.append(child.memory_info().rss)
            except psutil.Error:
                continue
        found.append((time.monotonic(), own.memory_info().rss, max(sizes)))
