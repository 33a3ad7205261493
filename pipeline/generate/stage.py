"""Stage 1: missing shards -> completions, on long-lived Ray replicas that each hold one engine for
the whole year.

Replicas take shards from one queue, so a fast one takes more. A replica feeds its engine from shard
after shard without letting the window drain, and writes a shard when its last output is in. One
replica or many, on one node or many, the path is the same. A replica that dies costs the shards it
was at; they go back to the queue, and another is started in its place.
"""

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import cluster, engines
from pipeline.cluster import Layout
from pipeline.core import quiet
from pipeline.core.errors import EngineError, PipelineError, StoreError
from pipeline.core.progress import Reporter, duration
from pipeline.data import checkpoints
from pipeline.generate.replica import Replica, ShardQueue, log_path
from pipeline.generate.shard_writer import Tally
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import Run, differences, write_json

START_TIMEOUT_S = 3600.0
"""Seconds an engine may take to start; the largest models load from slow disks in less."""

RESTARTS = 3
"""How often replicas of a model may die and be started again before one more of its requests is
done."""


def generate(run: Run, spec: SweepSpec, reporter: Reporter, address: str | None = None) -> None:
    """Make every completion of `run` that is not there yet.

    Models on GPU run side by side as far as there is room, see `_Crew`; on CPU they run one after
    another.

    Raises:
        EngineError: an engine cannot start, or replicas keep dying; what is written is kept, and
            the same call goes on from there. StoreError: the run was begun with another engine,
            hardware or version.
    """
    shards = run.shard_sizes()
    todo = {m.name: run.missing_shards(m.name, list(shards)) for m in spec.models}
    if not any(todo.values()):
        reporter.say("generate: every completion is there already")
        return
    with cluster.session(address) as resources:
        models = [_as_planned(run, m, reporter) for m in spec.models if todo[m.name]]
        placed = [cluster.layout(spec, m, resources, len(shards), engines.build()) for m in models]
        jobs = [
            _Job(m, where, shards, todo[m.name]) for m, where in zip(models, placed, strict=True)
        ]
        side_by_side = [job for job in jobs if job.placed.num_gpus]
        for group in [side_by_side, *([job] for job in jobs if not job.placed.num_gpus)]:
            if group:
                crew = _Crew(run, spec, group, reporter, resources)
                try:
                    crew.work()
                finally:
                    crew.end()


def _as_planned(run: Run, model: ModelSpec, reporter: Reporter) -> ModelSpec:
    """`model` at the commit it was planned with, its weights fetched, having checked that they are
    the ones of the plan.
    """
    planned = run.manifest()["settings"]["checkpoints"][model.name]
    if commit := planned.get("commit"):
        model = model.model_copy(
            update={"weights": model.weights.model_copy(update={"revision": commit})}
        )
    checkpoints.check_identity(model, checkpoints.folder(model, reporter.say), planned)
    return model


class _Job:
    """The completions of one model that are still to make, and how far they are."""

    def __init__(
        self, model: ModelSpec, placed: Layout, rows: dict[int, int], todo: list[int]
    ) -> None:
        """`rows` tells the requests of every shard of the plan, `todo` the shards that are missing."""
        self.model, self.placed, self.rows, self.todo = model, placed, rows, todo
        self.total = sum(rows.values())
        self.kept = self.best = self.total - sum(rows[s] for s in todo)
        self.deaths = 0
        self.tallies: dict[int, Tally] = {}
        """What each replica has done, by its number."""
        self.queue: Any = None

    @property
    def done(self) -> int:
        """Requests whose completions are there or have come out of an engine."""
        return self.kept + sum(tally.requests for tally in self.tallies.values())

    def count_death(self, number: int, num_finished: int) -> int:
        """Deaths since the last progress, after replica `number` died having finished shards of
        `num_finished` requests.
        """
        self.tallies.setdefault(
            number, Tally()
        ).requests = num_finished  # the others of its requests have to be made again
        self.deaths = 1 if self.done > self.best else self.deaths + 1
        self.best = max(self.best, self.done)
        return self.deaths


@dataclass(slots=True, eq=False)
class _Worker:
    """A replica as seen from here."""

    job: _Job
    number: int
    """Its own; one that is started in the place of a dead one gets another."""
    index: int
    """Which replica of its model it is: the number of its log."""
    node_id: str
    actor: Any
    awaited: Any
    """The facts of its engine while it starts, then the stream of its tallies."""
    begun: float
    has_started: bool = False


