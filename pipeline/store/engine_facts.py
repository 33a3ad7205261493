"""What an engine honoured when it started: the type of `engines/<model>.json`."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.core.records import Backend
from pipeline.store.files import write_json
from pipeline.store.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """Everything about an engine that could change an output."""

    backend: Backend
    settings: Mapping[str, Any]
    """What was asked for, resolved."""
    versions: Mapping[str, str]
    hardware: Mapping[str, str]
    honoured: Mapping[str, Any] | None = None
    """What vLLM's own configuration then shows; None where there is no vLLM."""
    environment: Mapping[str, str] | None = None
    """Variables that vLLM reads."""

    def as_json(self) -> dict[str, Any]:
        """As the file holds it, and as two engines are compared, key by key."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def read_engine_facts(path: Place) -> EngineFacts | None:
    """The facts in a file; None before the engine's first start."""
    return EngineFacts(**json.loads(path.read_text())) if path.is_file() else None


def write_engine_facts(facts: EngineFacts, path: Place) -> None:
    """Write the facts to their file."""
    write_json(facts.as_json(), path)
