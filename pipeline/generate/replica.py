"""One engine in a process of its own, which makes shard after shard."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import cluster, engines
from pipeline.core import quiet
from pipeline.core.errors import EngineError, StoreError
from pipeline.data import checkpoints
from pipeline.generate.requests import Composer
from pipeline.generate.shard_writer import ShardWriter, Tally
from pipeline.settings import ModelSpec, SimulatedSpec, SweepSpec
from pipeline.store import EngineFacts, Place, Run

REPORT_EVERY_S = 0.5
"""Seconds between progress reports of a replica."""


def log_path(run: Run, model: ModelSpec, index: int) -> Path:
    """Where the replica number `index` of `model` writes what it and vLLM say."""
    return run.logs / f"engine-{model.name}-{index}.log"


class Replica:
    """One engine for one model; an actor."""

    def __init__(
        self, folder: Place, spec: SweepSpec, model: ModelSpec, layout: cluster.Layout
    ) -> None:
        """Nothing is read or started yet: Ray does not tell the cause of an error raised here."""
        self.run, self.spec, self.model, self.layout = Run(folder), spec, model, layout

    def start(self, fingerprint: str, index: int) -> EngineFacts:
        """The engine's facts, once the plan is loaded and the engine has started.

        `fingerprint` is the run's, as the node that started it sees it.

        Raises:
            EngineError: this node does not see the run folder, or the engine cannot start.
        """
        self._check_folder(fingerprint)
        quiet.redirect_output(log_path(self.run, self.model, index))
        sys.stderr.write(
            f"replica {index} of {self.model.name}: process {os.getpid()} on "
            f"{socket.gethostname()}, Ray node {cluster.own_node()}\n"
        )
        self.composer = Composer(self.run, self.spec, self.model)
        self.engine = self._engine()
        return self.engine.facts()

    def work(self, queue: Any, number: int) -> Iterator[Tally]:
        """What is done so far, now and then, until the `ShardQueue` has nothing left.

        The queue knows this replica by its `number`.
        """
        import ray

        composer = self.composer
        writer = ShardWriter(self.run, composer.plan, self.model.name, self.spec.engine.name)
        requests = composer.requests(lambda: ray.get(queue.take.remote(number)), writer.open)
        tally, reported = Tally(), time.monotonic()
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
            seen = self.run.manifest().fingerprint
        except (OSError, StoreError) as error:
            raise EngineError(
                f"node {host} cannot read the run folder {folder} "
                f"({type(error).__name__}: {error}); {_SHARED}"
            ) from None
        if seen != fingerprint:
            raise EngineError(
                f"node {host} sees another run in {folder} than the node that started this one; "
                f"{_SHARED}"
            )

    def _engine(self) -> engines.Engine:
        model, layout = self.model, self.layout
        if model.backend == "counting":
            return engines.CountingEngine()
        if model.backend == "simulated":
            spec = model.simulated or SimulatedSpec()
            return engines.SimulatedEngine(spec, self.composer.pretended)
        resolved = engines.resolve(
            self.spec.engine,
            model,
            checkpoints.folder(model),
            device=layout.device,
            threads=layout.threads,
            max_model_len=self.run.prompts()[model.name].max_model_len,
        )
        return engines.VllmEngine(resolved)


_SHARED = "a run on several nodes must be in a folder that all of them share: give one with --out"
