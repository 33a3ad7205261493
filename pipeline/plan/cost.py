"""What a plan takes, as far as is known before anything runs: tokens, disk, and time."""

import json
from dataclasses import asdict, dataclass

from pipeline.core import cache
from pipeline.core.errors import ConfigError
from pipeline.settings import SweepSpec
from pipeline.store import Place, Run, write_json

LABEL_ROW_BYTES = 40
"""Completion of a label request on disk, compressed; measured with four random single-precision
log-probabilities in every row."""
TEXT_TOKEN_BYTES = 3
"""A token of generated text on disk, compressed; English text takes about four characters a token,
and compresses to less."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast one replica is, in tokens per second."""

    prompt: float
    """Prompt tokens computed; those from the cache are not counted."""
    output: float
    """Output tokens generated."""
    conditions: str = ""
    """What it was measured on; empty for a stated rate."""

    def seconds(self, prompt_tokens: int, output_tokens: int) -> float:
        """Time of one replica."""
        return prompt_tokens / self.prompt + output_tokens / self.output


def stated_rate(text: str) -> Rate:
    """The rate given as `PROMPT` or `PROMPT,OUTPUT`; without the second, outputs are as fast.

    Raises:
        ConfigError: it is none.
    """
    try:
        prompt, *rest = [float(part) for part in text.split(",")]
    except ValueError:
        prompt, rest = 0.0, []
    output = rest[0] if rest else prompt
    if min(prompt, output) <= 0 or len(rest) > 1:
        raise ConfigError(
            f"--rate: given {text!r}; allowed: tokens per second of one replica, as 25000 or "
            "25000,3000 (prompt, output)"
        )
    return Rate(prompt, output)


def keep_rate(model: str, rate: Rate) -> None:
    """Remember what `datesweep bench engine` measured on this machine."""
    rates = {name: asdict(kept) for name, kept in {**kept_rates(), model: rate}.items()}
    write_json(rates, _rates_path())


def kept_rates() -> dict[str, Rate]:
    """Model -> what was measured of it on this machine."""
    path = _rates_path()
    kept = json.loads(path.read_text()) if path.is_file() else {}
    return {model: Rate(**rate) for model, rate in kept.items()}


def _rates_path() -> Place:
    return cache.folder() / "rates.json"


def block_size(spec: SweepSpec) -> int:
    """The size of a cache block for which a plan has a floor: the setting's, or the device's."""
    size = spec.engine.block_size
    return 32 if size == 32 or (size == "auto" and spec.engine.device == "cpu") else 16


def foreseen_tokens(run: Run) -> int:
    """Prompt tokens that all engines of `run` had to compute, with blocks of the size they had.

    0 where an engine had no such cache.
    """
    total = 0
    for model, report in run.prompts().items():
        facts = run.engine_facts(model)
        size = facts.settings.get("block_size") if facts else None
        if size not in report.tokens.blocks:
            return 0
        total += report.tokens.blocks[size]
    return total


def disk_bytes(num_rows: int, output_tokens: int) -> int:
    """Completions of a plan on disk, at most."""
    return num_rows * LABEL_ROW_BYTES + max(0, output_tokens - num_rows) * TEXT_TOKEN_BYTES
