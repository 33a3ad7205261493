"""What a plan will cost, before anything is run: tokens, the share that the prefix cache can save,
disk, and time at a known rate.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table

from pipeline.core import cache
from pipeline.core.errors import ConfigError
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.store import PromptTokens, Run, write_json

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

    def seconds(self, prompt_tokens: int, output_tokens: int) -> float:
        """Time of one replica."""
        return prompt_tokens / self.prompt + output_tokens / self.output


def stated_rate(text: str) -> Rate:
    """The rate given as `PROMPT` or `PROMPT,OUTPUT`.

    Without the second, outputs are taken to be as fast.

    Raises:
        ConfigError: it is none.
    """
    try:
        prompt, *rest = [float(part) for part in text.split(",")]
        rate = Rate(prompt, rest[0] if rest else prompt)
    except ValueError:
        rate = Rate(0, 0)
    if min(rate.prompt, rate.output) <= 0 or text.count(",") > 1:
        raise ConfigError(
            f"--rate: given {text!r}; allowed: tokens per second of one replica, as 25000 "
            "or 25000,3000 (prompt, output)"
        )
    return rate


def keep_rate(model: str, rate: Rate, conditions: str) -> None:
    """Remember what `datesweep bench engine` measured on this machine."""
    write_json(
        {**_kept(), model: {**asdict(rate), "conditions": conditions}},
        cache.folder() / "rates.json",
    )


def _kept() -> dict[str, Any]:
    path = cache.folder() / "rates.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def table(run: Run, spec: SweepSpec, rate: Rate | None, num_gpus: int | None) -> Table:
    """A row for each model of `run`: prompt tokens and their floors, output tokens, disk, and time
    where a rate is known.
    """
    found = Table(
        title="what each model will take",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    found.add_column("model", overflow="fold", max_width=20)
    together = [f"on {num_gpus} GPUs"] if num_gpus else []
    for name in ("prompt", "floor", "computed", "cached", "output", "disk", "GPU-h", *together):
        found.add_column(name, justify="right", no_wrap=True)
    for model in spec.models:
        tokens = run.prompts()[model.name].tokens
        computed = tokens.blocks[_block(spec)]
        share = f"{100 * (1 - computed / max(tokens.prompt, 1)):.0f}%"
        sizes = (
            _short(tokens.prompt),
            _short(tokens.tree),
            _short(computed),
            share,
            _short(tokens.output),
            _disk(run, tokens),
        )
        found.add_row(model.name, *sizes, *_times(model, tokens, computed, rate, num_gpus))
    found.caption = (
        "Tokens. floor: distinct prefixes, which no cache can save. computed: with a "
        f"cache of blocks of {_block(spec)}. output: at most, "
        f"if no answer ends early. {_origin(spec, rate)}"
    )
    return found


def _short(count: int) -> str:
    """A number of three digits or so, with a unit."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _block(spec: SweepSpec) -> int:
    """The size of a cache block for which the plan has a floor: the setting's, or that of the
    device.
    """
    size = spec.engine.block_size
    return 32 if size == 32 or (size == "auto" and spec.engine.device == "cpu") else 16


def floor(run: Run) -> int:
    """Prompt tokens that all engines of `run` had to compute, with blocks of the size they had.

    0 where an engine had no such cache.
    """
    total = 0
    for model, report in run.prompts().items():
        size = run.engine_facts(model).get("settings", {}).get("block_size")
        if size not in report.tokens.blocks:
            return 0
        total += report.tokens.blocks[size]
    return total


def _disk(run: Run, tokens: PromptTokens) -> str:
    rows = run.manifest()["counts"]["prompts_per_model"]
    return f"{_short(rows * LABEL_ROW_BYTES + max(0, tokens.output - rows) * TEXT_TOKEN_BYTES)}B"


def _rate(model: ModelSpec, stated: Rate | None) -> Rate | None:
    kept = _kept().get(model.name)
    return stated or (Rate(kept["prompt"], kept["output"]) if kept else None)


def _times(
    model: ModelSpec, tokens: PromptTokens, computed: int, stated: Rate | None, num_gpus: int | None
) -> list[str]:
    """Hours of GPUs, and, where their number is given, hours until all is done."""
    if (rate := _rate(model, stated)) is None:
        return ["?", *(["?"] if num_gpus else [])]
    hours, size = rate.seconds(computed, tokens.output) / 3600, model.tensor_parallel_size
    together = (
        [f"{hours / (num_gpus // size):,.2f} h" if num_gpus >= size else "too few"]
        if num_gpus
        else []
    )
    return [f"{hours * size:,.2f}", *together]


def _origin(spec: SweepSpec, stated: Rate | None) -> str:
    """Where the rates are from."""
    if stated:
        return (
            f"Time as stated, at {stated.prompt:,.0f} computed prompt and {stated.output:,.0f} "
            "output tokens per second of a replica."
        )
    kept = {m.name: _kept()[m.name]["conditions"] for m in spec.models if m.name in _kept()}
    if not kept:
        return "Time is unknown: give --rate, or run `datesweep bench engine --models MODEL` once."
    return (
        "Time as `datesweep bench engine` measured it here: "
        + "; ".join(f"{name} on {found}" for name, found in kept.items())
        + "."
    )
