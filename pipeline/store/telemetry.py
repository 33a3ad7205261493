"""How a shard was made: the type of `telemetry/<model>/<shard>.json`.

It is the one part of a run folder that differs between equal runs.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.store.files import read_all, write_json
from pipeline.store.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """How long a shard took, and what the prefix cache saved."""

    model: str
    shard: int
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    replica_s: float
    """Seconds since the replica wrote its last shard."""


def read_telemetry(paths: Sequence[Place]) -> list[Telemetry]:
    """The figures in some files, in order."""
    return [Telemetry(**json.loads(content)) for content in read_all(paths)]


def write_telemetry(telemetry: Telemetry, path: Place) -> None:
    """Write the figures to their file."""
    write_json(dataclasses.asdict(telemetry), path)
