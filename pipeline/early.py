"""Scoring while generation still runs, on cores that no engine uses.

Which outputs a chunk holds is known only when all completions are there. Until then, outputs are scored as their shards are written, and
what comes of it is kept aside in `early/`. When the chunks are cut, `score` takes it from there, so the run folder ends up the same
whatever was scored when. Only outputs that are slow to score are worth it: texts and programs, not labels.
"""

import contextlib
import json
import time
from typing import Any

import polars as pl

from pipeline import cluster, frames, judge, tasks
from pipeline.chunks import Chunk, chunk_rows, distinct, judges, signatures
from pipeline.config import SweepSpec, TaskSpec
from pipeline.places import Place
from pipeline.records import Score
from pipeline.store import Run, scan_parquet, write_parquet

LOOK_EVERY_S = 2.0
"""Seconds between looks for new shards."""
BUSY_S = 0.2
"""Longest time that one step may keep the caller, who has replicas to listen to."""


class Scorer:
    """Scores outputs of a run whose completions are being made; needs Ray, and whoever owns the loop calls `step` again and again."""

    def __init__(self, run: Run, spec: SweepSpec) -> None:
        """Nothing is read yet."""
        self.run = run
        self.todo = [_Queue(run, m.name, t) for m in spec.models for t in spec.tasks if tasks.get(t.name, t.style).kind == "text"]
        self.running: dict[Any, int] = {}
        self.num_scored = 0
        self.looked = float("-inf")

    def step(self, num_cpus: int) -> str:
        """Start and end some work on at most `num_cpus` cores; how many outputs are scored, in words, or nothing."""
        if not num_cpus or not self.todo:
            return ""
        self._collect()
        if len(self.running) < num_cpus and time.monotonic() - self.looked > LOOK_EVERY_S:
            self.looked = time.monotonic()
            for queue in self.todo:
                queue.read_new(self.looked + BUSY_S)
        for queue in self.todo:
            while len(self.running) < num_cpus and queue.is_worth_it:
                reference, size = queue.start()
                self.running[reference] = size
        return f"{self.num_scored:,} outputs scored" if self.num_scored else ""

    def _collect(self) -> None:
        import ray

        for reference in ray.wait(list(self.running), num_returns=len(self.running), timeout=0)[0] if self.running else []:
            size = self.running.pop(reference)
            # What kills its worker is found when the chunks are scored.
            with contextlib.suppress(*cluster.worker_deaths()):
                ray.get(reference)
                self.num_scored += size


class _Queue:
    """Outputs of one benchmark run that are not scored yet."""

    def __init__(self, run: Run, model: str, task: TaskSpec) -> None:
        self.run, self.model, self.task = run, model, task
        self.items, self.variants = run.plan_table("items").filter(task=task.name), run.plan_table("variants")
        self.shards = _shards(run, task)
        self.waiting = pl.DataFrame()
        self.signatures = signatures(task, self.items)
        self.seen = Known(run).rows(model, task).select("item_id", "output_id").unique()

    @property
    def is_worth_it(self) -> bool:
        """Whether enough has come together for a worker."""
        return self.waiting.height >= max(1, chunk_rows(self.task) // 4)

    def read_new(self, deadline: float) -> None:
        """Take in the outputs of shards that have been written, until the `deadline` on the monotonic clock."""
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

    def start(self) -> tuple[Any, int]:
        """A task that scores the next outputs, and how many they are."""
        import ray

        size = chunk_rows(self.task)
        rows, self.waiting = self.waiting[:size], self.waiting[size:]
        name = frames.short_hash(rows.select("item_id", "output_id").write_csv().encode())
        path = _folder(self.run, self.model, self.task) / f"{_judges(self.task, self.items)}-{name}.parquet"
        items = self.items.filter(pl.col("item_id").is_in(rows["item_id"].implode()))
        return ray.remote(num_cpus=1, max_retries=0)(_score).remote(rows, items, self.signatures, path.resolve()), rows.height


def _score(rows: pl.DataFrame, items: pl.DataFrame, metrics: dict[str, str], path: Place) -> None:
    write_parquet(judge.scores(rows, items, metrics), path)


class Known:
    """What was scored early, benchmark run by benchmark run."""

    def __init__(self, run: Run) -> None:
        """Nothing is read yet."""
        self.run = run
        self._last: tuple[str, TaskSpec] | None = None
        self._rows = pl.DataFrame(schema=frames.schema(Score))

    def rows(self, model: str, task: TaskSpec) -> pl.DataFrame:
        """Rows of `Score` under the present extraction and metrics, all of an output or none."""
        if self._last != (model, task):
            judged = _judges(task, self.run.plan_table("items").filter(task=task.name))
            paths: list[Place] = [*_folder(self.run, model, task).glob(f"{judged}-*.parquet")]
            self._last, self._rows = (model, task), pl.DataFrame(schema=frames.schema(Score))
            if paths:
                found = scan_parquet(sorted(paths, key=str)).collect()
                bad = found.filter(status="failed")
                self._rows = found.join(bad, on=frames.OUTPUT_KEY, how="anti").unique([*frames.OUTPUT_KEY, "metric"])
        return self._rows

    def of(self, chunk: Chunk, outputs: pl.DataFrame) -> pl.DataFrame:
        """Those of the `outputs` of a chunk."""
        return self.rows(chunk.model, chunk.task).join(outputs, on=frames.OUTPUT_KEY, how="semi")


def forget(run: Run) -> None:
    """Drop what was kept aside: it now stands in the scores."""
    folder = run.folder / "early"
    for path in folder.glob("*/*/*.parquet"):
        path.unlink()


def _folder(run: Run, model: str, task: TaskSpec) -> Place:
    return run.folder / "early" / model / f"{task.name}.{task.style}"


def _judges(task: TaskSpec, items: pl.DataFrame) -> str:
    """Part of the names of early files: scores of another extraction, metric or item are not taken for those of now."""
    return frames.short_hash((judges(task, items) + json.dumps(items.to_dict(as_series=False), sort_keys=True)).encode())


def _shards(run: Run, task: TaskSpec) -> list[int]:
    """Shards of the plan that ask the task, in order."""
    asked = run.plan_table("asked").with_row_index("item").filter(task=task.name, style=task.style)["item"]
    wanted = run.plan_table("requests").lazy().filter(pl.col("item").is_in(asked.implode())).select(pl.col("shard").unique().sort())
    return wanted.collect()["shard"].to_list()
