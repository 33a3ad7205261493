"""A year of MMLU through everything but a model, with an engine that only counts.

The items are MMLU's own where DATESWEEP_DATA has them, else made-up ones of the same number and
about the same length.
"""

import datetime
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from pipeline.bench import Bench, Figures, _plans, scratch
from pipeline.core import cores
from pipeline.settings import CalendarSpec, EngineSpec, SweepSpec, TaskSpec
from pipeline.sweep import run_sweep

ABOUT = "the full MMLU year, 5.3 million requests, with an engine that only counts"
NUM_ITEMS, NUM_SUBJECTS = 14_042, 57
SAMPLE_EVERY_S = 0.5


def measure(bench: Bench) -> Figures:
    """Rates, memory and the time of each stage.

    With a `share` below 1, of that share of the items.
    """
    watch = _Watch()
    with scratch() as folder:
        run = run_sweep(_sweep(bench, folder), folder / "run", bench.reporter, around=watch.stage)
        counts = run.manifest().counts
        stored = (folder / "run" / "completions").rglob("*.parquet")
        return {
            "scale_requests": counts.prompts,
            "scale_prompt_tokens": counts.prompt_tokens,
            "scale_requests_per_s": counts.prompts / watch.seconds["generate"],
            **{f"scale_{name}_s": value for name, value in watch.seconds.items()},
            **watch.memory(),
            "scale_bytes_per_completion": sum(p.stat().st_size for p in stored) / counts.prompts,
        }


def _sweep(bench: Bench, folder: Path) -> SweepSpec:
    limit = None if bench.share >= 1 else max(1, round(NUM_ITEMS * bench.share))
    first, last = datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)
    return SweepSpec(
        name="scale",
        models=[_plans.counting(bench, "counting", "An engine that only counts")],
        tasks=[TaskSpec(name="mmlu", limit=limit)],
        calendar=CalendarSpec(first=first, last=last, placebo=12),
        engine=EngineSpec(replicas=min(2, cores.num_cores()), threads=1, shard_rows=16_384),
        data_root=mirror(folder),
    )


def mirror(folder: Path) -> str:
    """A mirror with MMLU's test split: the user's, or made-up rows."""
    own = os.environ.get("DATESWEEP_DATA")
    if own and (Path(own) / "cais/mmlu/all/test.parquet").is_file():
        return own
    path = folder / "mirror" / "cais" / "mmlu" / "all" / "test.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in map(_row, range(NUM_ITEMS))))
    return str(folder / "mirror")


def _row(number: int) -> dict[str, object]:
    return {
        "question": "A made-up question of about the length that questions have, with some words "
        f"to fill it, and a number to tell it apart: {number}",
        "subject": f"subject {number * NUM_SUBJECTS // NUM_ITEMS:02d}",
        "choices": [f"the answer numbered {(number * 7 + j) % 1009}" for j in range(4)],
        "answer": number % 4,
    }


class _Watch:
    """Time of each stage, and resident memory while it works."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.samples: dict[str, list[tuple[int, int]]] = {}
        """Stage -> bytes of this process and of the largest Ray worker, now and then."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage and sample while inside."""
        stop, samples = threading.Event(), self.samples.setdefault(name, [])
        thread = threading.Thread(target=_sample, args=(stop, samples), daemon=True)
        thread.start()
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - started
            stop.set()
            thread.join()

    def memory(self) -> Figures:
        """Peaks over all stages, and how flat memory is while generating.

        That is how much more is held at most than in the first quarter of the samples, by whose end
        every part has come into use.
        """
        every = [sample for samples in self.samples.values() for sample in samples] or [(0, 0)]
        generate = [sample for sample in self.samples["generate"] if sample[1]] or [(1, 1)]
        early = generate[: -(-len(generate) // 4)]
        figures: Figures = {}
        for who, column in (("driver", 0), ("worker", 1)):
            peak, peak_early = (max(s[column] for s in part) for part in (generate, early))
            figures[f"scale_{who}_peak_gb"] = max(s[column] for s in every) / 1e9
            figures[f"scale_generate_{who}_peak_over_first_quarter"] = peak / peak_early
        return figures


def _sample(stop: threading.Event, samples: list[tuple[int, int]]) -> None:
    own = psutil.Process()
    while not stop.wait(SAMPLE_EVERY_S):
        sizes = [0]
        for child in own.children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                if child.name().startswith("ray::"):
                    sizes.append(child.memory_info().rss)
        samples.append((own.memory_info().rss, max(sizes)))
