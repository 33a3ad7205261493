"""What a run was planned with: the type of `manifest.json`, which the results depend on."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A JSON file of a run folder, or a part of one; keys that are no more are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TaskSettings(Document):
    """What a benchmark's prompts depend on beside the sweep."""

    version: int
    dataset: str
    max_tokens: int
    num_rows: int
    num_items: int
    items_hash: str
    examples: str
    """Configuration and split of the worked examples; empty for styles without."""
    examples_hash: str


class PlanSettings(Document):
    """What the results of a run depend on."""

    sweep: dict[str, Any]
    """The sweep's settings but for those that change no completion."""
    texts: dict[str, str]
    """What names in the sweep stand for in its prompts."""
    tasks: dict[str, TaskSettings]
    """By task and style, as in `mmlu.zero_shot`."""
    checkpoints: dict[str, dict[str, str]]
    """By model: `checkpoints.identity`."""
    versions: dict[str, str]

    def fingerprint(self) -> str:
        """SHA-256 of these settings in a canonical JSON form."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


class Counts(Document):
    """How much a plan asks, in the order in which people are told; tokens over all models."""

    dates: int
    items: int
    models: int
    prompt_tokens: int
    prompts: int
    prompts_per_model: int
    shards_per_model: int
    variants: int

    def in_words(self) -> dict[str, str]:
        """Each count by its name, for tables."""
        return {name.replace("_", " "): f"{count:,}" for name, count in self}


class Manifest(Document):
    """Everything that `manifest.json` holds."""

    settings: PlanSettings
    fingerprint: str
    """Of the settings."""
    sweep: dict[str, Any]
    """The whole `SweepSpec`, but for consent and the place of the data."""
    data: dict[str, str]
    """Where each benchmark's rows came from, in words."""
    counts: Counts


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """One line for each key whose value differs between two nested values: `path: was X, now Y`."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys: list[Any] = sorted({*old, *new})
        pairs = [(key, old.get(key), new.get(key)) for key in keys]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(key, *values) for key, values in enumerate(zip(old, new, strict=True))]
    else:
        return [] if old == new else [f"{path}: was {_short(old)}, now {_short(new)}"]
    inner = [(f"{path}.{key}" if path else str(key), a, b) for key, a, b in pairs]
    return [line for name, a, b in inner for line in differences(a, b, name)]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
