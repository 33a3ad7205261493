"""What a plan found of each model's prompts: what `plan/prompts.json` holds, read and written."""

import dataclasses
from dataclasses import dataclass
from typing import Any

_BLOCKS_OF = "blocks_of_"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """Tokens of one model's whole plan."""

    prompt: int
    """All prompts together."""
    tree: int
    """Distinct prefixes: what is computed if a cache keeps single tokens."""
    blocks: dict[int, int]
    """Size of a cache's blocks in tokens -> what is computed if it keeps whole blocks, and never
    the last token of a prompt, whose logits are wanted."""
    output: int
    """Outputs, if no answer ends before its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptReport:
    """What replicas and readers need to know of one model's prompts."""

    label_token_ids: dict[str, dict[str, int]]
    """Benchmark -> label -> its token."""
    max_model_len: int
    """Tokens of the longest prompt with the longest output that it may get."""
    tokens: PromptTokens
    rendered_in_full: list[str]
    """Benchmarks whose texts the chat template looks into."""
    tokenised_whole: int
    """Items under a condition whose prompts cannot be spliced."""
    template_hash: str
    template_dates: list[str]
    """Dates that the chat template writes beside the swept one."""


def to_json(report: PromptReport) -> dict[str, Any]:
    """`report` as the file holds it."""
    fields = dataclasses.asdict(report)
    blocks = fields["tokens"].pop("blocks")
    fields["tokens"] |= {f"{_BLOCKS_OF}{size}": count for size, count in blocks.items()}
    return fields


def from_json(fields: dict[str, Any]) -> PromptReport:
    """The report that the file holds as `fields`."""
    tokens = fields["tokens"]
    blocks = {
        int(name.removeprefix(_BLOCKS_OF)): count
        for name, count in tokens.items()
        if name.startswith(_BLOCKS_OF)
    }
    counts = PromptTokens(
        prompt=tokens["prompt"], tree=tokens["tree"], blocks=blocks, output=tokens["output"]
    )
    return PromptReport(**{**fields, "tokens": counts})
