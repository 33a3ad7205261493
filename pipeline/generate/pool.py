"""The replicas of one model or of several: who starts where, who died, who is done."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pipeline import cluster
from pipeline.cluster import Layout, Resources
from pipeline.core import quiet
from pipeline.core.errors import EngineError, PipelineError, StoreError
from pipeline.core.progress import Reporter, duration
from pipeline.generate.replica import Replica, log_path
from pipeline.generate.shard_queue import ShardQueue
from pipeline.generate.shard_writer import Tally
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import EngineFacts, Run, differences

START_TIMEOUT_S = 3600.0
"""Seconds an engine may take to start; the largest models load from slow disks in less."""

RESTARTS = 3
"""How often replicas of a model may die and be started again before one more of its requests is
done."""

RESUMES = "completions already written are kept, and the same command goes on from there"


class Job:
    """The completions of one model that are still to make, and how far they are."""

    def __init__(
        self, model: ModelSpec, layout: Layout, shard_sizes: Mapping[int, int], missing: list[int]
    ) -> None:
        """`shard_sizes` has the requests of every shard of the plan; `missing` are to be made."""
        self.model, self.layout, self.missing = model, layout, missing
        self.shard_sizes = shard_sizes
        self.total = sum(shard_sizes.values())
        self.kept = self.best = self.total - self.num_requests(missing)
        self.deaths = 0
        self.tallies: dict[int, Tally] = {}
        """What each replica has done, by its number."""

    @property
    def done(self) -> int:
        """Requests whose completions are there or have come out of an engine."""
        return self.kept + sum(tally.requests for tally in self.tallies.values())

    def num_requests(self, shards: Sequence[int]) -> int:
        """Requests of some shards together."""
        return sum(self.shard_sizes[shard] for shard in shards)

    def count_death(self, number: int, finished: Sequence[int]) -> int:
        """Deaths since the last progress, after replica `number` died with `finished` shards.

        The others of its requests have to be made again.
        """
        self.tallies.setdefault(number, Tally()).requests = self.num_requests(finished)
        self.deaths = 1 if self.done > self.best else self.deaths + 1
        self.best = max(self.best, self.done)
        return self.deaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one model could do with more room."""

    layout: Layout
    num_replicas: int
    """That it has, the starting ones included."""
    num_starting: int
    shards_left: int
    """Shards that no replica was given yet; each starting replica will take one."""


def next_start(demands: Sequence[Demand], room: Resources) -> tuple[int, str] | None:
    """Which of the models gets another replica, and on which node; None when none can or should.

    Room is dealt one replica at a time, to the model that has fewest; among equals, to the one
    whose replicas need most GPUs, then to the first in the sweep. So every model runs if there is
    room for all, those that wait come before those that could run wider, and what a model no longer
    needs goes to the others at once.
    """
    ranked = sorted(enumerate(demands), key=lambda d: (d[1].num_replicas, -d[1].layout.num_gpus))
    for number, demand in ranked:
        layout = demand.layout
        if demand.num_replicas >= layout.num_replicas or demand.shards_left <= demand.num_starting:
            continue
        if node_id := room.best_node(layout.num_cpus, layout.num_gpus):
            return number, node_id
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """A replica as seen from here."""

    job: Job
    number: int
    """Its own; one that is started in the place of a dead one gets another."""
    index: int
    """Which replica of its model it is: the number of its log."""
    node_id: str
    actor: Any


@dataclass(frozen=True, slots=True)
class Starting:
    """A worker's engine starts."""

    awaited: Any
    """A reference to the facts of its engine."""
    begun: float


@dataclass(frozen=True, slots=True)
class Running:
    """A worker makes shards."""

    awaited: Any
    """The stream of references to its tallies."""


