"""Stage 1: missing shards -> completions, on long-lived Ray replicas that each hold one engine for the whole year.

Replicas take shards from one queue, so a fast one takes more. A replica feeds its engine from shard after shard without letting the window
drain, and writes a shard when its last output is in. One replica or many, the path is the same.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipeline import checkpoints, cluster, engine, frames, quiet
from pipeline.compose import Composer
from pipeline.config import ModelSpec, SweepSpec
from pipeline.errors import EngineError, StoreError
from pipeline.progress import Reporter, Stage
from pipeline.records import Completion, Output
from pipeline.simulated import SimulatedEngine
from pipeline.store import Run, differences, write_json, write_parquet

REPORT_EVERY_S = 0.5
"""Seconds between progress reports of a replica."""
START_TIMEOUT_S = 3600.0
"""Seconds an engine may take to start; the largest models load from slow disks in less."""


@dataclass(slots=True)
class Tally:
    """What a replica has done since it started, or several together."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def add(self, output: Output) -> None:
        """Count one output."""
        self.requests += 1
        self.prompt_tokens += output.num_prompt_tokens
        self.cached_tokens += output.num_cached_tokens
        self.output_tokens += output.num_output_tokens

    def text(self, seconds: float) -> str:
        """Tokens per second, prompt and output together, and the share of prompt tokens that came from the cache; for people."""
        rate = (self.prompt_tokens + self.output_tokens) / max(seconds, 1e-9)
        return f"{rate:,.0f} tokens/s, {100 * self.cached_tokens / max(self.prompt_tokens, 1):.0f}% from cache"


def generate(run: Run, spec: SweepSpec, reporter: Reporter, address: str | None = None) -> None:
    """Make every completion of `run` that is not there yet.

    Raises:
        EngineError: a replica cannot start or died; what is written is kept, and the same call goes on from there.
        StoreError: the run was begun with another engine, hardware or version.
    """
    shards = run.plan_table("requests").group_by("shard", maintain_order=True).len()
    todo = {m.name: run.missing_shards(m.name, shards["shard"].to_list()) for m in spec.models}
    if not any(todo.values()):
        reporter.say("generate: every completion is there already")
        return
    with cluster.session(address) as resources:
        for model in spec.models:
            if todo[model.name]:
                planned = _as_planned(run, model, reporter)
                _generate_model(run, spec, planned, shards, todo[model.name], resources, reporter)


def _as_planned(run: Run, model: ModelSpec, reporter: Reporter) -> ModelSpec:
    """`model` at the commit it was planned with, its weights fetched, having checked that they are the ones of the plan."""
    planned = run.manifest()["settings"]["checkpoints"][model.name]
    if commit := planned.get("commit"):
        model = model.model_copy(update={"weights": model.weights.model_copy(update={"revision": commit})})
    checkpoints.check_identity(model, checkpoints.folder(model, reporter.say), planned)
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a model's replicas are laid over what Ray has."""

    device: str
    num_replicas: int
    threads: int
    num_cpus: int
    num_gpus: int


