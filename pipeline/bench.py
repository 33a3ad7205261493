"""Throughput and overhead on this machine. Everything goes to standard output; the last line is JSON with units in the keys.

* compose: prompts per second from plan rows to token ids, on one core;
* overhead: requests per second through composition and shard files with an engine that computes nothing;
* engine: tokens per second of real vLLM through the streaming window, against the same ids given to vLLM's own `LLM.generate` at once.

Medians over repeats after a warm-up; the prompts are those of the sweep, so they repeat too.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline import checkpoints, engine, generate, plan, quiet
from pipeline.compose import Composer
from pipeline.config import ModelSpec, SimulatedSpec, SweepSpec
from pipeline.progress import Reporter
from pipeline.records import Output
from pipeline.simulated import SimulatedEngine
from pipeline.store import Run

REPEATS = 3
ENGINE_REQUESTS = 96
"""Requests of one timed engine run: a minute or so on two cores with the demo model."""


def main(spec: SweepSpec, *, with_engine: bool, reporter: Reporter) -> dict[str, Any]:
    """The measured figures, also printed as a table and, on the last line, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        plan.write(run, spec, plan.gather(spec, reporter.say), reporter.say)
        model = spec.models[0]
        figures: dict[str, Any] = {**compose(run, spec, model), **overhead(run, spec, model)}
        if with_engine:
            reporter.say("timing vLLM, a few minutes on a CPU")
            with quiet.output_to(run.folder / "engine.log"):
                figures |= time_engine(run, spec, model)
    figures |= {"cpu_cores": os.cpu_count(), "processor": engine.processor()}
    table = Table(title=f"datesweep bench: {spec.name}, {model.name}", show_header=False)
    for name, value in figures.items():
        table.add_row(name, f"{value:,.3f}" if isinstance(value, float) else str(value))
    Console().print(table)
    print(json.dumps(figures))
    return figures


def compose(run: Run, spec: SweepSpec, model: ModelSpec) -> dict[str, float]:
    """How fast plan rows become token ids."""
    rows = run.plan_table("requests").to_dicts()

    def once() -> float:
        composer = Composer(run, spec, model)
        started = time.perf_counter()
        for row in rows:
            composer.request(row)
        return len(rows) / (time.perf_counter() - started)

    return {"compose_prompts_per_s": _median(once)}


def overhead(run: Run, spec: SweepSpec, model: ModelSpec) -> dict[str, float]:
    """How many requests per second everything around the engine can handle."""

    def once() -> float:
        composer = Composer(run, spec, model)
        writer = generate.ShardWriter(run, composer)
        shards = iter([*run.plan_table("requests")["shard"].unique().sort(), None])
        idle = SimulatedEngine(SimulatedSpec(), composer.asked)
        started = time.perf_counter()
        num_requests = 0
        for output in idle.generate(composer.requests(lambda: next(shards), writer.open)):
            writer.add(output)
            num_requests += 1
        return num_requests / (time.perf_counter() - started)

    return {"overhead_requests_per_s": _median(once)}


def time_engine(run: Run, spec: SweepSpec, model: ModelSpec) -> dict[str, float]:
    """Tokens per second through the window and through bare vLLM, on the same ordered ids, in one process, in turn."""
    composer = Composer(run, spec, model)
    requests = [composer.request(row) for row in run.plan_table("requests").head(ENGINE_REQUESTS).iter_rows(named=True)]
    needed = run.prompts()[model.name]["max_model_len"]
    folder = checkpoints.folder(model)
    cores = os.cpu_count() or 1
    real = engine.VllmEngine(engine.resolve(spec.engine, model, folder, device=engine.build(), threads=cores, max_model_len=needed))
    cached: list[float] = []

    def streamed() -> float:
        outputs, seconds = _timed(real, lambda: list(real.generate(iter(requests))))
        prompt_tokens = sum(o.num_prompt_tokens for o in outputs)
        cached.append(sum(o.num_cached_tokens for o in outputs) / prompt_tokens)
        return (prompt_tokens + sum(o.num_output_tokens for o in outputs)) / seconds

    def bare() -> float:
        outputs, seconds = _timed(real, lambda: real.generate_at_once(requests))
        return sum(o.num_prompt_tokens + o.num_output_tokens for o in outputs) / seconds

    streamed()  # warm-up: the first steps compile kernels for the shapes they meet
    pairs = [(streamed(), bare()) for _ in range(REPEATS)]
    return {
        "window_tokens_per_s": statistics.median(a for a, _ in pairs),
        "bare_vllm_tokens_per_s": statistics.median(b for _, b in pairs),
        "window_over_bare": statistics.median(a / b for a, b in pairs),
        "cached_share_of_prompt_tokens": statistics.median(cached),
    }


def _timed(real: engine.VllmEngine, work: Callable[[], list[Output]]) -> tuple[list[Output], float]:
    real.reset_prefix_cache()
    started = time.perf_counter()
    outputs = work()
    return outputs, time.perf_counter() - started


def _median(measure: Callable[[], float]) -> float:
    measure()
    return statistics.median(measure() for _ in range(REPEATS))