class ReplicaPool:
    """The replicas of some models, from the first start to the last shard."""

    def __init__(
        self,
        run: Run,
        spec: SweepSpec,
        jobs: Sequence[Job],
        reporter: Reporter,
        resources: Resources,
    ) -> None:
        """Nothing is started yet, and nothing outlives the pool's context."""
        self.run, self.spec, self.jobs, self.reporter = run, spec, jobs, reporter
        self.room = resources
        self.fingerprint = run.manifest().fingerprint
        queue = cluster.actor(ShardQueue, cluster.own_node(), num_cpus=0)
        self.queues = {job: queue.remote(job.missing) for job in jobs}
        self.workers: dict[Worker, Starting | Running] = {}
        self.numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # An error leaves replicas, and Ray may outlive this stage.
        for worker in [*self.workers]:
            self._dismiss(worker)

    def of(self, job: Job) -> list[Worker]:
        """The replicas of a job."""
        return [worker for worker in self.workers if worker.job is job]

    @property
    def has_started(self) -> bool:
        """Whether an engine runs, or nothing is left that could start."""
        return not self.workers or any(isinstance(w, Running) for w in self.workers.values())

    def listen(self) -> None:
        """Hear what replicas have to say, for a few seconds at most, and act on it.

        Raises:
            EngineError: an engine does not start, or a model's replicas keep dying.
            StoreError: the run was begun with another engine.
        """
        import ray

        awaited = [state.awaited for state in self.workers.values()]
        ready, _ = ray.wait(awaited, num_returns=1, timeout=5.0)
        for worker in [w for w, state in self.workers.items() if state.awaited in ready]:
            self._hear(worker)
        for worker, state in [*self.workers.items()]:
            if isinstance(state, Running):
                continue
            if worker.job.done == worker.job.total:
                self._dismiss(worker)  # the others were faster
                self.deal()
            elif time.monotonic() - state.begun > START_TIMEOUT_S:
                raise EngineError(
                    f"an engine did not start within {duration(START_TIMEOUT_S)}\n"
                    f"{self._end_of_log(worker)}"
                )

    def deal(self) -> None:
        """Start replicas until there is no room or no work for another."""
        import ray

        self.room = self.room.only({node.node_id for node in cluster.nodes()})
        left = [ray.get(self.queues[job].left.remote()) for job in self.jobs]
        while start := next_start(self._demands(left), self._free()):
            self._start(self.jobs[start[0]], start[1])

    def _demands(self, shards_left: list[int]) -> list[Demand]:
        return [
            Demand(
                layout=job.layout,
                num_replicas=len(self.of(job)),
                num_starting=sum(isinstance(self.workers[w], Starting) for w in self.of(job)),
                shards_left=left,
            )
            for job, left in zip(self.jobs, shards_left, strict=True)
        ]

    def _free(self) -> Resources:
        """What replicas leave free. Ray's own books agree with it if nobody else is there."""
        free = self.room
        for worker in self.workers:
            layout = worker.job.layout
            free = free.without(worker.node_id, layout.num_cpus, layout.num_gpus)
        return free

    def _start(self, job: Job, node_id: str) -> None:
        layout, taken = job.layout, {worker.index for worker in self.of(job)}
        index = next(i for i in itertools.count() if i not in taken)
        needs = {"num_cpus": layout.num_cpus, "num_gpus": layout.num_gpus}
        folder = self.run.folder.resolve()
        actor = cluster.actor(Replica, node_id, **needs).remote(
            folder, self.spec, job.model, layout
        )
        worker = Worker(job, next(self.numbers), index, node_id, actor)
        facts = actor.start.remote(self.fingerprint, index)
        self.workers[worker] = Starting(facts, time.monotonic())

    def _hear(self, worker: Worker) -> None:
        import ray

        job, state = worker.job, self.workers[worker]
        try:
            if isinstance(state, Starting):
                _record_facts(self.run, job.model.name, ray.get(state.awaited))
                tallies = worker.actor.work.remote(self.queues[job], worker.number)
                self.workers[worker] = Running(tallies)
            else:
                job.tallies[worker.number] = ray.get(next(state.awaited))
        except StopIteration:
            self._dismiss(worker)
            self.deal()
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, PipelineError):
                raise cause from None
            self._replace(worker, cause if isinstance(cause, Exception) else error)

    def _dismiss(self, worker: Worker) -> None:
        """End a replica; Ray starts the next one in its room when the process is gone."""
        import ray

        del self.workers[worker]
        ray.kill(worker.actor)

    def _replace(self, worker: Worker, error: Exception) -> None:
        """Put the shards of a dead replica back and start another.

        Raises:
            EngineError: that has been tried often enough.
        """
        import ray

        job, queue = worker.job, self.queues[worker.job]
        self._dismiss(worker)
        handed = ray.get(queue.handed.remote(worker.number))
        unfinished = self.run.missing_shards(job.model.name, handed)
        ray.get(queue.bury.remote(worker.number, unfinished))
        deaths = job.count_death(worker.number, [*{*handed} - {*unfinished}])
        cause = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        died = f"replica {worker.index} of {job.model.name} died ({cause})"
        if deaths > RESTARTS:
            raise EngineError(
                f"{died}, {deaths} times without progress in between; {RESUMES}\n"
                f"{self._end_of_log(worker)}"
            )
        self.reporter.say(f"{died}; its unfinished shards ({len(unfinished)}) go back to the queue")
        self.deal()

    def _end_of_log(self, worker: Worker) -> str:
        log = log_path(self.run, worker.job.model, worker.index)
        return f"the end of {log}:\n{quiet.tail(log)}"


def _record_facts(run: Run, model: str, facts: EngineFacts) -> None:
    """Keep what the engine honoured.

    Raises:
        StoreError: the run was begun with another engine, hardware or version.
    """
    begun_with = run.engine_facts(model)
    if begun_with is None:
        run.write_engine_facts(model, facts)
    elif lines := differences(begun_with.as_json(), facts.as_json()):
        raise StoreError(
            f"{run.folder} was begun with another engine for {model}; mixing them could pass for "
            "an effect of the date:\n  "
            + "\n  ".join(lines)
            + "\nGo on where it was begun, or give another folder with --out."
        )
