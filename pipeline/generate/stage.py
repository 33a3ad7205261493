"""Stage 1: missing shards -> completions, by replicas that each hold one engine for the whole year.

Replicas take shards from one queue, so a fast one takes more. A replica feeds its engine from shard
after shard without letting the window drain, and writes a shard when its last output is in. One
replica or many, on one node or many, the path is the same. A replica that dies costs the shards it
was at; they go back to the queue, and another is started in its place.
"""

import time
from collections.abc import Sequence

from pipeline import cluster, engines
from pipeline.core.errors import EngineError
from pipeline.core.progress import Reporter, duration
from pipeline.data import checkpoints
from pipeline.generate.pool import RESUMES, Job, ReplicaPool
from pipeline.generate.shard_writer import Tally
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import Run


def generate(run: Run, spec: SweepSpec, reporter: Reporter, address: str | None = None) -> None:
    """Make every completion of `run` that is not there yet.

    Models on GPU run side by side as far as there is room (`pool.next_start`); on CPU they run one
    after another.

    Raises:
        EngineError: an engine cannot start, or replicas keep dying; what is written is kept, and
            the same call goes on from there.
        StoreError: the run was begun with another engine, hardware or version.
    """
    sizes = run.shard_sizes()
    missing = {m.name: run.missing_shards(m.name, list(sizes)) for m in spec.models}
    if not any(missing.values()):
        reporter.say("generate: every completion is there already")
        return
    with cluster.session(address) as resources:
        models = [_as_planned(run, m, reporter) for m in spec.models if missing[m.name]]
        jobs = [
            Job(
                model,
                cluster.layout(spec, model, resources, len(sizes), engines.build()),
                sizes,
                missing[model.name],
            )
            for model in models
        ]
        on_gpu = [job for job in jobs if job.layout.num_gpus]
        for group in [on_gpu, *([job] for job in jobs if job not in on_gpu)]:
            if group:
                _tell_kept(group, reporter)
                with ReplicaPool(run, spec, group, reporter, resources) as pool:
                    _work_through(pool)


def _as_planned(run: Run, model: ModelSpec, reporter: Reporter) -> ModelSpec:
    """`model` at the commit it was planned with, its weights fetched and compared to the plan's."""
    planned = run.manifest().settings.checkpoints[model.name]
    if commit := planned.get("commit"):
        weights = model.weights.model_copy(update={"revision": commit})
        model = model.model_copy(update={"weights": weights})
    checkpoints.check_identity(model, checkpoints.folder(model, reporter.say), planned)
    return model


def _tell_kept(jobs: Sequence[Job], reporter: Reporter) -> None:
    for job in jobs:
        if job.kept:
            reporter.say(
                f"generate {job.model.name}: {job.kept:,} of {job.total:,} completions are there "
                f"already, {job.total - job.kept:,} to do"
            )


def _work_through(pool: ReplicaPool) -> None:
    """Listen to the replicas of a pool, and say how far they are, until none is left."""
    jobs, reporter = pool.jobs, pool.reporter
    pool.deal()
    names = ", ".join(dict.fromkeys(w.job.model.name for w in pool.workers))
    engines_ = f"{len(pool.workers)} engine{'s' * (len(pool.workers) > 1)}"
    with reporter.waiting(f"starting {engines_} for {names} (logs: {pool.run.logs})"):
        while not pool.has_started:
            pool.listen()
    started = time.monotonic()
    several = len(jobs) > 1
    title = f"generate {len(jobs)} models" if several else f"generate {jobs[0].model.name}"
    finished: set[Job] = set()
    with reporter.stage(title, sum(job.total for job in jobs), "requests") as stage:
        while pool.workers:
            pool.listen()
            seconds = time.monotonic() - started
            stage.update(sum(job.done for job in jobs), _detail(pool, seconds))
            for job in [j for j in jobs if several and j not in finished and _is_over(pool, j)]:
                finished.add(job)
                reporter.say(
                    f"generate {job.model.name}: {job.total:,} requests, done {duration(seconds)} "
                    "after the first engine started"
                )
    if unmade := [job.model.name for job in jobs if job.done < job.total]:
        raise EngineError(
            f"no node is left with room for a replica of {', '.join(unmade)}; {RESUMES}"
        )


def _is_over(pool: ReplicaPool, job: Job) -> bool:
    return job.done == job.total and not pool.of(job)


def _detail(pool: ReplicaPool, seconds: float) -> str:
    """Tokens per second of all replicas; before it, how far each of several models is."""
    tallies = [tally for job in pool.jobs for tally in job.tallies.values()]
    together = Tally.sum(tallies)
    shares = [
        f"{job.model.name} {100 * job.done // job.total}%" for job in pool.jobs if pool.of(job)
    ]
    rate = together.text(seconds) if together.requests else ""
    return "; ".join(filter(None, [", ".join(shares) if len(pool.jobs) > 1 else "", rate]))
