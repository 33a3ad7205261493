"""Scoring while generation still runs, on cores that no engine uses.

Which outputs a chunk holds is known only when all completions are there. Until then, outputs are
scored as their shards are written, and what comes of it is kept aside in `early/`. When the chunks
are cut, `score` takes it from there, so the run folder ends up the same whatever was scored when.
Only outputs that are slow to score are worth it: texts and programs, not labels.
"""

import contextlib
import functools
import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl

from pipeline import cluster, tasks
from pipeline.core import tables
from pipeline.core.records import Score
from pipeline.plan import layers
from pipeline.sandbox import run as sandbox
from pipeline.score import evaluate
from pipeline.score.distinct import Chunk, chunk_rows, distinct, how_scored, signatures
from pipeline.settings import SweepSpec, TaskSpec
from pipeline.store import Place, Run, scan_parquet, write_parquet

LOOK_EVERY_S = 2.0
"""Seconds between looks for new shards."""
BUSY_S = 0.2
"""Longest time that one step may keep the caller, who has replicas to listen to."""


class Scorer:
    """Scores outputs of a run whose completions are being made.

    Needs Ray, and whoever owns the loop calls `step` again and again.
    """

    def __init__(self, run: Run, spec: SweepSpec) -> None:
        """Nothing is read yet."""
        self.run, self.spec = run, spec
        self.running: dict[Any, tuple[str, int]] = {}
        """For each task of Ray's, the node that it is on, and its number of outputs."""
        self.num_scored = 0
        self.looked = float("-inf")

    @functools.cached_property
    def queues(self) -> list["_Queue"]:
        """One for each model and each benchmark that writes text."""
        texts = [t for t in self.spec.tasks if tasks.get(t.name, t.style).kind == "text"]
        return [_Queue(self.run, model.name, task) for model in self.spec.models for task in texts]

    def step(self, cores: Mapping[str, int]) -> str:
        """Start and end some work on at most so many `cores` of each node.

        How many outputs are scored, in words, or nothing.
        """
        if not any(cores.values()):
            return ""
        self._collect()
        free = Counter(cores)
        free.subtract(node for node, _ in self.running.values())
        if (
            any(count > 0 for count in free.values())
            and time.monotonic() - self.looked > LOOK_EVERY_S
        ):
            self.looked = time.monotonic()
            for one in self.queues:
                one.read_new(self.looked + BUSY_S)
        for node in (+free).elements():
            if (queue := next((q for q in self.queues if q.is_worth_it), None)) is not None:
                reference, size = queue.start(node)
                self.running[reference] = node, size
        return f"{self.num_scored:,} outputs scored" if self.num_scored else ""

    def _collect(self) -> None:
        import ray

        for reference in (
            ray.wait(list(self.running), num_returns=len(self.running), timeout=0)[0]
            if self.running
            else []
        ):
            _, size = self.running.pop(reference)
            # Whatever goes wrong here must not stop the engines; the stage that scores meets it
            # again.
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get(reference)
                self.num_scored += size