def layout(spec: SweepSpec, model: ModelSpec, resources: cluster.Resources, num_shards: int, build: str) -> Layout:
    """Replicas for `model`: GPUs / tensor-parallel size, or one on CPU, never more than the plan has shards.

    It depends on the whole plan and not on what is left of it, so that a resumed run gets the threads it was begun with.
    `build` is what the installed vLLM is built for, `cpu` or `gpu`.

    Raises:
        EngineError: the machine has not got what the settings ask for.
    """
    setting, device = spec.engine, _device(spec, model, resources, build)
    per_replica = model.tensor_parallel_size if device == "gpu" else 0
    if resources.num_gpus < per_replica:
        raise EngineError(f"model {model.name} needs {per_replica} GPUs for one replica; Ray has {resources.num_gpus}")
    most = resources.num_gpus // per_replica if per_replica else 1
    replicas = min(most if setting.replicas == "auto" else setting.replicas, num_shards)
    if per_replica and replicas > most:
        raise EngineError(f"engine.replicas: given {replicas}; Ray's {resources.num_gpus} GPUs allow {most} of {per_replica} GPUs each")
    threads = max(1, resources.num_cpus // replicas) if setting.threads == "auto" else setting.threads
    if threads * replicas > resources.num_cpus:
        needed = f"{replicas} replicas of {threads} threads need {threads * replicas} CPU cores"
        raise EngineError(f"engine: {needed}; Ray has {resources.num_cpus}")
    return Layout(device=device, num_replicas=replicas, threads=threads, num_cpus=threads, num_gpus=per_replica)


def _device(spec: SweepSpec, model: ModelSpec, resources: cluster.Resources, build: str) -> str:
    """`cpu` or `gpu`; with `auto`, what the installed vLLM can use of what Ray has."""
    wanted = spec.engine.device
    if model.backend == "simulated":
        return "cpu"
    if wanted == "auto":
        return "gpu" if build == "gpu" and resources.num_gpus else "cpu"
    if wanted != build:
        what = f"the installed vLLM is built for {build}"
        raise EngineError(f'engine.device: given {wanted!r}; {what}: install the extra [{wanted}], or say "auto"')
    return wanted


def _generate_model(
    run: Run, spec: SweepSpec, model: ModelSpec, shards: pl.DataFrame, todo: list[int], resources: cluster.Resources, reporter: Reporter
) -> None:
    placed = layout(spec, model, resources, shards.height, engine.build())
    num_started = min(placed.num_replicas, len(todo))
    rows: dict[int, int] = dict(zip(shards["shard"], shards["len"], strict=True))
    total = sum(rows.values())
    kept = total - sum(rows[s] for s in todo)
    if kept:
        reporter.say(f"generate {model.name}: {kept:,} of {total:,} completions are there already, {total - kept:,} to do")
    queue = _actor(ShardQueue, num_cpus=0).remote(todo)
    replicas = [
        _actor(Replica, num_cpus=placed.num_cpus, num_gpus=placed.num_gpus).remote(run.folder.resolve(), spec, model, placed, index)
        for index in range(num_started)
    ]
    logs = [_log_path(run, model, index) for index in range(num_started)]
    with reporter.waiting(f"starting {num_started} engine{'s' * (num_started > 1)} for {model.name} (log: {logs[0]})"):
        for replica, log in zip(replicas, logs, strict=True):
            _record_facts(run, model, _get(replica.facts.remote(), log, START_TIMEOUT_S))
    with reporter.stage(f"generate {model.name}", total, "requests") as stage:
        _follow([replica.work.remote(queue) for replica in replicas], logs, kept, stage)


def _actor(kind: type, **resources: Any) -> Any:
    import ray

    return ray.remote(kind).options(**resources)


def _follow(streams: list[Any], logs: list[Path], kept: int, stage: Stage) -> None:
    import ray

    started, tallies = time.monotonic(), {stream: Tally() for stream in streams}
    open_streams = dict(zip(streams, logs, strict=True))
    while open_streams:
        ready, _ = ray.wait(list(open_streams), num_returns=1, timeout=5.0)
        for stream in ready:
            try:
                tallies[stream] = _get(next(stream), open_streams[stream])
            except StopIteration:
                del open_streams[stream]
        together = Tally(*(sum(getattr(t, name) for t in tallies.values()) for name in Tally.__slots__))
        stage.update(kept + together.requests, together.text(time.monotonic() - started) if together.requests else "")


def _get(reference: Any, log: Path, timeout_s: float | None = None) -> Any:
    """What a replica returned, or an EngineError with the end of its log."""
    import ray

    try:
        return ray.get(reference, timeout=timeout_s)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        if isinstance(cause, (EngineError, StoreError)):
            raise cause from None
        raise EngineError(f"a replica failed: {type(cause).__name__}: {cause}\nthe end of {log}:\n{quiet.tail(log)}") from error
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"a replica died or did not answer ({type(error).__name__}); completions already written are kept, "
            f"and the same command goes on from there\n"
            f"the end of {log}:\n{quiet.tail(log)}"
        ) from error


def _log_path(run: Run, model: ModelSpec, index: int) -> Path:
    return run.folder / "logs" / f"engine-{model.name}-{index}.log"


def _record_facts(run: Run, model: ModelSpec, facts: dict[str, Any]) -> None:
    """Keep what the engine honoured, and refuse to go on with another engine than the run was begun with."""
    path = run.folder / "engines" / f"{model.name}.json"
    if not path.is_file():
        write_json(facts, path)
        return
    if lines := differences(run.engine_facts(model.name), facts):
        raise StoreError(
            f"{run.folder} was begun with another engine for {model.name}; mixing them could pass for an effect of the date:\n  "
            + "\n  ".join(lines)
            + "\nGo on where it was begun, or give another folder with --out."
        )


