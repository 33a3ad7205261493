"""One engine, started in a process of its own with some settings, and timed on given requests."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from pipeline import engines
from pipeline.bench import REPEATS
from pipeline.core import cores, quiet
from pipeline.core.errors import EngineError
from pipeline.core.records import Output, Request
from pipeline.data import checkpoints
from pipeline.settings import EngineSpec, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What to start and what to time."""

    model: ModelSpec
    engine: EngineSpec
    batches: Mapping[str, Sequence[Request]]
    """Name -> requests that are timed together, from a cold cache."""
    also_bare: bool = False
    """Also time vLLM's own call with the same requests, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Medians over repeats of one batch."""

    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    over_bare: float | None
    """Speed of the window over that of the bare call, the median of pairs that were timed one after
    the other."""

    @property
    def computed_tokens_per_s(self) -> float:
        """Prompt tokens that no cache gave, and output tokens, per second."""
        return (self.prompt_tokens - self.cached_tokens + self.output_tokens) / self.seconds


def run(trial: Trial, log: Path) -> dict[str, Timed]:
    """What was timed, by the name of the batch; what the engine says goes to `log`.

    Raises:
        EngineError: the engine cannot start, or its process died; with the end of its log.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_work, trial, log).result()
        except (EngineError, BrokenProcessPool) as error:
            end = f"the end of {log}:\n{quiet.tail(log)}"
            raise EngineError(f"the timed engine failed: {error}\n{end}") from error


def _work(trial: Trial, log: Path) -> dict[str, Timed]:
    quiet.redirect_output(log)
    threads = trial.engine.threads
    every = [request for batch in trial.batches.values() for request in batch]
    resolved = engines.resolve(
        trial.engine,
        trial.model,
        checkpoints.folder(trial.model),
        device=engines.build(),
        threads=cores.num_cores() if threads == "auto" else threads,
        max_model_len=max(len(r.token_ids) + r.sampling.max_tokens for r in every),
    )
    engine = engines.VllmEngine(resolved)
    return {name: _time(engine, [*batch], trial.also_bare) for name, batch in trial.batches.items()}


def _time(engine: engines.VllmEngine, requests: list[Request], also_bare: bool) -> Timed:
    def streamed() -> list[Output]:
        return list(engine.generate(iter(requests)))

    def seconds(work: Callable[[], object]) -> float:
        engine.reset_prefix_cache()
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    engine.reset_prefix_cache()
    outputs = streamed()  # the first steps compile kernels for the shapes they meet
    streamed_s, ratios = [], []
    for _ in range(REPEATS):
        streamed_s.append(seconds(streamed))
        if also_bare:
            ratios.append(seconds(lambda: engine.generate_at_once(requests)) / streamed_s[-1])
    return Timed(
        seconds=statistics.median(streamed_s),
        prompt_tokens=sum(o.num_prompt_tokens for o in outputs),
        cached_tokens=sum(o.num_cached_tokens for o in outputs),
        output_tokens=sum(o.num_output_tokens for o in outputs),
        over_bare=statistics.median(ratios) if ratios else None,
    )