class _Crew:
    """The replicas of one model or of several, from the first start to the last shard.

    Room is dealt one replica at a time, to the model that has fewest; among equals, to the one
    whose replicas need most GPUs, then to the first in the sweep. So every model runs if there is
    room for all, those that wait come before those that could run wider, and what a model no longer
    needs goes to the others at once.
    """

    def __init__(
        self,
        run: Run,
        spec: SweepSpec,
        jobs: list[_Job],
        reporter: Reporter,
        resources: cluster.Resources,
    ) -> None:
        """Nothing is started yet."""
        self.run, self.spec, self.jobs, self.reporter = run, spec, jobs, reporter
        self.fingerprint = run.manifest()["fingerprint"]
        self.room = cluster.Room(resources)
        self.room.keep_only({node.node_id for node in cluster.nodes()})
        self.workers: list[_Worker] = []
        self.numbers = itertools.count()
        self.started_s = time.monotonic()

    def work(self) -> None:
        """Make every missing shard of the models."""
        for job in self.jobs:
            if job.kept:
                left = (
                    f"{job.kept:,} of {job.total:,} completions are there already, "
                    f"{job.total - job.kept:,} to do"
                )
                self.reporter.say(f"generate {job.model.name}: {left}")
            job.queue = _actor(ShardQueue, _here(), num_cpus=0).remote(job.todo)
        self._deal()
        names = ", ".join(dict.fromkeys(w.job.model.name for w in self.workers))
        with self.reporter.waiting(
            f"starting {len(self.workers)} engine{'s' * (len(self.workers) > 1)} for "
            f"{names} (logs: {self.run.logs})"
        ):
            while self.workers and not any(worker.has_started for worker in self.workers):
                self._listen()
        self.started_s = time.monotonic()
        title = (
            f"generate {self.jobs[0].model.name}"
            if len(self.jobs) == 1
            else f"generate {len(self.jobs)} models"
        )
        with self.reporter.stage(title, sum(job.total for job in self.jobs), "requests") as stage:
            while self.workers:
                self._listen()
                stage.update(sum(job.done for job in self.jobs), self._detail())
        if unmade := [job.model.name for job in self.jobs if job.done < job.total]:
            raise EngineError(
                f"no node is left with room for a replica of {', '.join(unmade)}; {_KEPT}"
            )

    def end(self) -> None:
        """End the replicas that an error has left, as Ray may outlive this stage."""
        for worker in [*self.workers]:
            self._dismiss(worker)

    def _deal(self) -> None:
        """Start replicas until there is no room or no work for another."""
        import ray

        while True:
            mine = {job: [w for w in self.workers if w.job is job] for job in self.jobs}
            for job in sorted(self.jobs, key=lambda j: (len(mine[j]), -j.placed.num_gpus)):
                starting = sum(not w.has_started for w in mine[job])
                if (
                    len(mine[job]) >= job.placed.num_replicas
                    or ray.get(job.queue.left.remote()) <= starting
                ):
                    continue
                if node := self.room.take(job.placed.num_cpus, job.placed.num_gpus):
                    self._start(job, node, {w.index for w in mine[job]})
                    break
            else:
                return

    def _start(self, job: _Job, node_id: str, taken: set[int]) -> None:
        index = next(i for i in itertools.count() if i not in taken)
        kind = _actor(Replica, node_id, num_cpus=job.placed.num_cpus, num_gpus=job.placed.num_gpus)
        actor = kind.remote(self.run.folder.resolve(), self.spec, job.model, job.placed)
        facts = actor.start.remote(self.fingerprint, index)
        self.workers.append(
            _Worker(job, next(self.numbers), index, node_id, actor, facts, time.monotonic())
        )

    def _listen(self) -> None:
        """Hear what replicas have to say, for a few seconds at most."""
        import ray

        ready, _ = ray.wait([worker.awaited for worker in self.workers], num_returns=1, timeout=5.0)
        for worker in [w for w in self.workers if w.awaited in ready]:
            self._hear(worker)
        for worker in [w for w in self.workers if not w.has_started]:
            if worker.job.done == worker.job.total:
                self._dismiss(worker)  # the others were faster
                self._deal()
            elif time.monotonic() - worker.begun > START_TIMEOUT_S:
                raise EngineError(
                    "an engine did not start within "
                    f"{duration(START_TIMEOUT_S)}\n{self._end_of_log(worker)}"
                )

    def _hear(self, worker: _Worker) -> None:
        import ray

        try:
            if worker.has_started:
                worker.job.tallies[worker.number] = ray.get(next(worker.awaited))
            else:
                _record_facts(self.run, worker.job.model, ray.get(worker.awaited))
                worker.awaited = worker.actor.work.remote(worker.job.queue, worker.number)
                worker.has_started = True
        except StopIteration:
            self._dismiss(worker)
            self._say_if_done(worker.job)
            self._deal()
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, PipelineError):
                raise cause from None
            self._replace(worker, cause if isinstance(cause, Exception) else error)

    def _dismiss(self, worker: _Worker) -> None:
        """End a replica and free its room.

        Ray starts the next one there when the process is gone.
        """
        import ray

        self.workers.remove(worker)
        ray.kill(worker.actor)
        self.room.give(worker.node_id, worker.job.placed.num_cpus, worker.job.placed.num_gpus)

    def _replace(self, worker: _Worker, error: Exception) -> None:
        """Put the shards of a dead replica back and start another.

        Raises:
            EngineError: that has been tried often enough.
        """
        import ray

        job, name = worker.job, worker.job.model.name
        self._dismiss(worker)
        handed = ray.get(job.queue.handed.remote(worker.number))
        unfinished = self.run.missing_shards(name, handed)
        ray.get(job.queue.bury.remote(worker.number, unfinished))
        deaths = job.count_death(worker.number, sum(job.rows[s] for s in {*handed} - {*unfinished}))
        what = (
            f"replica {worker.index} of {name} died ({type(error).__name__}: {_first_line(error)})"
        )
        if deaths > RESTARTS:
            raise EngineError(
                f"{what}, {deaths} times without progress in between; "
                f"{_KEPT}\n{self._end_of_log(worker)}"
            )
        self.reporter.say(f"{what}; its unfinished shards ({len(unfinished)}) go back to the queue")
        self.room.keep_only({node.node_id for node in cluster.nodes()})
        self._deal()

    def _say_if_done(self, job: _Job) -> None:
        if (
            len(self.jobs) > 1
            and job.done == job.total
            and not any(w.job is job for w in self.workers)
        ):
            seconds = duration(time.monotonic() - self.started_s)
            self.reporter.say(
                f"generate {job.model.name}: {job.total:,} requests, done {seconds} after "
                "the first engine started"
            )

    def _detail(self) -> str:
        """Tokens per second of all replicas together.

        Where models run side by side, how far each is stands before it.
        """
        tallies = [tally for job in self.jobs for tally in job.tallies.values()]
        together = Tally(*(sum(getattr(t, name) for t in tallies) for name in Tally.__slots__))
        text = together.text(time.monotonic() - self.started_s) if together.requests else ""
        running = [job for job in self.jobs if any(w.job is job for w in self.workers)]
        shares = (
            ", ".join(f"{job.model.name} {100 * job.done // job.total}%" for job in running)
            if len(self.jobs) > 1
            else ""
        )
        return "; ".join(filter(None, [shares, text]))

    def _log(self, worker: _Worker) -> Path:
        return log_path(self.run, worker.job.model, worker.index)

    def _end_of_log(self, worker: _Worker) -> str:
        return f"the end of {self._log(worker)}:\n{quiet.tail(self._log(worker))}"


_KEPT = "completions already written are kept, and the same command goes on from there"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _here() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _actor(kind: type, node_id: str, **resources: Any) -> Any:
    """`kind` as an actor on the node, or on another if that one has gone."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return ray.remote(kind).options(
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=True), **resources
    )


def _record_facts(run: Run, model: ModelSpec, facts: dict[str, Any]) -> None:
    """Keep what the engine honoured, and refuse to go on with another engine than the run was begun
    with.
    """
    path = run.folder / "engines" / f"{model.name}.json"
    if not path.is_file():
        write_json(facts, path)
        return
    if lines := differences(run.engine_facts(model.name), facts):
        raise StoreError(
            f"{run.folder} was begun with another engine for {model.name}; mixing them "
            "could pass for an effect of the date:\n  "
            + "\n  ".join(lines)
            + "\nGo on where it was begun, or give another folder with --out."
        )