class _Queue:
    """Outputs of one benchmark run that are not scored yet."""

    def __init__(self, run: Run, model: str, task: TaskSpec) -> None:
        self.run, self.model, self.task = run, model, task
        self.items, self.variants = (
            run.plan_table("items").filter(task=task.name),
            run.plan_table("variants"),
        )
        self.shards = run.shards_of(task.name, task.style)
        self.waiting = pl.DataFrame()
        self.signatures, self.prefix = signatures(task, self.items), _prefix(task, self.items)
        self.seen = Known(run).rows(model, task).select("item_id", "output_id").unique()

    @property
    def is_worth_it(self) -> bool:
        """Whether enough has come together for a worker."""
        return self.waiting.height >= max(1, chunk_rows(self.task) // 4)

    def read_new(self, deadline: float) -> None:
        """Take in the outputs of shards that have been written, until the `deadline` on the
        monotonic clock.
        """
        missing = {*self.run.missing_shards(self.model, self.shards)}
        for shard in [s for s in self.shards if s not in missing]:
            if time.monotonic() > deadline:
                return
            self.shards.remove(shard)
            self._read(shard)

    def _read(self, shard: int) -> None:
        rows = scan_parquet([self.run.completion_path(self.model, shard)])
        mine = rows.filter(pl.col("task") == self.task.name, pl.col("style") == self.task.style)
        found = distinct(mine, self.items["item_id"], self.variants).rows
        new = found.join(self.seen, on=["item_id", "output_id"], how="anti", maintain_order="left")
        self.seen = pl.concat([self.seen, new.select("item_id", "output_id")])
        self.waiting = pl.concat([self.waiting, new]) if self.waiting.height else new

    def start(self, node_id: str) -> tuple[Any, int]:
        """A task on a node that scores the next outputs, and how many they are."""
        size = chunk_rows(self.task)
        rows, self.waiting = self.waiting[:size], self.waiting[size:]
        name = tables.short_hash(rows.select("item_id", "output_id").write_csv().encode())
        path = _folder(self.run, self.model, self.task) / f"{self.prefix}-{name}.parquet"
        items = self.items.filter(pl.col("item_id").is_in(rows["item_id"].implode()))
        return cluster.task(_score, node_id).remote(
            rows, items, self.signatures, layers(self.task), path.resolve()
        ), rows.height


def _score(
    rows: pl.DataFrame,
    items: pl.DataFrame,
    metrics: dict[str, str],
    confined: tuple[str, ...] | None,
    path: Place,
) -> None:
    if confined is not None:
        sandbox.use(confined)
    write_parquet(evaluate.scores(rows, items, metrics), path)


class Known:
    """What was scored early, benchmark run by benchmark run."""

    def __init__(self, run: Run) -> None:
        """Nothing is read yet."""
        self.run = run
        self._last: tuple[str, TaskSpec] | None = None
        self._rows = pl.DataFrame(schema=tables.schema(Score))

    def rows(self, model: str, task: TaskSpec) -> pl.DataFrame:
        """Rows of `Score` under the present extraction and metrics, all of an output or none."""
        if self._last != (model, task):
            prefix = _prefix(task, self.run.plan_table("items").filter(task=task.name))
            paths: list[Place] = [*_folder(self.run, model, task).glob(f"{prefix}-*.parquet")]
            self._last, self._rows = (model, task), pl.DataFrame(schema=tables.schema(Score))
            if paths:
                found = scan_parquet(sorted(paths, key=str)).collect()
                # What ran out of time beside busy engines gets another chance when they are gone.
                bad = found.filter(pl.col("status").is_in(["failed", "timeout"]))
                good = found.join(bad, on=tables.OUTPUT_KEY, how="anti")
                self._rows = good.unique(
                    [*tables.OUTPUT_KEY, "metric"], keep="first", maintain_order=True
                )
        return self._rows

    def of(self, chunk: Chunk, outputs: pl.DataFrame) -> pl.DataFrame:
        """Those of the `outputs` of a chunk."""
        return self.rows(chunk.model, chunk.task).join(outputs, on=tables.OUTPUT_KEY, how="semi")


def forget(run: Run) -> None:
    """Drop what was kept aside: it now stands in the scores."""
    folder = run.folder / "early"
    for path in folder.glob("*/*/*.parquet"):
        path.unlink()


def _folder(run: Run, model: str, task: TaskSpec) -> Place:
    return run.folder / "early" / model / f"{task.name}.{task.style}"


def _prefix(task: TaskSpec, items: pl.DataFrame) -> str:
    """How the names of early files begin, so that scores of another extraction, metric or item are
    not taken for those of now.
    """
    return tables.short_hash(
        (
            how_scored(task, items) + json.dumps(items.to_dict(as_series=False), sort_keys=True)
        ).encode()
    )
