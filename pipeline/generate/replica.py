"""One engine in a process of its own: it takes shards from a queue, keeps its window full across
them, and writes each when it is whole.
"""

import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import engines
from pipeline.cluster import Layout
from pipeline.core import quiet
from pipeline.core.errors import EngineError
from pipeline.data import checkpoints
from pipeline.engines import CountingEngine, SimulatedEngine
from pipeline.generate.requests import Composer
from pipeline.generate.shard_writer import ShardWriter, Tally
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import Place, Run

REPORT_EVERY_S = 0.5
"""Seconds between progress reports of a replica."""


def log_path(run: Run, model: ModelSpec, index: int) -> Path:
    """Where the replica number `index` of `model` writes what it and vLLM say."""
    return run.logs / f"engine-{model.name}-{index}.log"


class ShardQueue:
    """Shards still to be made, as ranges of neighbours, since neighbours share prefixes.

    An actor, shared by the replicas of a model.

    A replica works through a range of its own. One that has none left takes the second half of the
    longest range, so a fast replica relieves a slow one, and each keeps to neighbours while it can.
    Which replica makes a shard leaves no trace in it.
    """

    def __init__(self, shards: list[int]) -> None:
        """`shards` in plan order."""
        self._ownerless: list[deque[int]] = [deque(shards)]
        self._ranges: dict[int, deque[int]] = {}
        self._handed: dict[int, list[int]] = {}
        self._gone: set[int] = set()

    def take(self, replica: int) -> int | None:
        """The next shard for `replica`, or None when all are handed out."""
        if replica in self._gone:  # a call that was still on its way when its replica died
            return None
        own = self._ranges.setdefault(replica, deque())
        if not own:
            own.extend(self._range())
        if not own:
            return None
        self._handed.setdefault(replica, []).append(own[0])
        return own.popleft()

    def left(self) -> int:
        """Shards not handed out yet."""
        return sum(map(len, [*self._ownerless, *self._ranges.values()]))

    def handed(self, replica: int) -> list[int]:
        """Every shard that the dead `replica` was given, finished or not.

        From now on it gets none.
        """
        self._gone.add(replica)
        return self._handed.pop(replica, [])

    def bury(self, replica: int, unfinished: list[int]) -> None:
        """Hand out again the `unfinished` shards of a dead `replica`, and then the rest of its
        range.
        """
        self._ownerless.append(deque([*unfinished, *self._ranges.pop(replica, ())]))

    def _range(self) -> list[int]:
        """The longest range without an owner, else the second half of the longest of another
        replica; empty when nothing is left.
        """
        self._ownerless = sorted(filter(None, self._ownerless), key=len)
        if self._ownerless:
            return list(self._ownerless.pop())
        longest = max(self._ranges.values(), key=len)
        return [longest.pop() for _ in range((len(longest) + 1) // 2)][::-1]


class Replica:
    """One engine in a process of its own, for one model."""

    def __init__(self, folder: Place, spec: SweepSpec, model: ModelSpec, placed: Layout) -> None:
        """Nothing is read or started yet: Ray tells the cause of an error only where it is raised
        outside this method.
        """
        self.run, self.spec, self.model, self.placed = Run(folder), spec, model, placed

    def start(self, fingerprint: str, index: int) -> dict[str, Any]:
        """The engine's facts, once the plan is loaded and the engine has started.

        `fingerprint` is the run's, as who asks sees it.

        Raises:
            EngineError: this node does not see the run folder, or the engine cannot start.
        """
        self._check_folder(fingerprint)
        quiet.redirect_output(log_path(self.run, self.model, index))
        sys.stderr.write(
            f"replica {index} of {self.model.name}: process {os.getpid()} on "
            f"{socket.gethostname()}, Ray node {_node_id()}\n"
        )
        self.composer = Composer(self.run, self.spec, self.model)
        self.engine = self._engine()
        return self.engine.facts()

    def work(self, queue: Any, replica: int) -> Iterator[Tally]:
        """Make shards from `queue`, which knows this replica as `replica`, until it is empty,
        yielding now and then what is done so far.
        """
        import ray

        writer, tally, reported = ShardWriter(self.run, self.composer), Tally(), time.monotonic()
        requests = self.composer.requests(lambda: ray.get(queue.take.remote(replica)), writer.open)
        for output in self.engine.generate(requests):
            writer.add(output)
            tally.add(output)
            if time.monotonic() - reported >= REPORT_EVERY_S:
                reported = time.monotonic()
                yield tally
        yield tally

    def _check_folder(self, fingerprint: str) -> None:
        folder, host = self.run.folder, socket.gethostname()
        try:
            found = self.run.manifest()["fingerprint"]
        except (OSError, ValueError, KeyError) as error:
            raise EngineError(
                f"node {host} cannot read the run folder {folder} ({type(error).__name__}: "
                f"{error}); {_SHARED}"
            ) from None
        if found != fingerprint:
            raise EngineError(
                f"node {host} sees another run in {folder} than the node that started this "
                f"one; {_SHARED}"
            )

    def _engine(self) -> engines.Engine:
        model, placed = self.model, self.placed
        if (
            model.backend == "simulated"
            and model.simulated is not None
            and model.simulated.counts_only
        ):
            return CountingEngine()
        if model.backend == "simulated" and model.simulated is not None:
            return SimulatedEngine(model.simulated, self.composer.pretended)
        folder = checkpoints.folder(model)
        needed = self.run.prompts()[model.name].max_model_len
        return engines.VllmEngine(
            engines.resolve(
                self.spec.engine,
                model,
                folder,
                device=placed.device,
                threads=placed.threads,
                max_model_len=needed,
            )
        )


_SHARED = "a run on several nodes must be in a folder that all of them share: give one with --out"


def _node_id() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())