class ShardQueue:
    """Shards still to be made, handed out one by one; an actor, shared by the replicas of a model."""

    def __init__(self, shards: list[int]) -> None:
        """`shards` in the order to make them."""
        self.shards = deque(shards)

    def take(self) -> int | None:
        """The next shard, or None when all are handed out."""
        return self.shards.popleft() if self.shards else None


class Replica:
    """One engine in a process of its own, for one model."""

    def __init__(self, folder: Path, spec: SweepSpec, model: ModelSpec, placed: Layout, index: int) -> None:
        """Load the plan of the run in `folder` and start the engine."""
        self.run = Run(folder)
        quiet.redirect_output(_log_path(self.run, model, index))
        self.composer = Composer(self.run, spec, model)
        self.engine = self._engine(spec, model, placed)

    def facts(self) -> dict[str, Any]:
        """The engine's facts, as soon as it has started."""
        return self.engine.facts()

    def work(self, queue: Any) -> Iterator[Tally]:
        """Make shards from `queue` until it is empty, yielding what is done so far now and then."""
        import ray

        writer, tally, reported = ShardWriter(self.run, self.composer), Tally(), time.monotonic()
        requests = self.composer.requests(lambda: ray.get(queue.take.remote()), writer.open)
        for output in self.engine.generate(requests):
            writer.add(output)
            tally.add(output)
            if time.monotonic() - reported >= REPORT_EVERY_S:
                reported = time.monotonic()
                yield tally
        yield tally

    def _engine(self, spec: SweepSpec, model: ModelSpec, placed: Layout) -> engine.Engine:
        if model.backend == "simulated" and model.simulated is not None:
            return SimulatedEngine(model.simulated, self.composer.asked)
        folder = checkpoints.folder(model)
        needed = self.run.prompts()[model.name]["max_model_len"]
        return engine.VllmEngine(
            engine.resolve(spec.engine, model, folder, device=placed.device, threads=placed.threads, max_model_len=needed)
        )


class ShardWriter:
    """Collects outputs and writes each shard when its last one is in, in plan order, so that the order of work leaves no trace."""

    def __init__(self, run: Run, composer: Composer) -> None:
        """`composer` knows the keys of the requests under way."""
        self.run, self.composer = run, composer
        self.open_shards: dict[int, _OpenShard] = {}
        self.written = time.monotonic()
        """When the last shard was written. Shards overlap in the engine; spans between writes add up to the replica's time."""

    def open(self, shard: int, size: int) -> None:
        """Expect `size` outputs for `shard`."""
        self.open_shards[shard] = _OpenShard(size)

    def add(self, output: Output) -> None:
        """Take one output, and write its shard if it was the last."""
        row = self.composer.rows.pop(output.position)
        current = self.open_shards[row["shard"]]
        current.completions[output.position] = self._completion(row, output)
        current.tally.add(output)
        if len(current.completions) == current.size:
            self._write(row["shard"], self.open_shards.pop(row["shard"]))

    def _completion(self, row: dict[str, Any], output: Output) -> Completion:
        return Completion(
            model=self.composer.model.name,
            engine=self.composer.spec.engine.name,
            task=row["task"],
            style=row["style"],
            item_id=row["item_id"],
            variant=row["variant"],
            replicate=row["replicate"],
            prompt_hash=row["prompt_hash"],
            output_id=frames.output_id(output.text, output.label_logprobs, row["option_order"]),
            text=output.text,
            label_logprobs=output.label_logprobs,
            finish_reason=output.finish_reason,
            num_prompt_tokens=output.num_prompt_tokens,
            num_output_tokens=output.num_output_tokens,
        )

    def _write(self, shard: int, done: "_OpenShard") -> None:
        model, tally = self.composer.model.name, done.tally
        now = time.monotonic()
        figures = {name: getattr(tally, name) for name in Tally.__slots__} | {"replica_s": round(now - self.written, 3)}
        self.written = now
        write_json({"model": model, "shard": shard, **figures}, self.run.telemetry_path(model, shard))
        rows = [done.completions[position] for position in sorted(done.completions)]
        write_parquet(frames.from_records(Completion, rows), self.run.completion_path(model, shard))


class _OpenShard:
    """A shard whose outputs are still coming in."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.completions: dict[int, Completion] = {}
        self.tally = Tally()
