"""One engine, started in a process of its own with some settings, and timed on given requests."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    max_model_len: int
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
    bare_seconds: float | None
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
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(trial, log, theirs))
    process.start()
    theirs.close()
    try:
        found: dict[str, Timed] | str = ours.recv()
    except EOFError:
        found = "its process died"
    process.join()
    if isinstance(found, str):
        raise EngineError(f"the timed engine failed: {found}\nthe end of {log}:\n{quiet.tail(log)}")
    return found


def _work(trial: Trial, log: Path, answer: Any) -> None:
    quiet.redirect_output(log)
    try:
        folder, num_cores = checkpoints.folder(trial.model), cores.num_cores()
        threads = num_cores if trial.engine.threads == "auto" else trial.engine.threads
        resolved = engines.resolve(
            trial.engine,
            trial.model,
            folder,
            device=engines.build(),
            threads=threads,
            max_model_len=trial.max_model_len,
        )
        real = engines.VllmEngine(resolved)
        answer.send(
            {
                name: _time(real, list(requests), trial.also_bare)
                for name, requests in trial.batches.items()
            }
        )
    except Exception as error:
        answer.send(f"{type(error).__name__}: {error}")


def _time(real: engines.VllmEngine, requests: list[Request], also_bare: bool) -> Timed:
    def once(work: Callable[[], list[Output]]) -> tuple[list[Output], float]:
        real.reset_prefix_cache()
        started = time.perf_counter()
        outputs = work()
        return outputs, time.perf_counter() - started

    once(
        lambda: list(real.generate(iter(requests)))
    )  # the first steps compile kernels for the shapes they meet
    streamed, bare = [], []
    for _ in range(REPEATS):
        streamed.append(once(lambda: list(real.generate(iter(requests)))))
        if also_bare:
            bare.append(once(lambda: real.generate_at_once(requests))[1])
    outputs = streamed[-1][0]
    return Timed(
        seconds=statistics.median(seconds for _, seconds in streamed),
        prompt_tokens=sum(o.num_prompt_tokens for o in outputs),
        cached_tokens=sum(o.num_cached_tokens for o in outputs),
        output_tokens=sum(o.num_output_tokens for o in outputs),
        bare_seconds=statistics.median(bare) if bare else None,
        over_bare=statistics.median(b / s for (_, s), b in zip(streamed, bare, strict=True))
        if bare
        else None,
    )
