"""Chat templates rendered once: what a template writes around the turns, filled for every item.

Rendering a chat template takes about a millisecond, and a plan has millions of prompts. But a
template treats most texts as opaque: it writes something before, between and behind them, and may
strip them. `find` learns that from two renderings with marks in place of the texts. Whether it
holds for a task is proved on a sample, by rendering in full (`plan/checks.py`); texts that a
template might look into are always rendered in full.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.prompts.variants import Message

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Characters of the private use area, which stand around a mark's number; a text that has one is
rendered in full."""
_BEFORE, _BEHIND = " \n", "\n "
"""White space around a mark, to see whether the template strips it."""

_SUSPECT = re.compile(rf"[{_OPEN}{_CLOSE}]|<\||<[/\w]*(?:think|tool|function)", re.IGNORECASE)
"""What a template might look for inside a text: special tokens, reasoning, calls of tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """What a template writes around the turns of conversations of one shape."""

    parts: tuple[str, ...]
    """(num_marks + 1,) what stands before, between and behind the marked turns."""
    order: tuple[int, ...]
    """(num_marks,) the turn whose text follows each part but the last."""
    is_stripped: tuple[bool, ...]
    """(num_marks,) whether the template strips that text."""

    def fill(self, turns: Sequence[Message]) -> str:
        """The rendered conversation `turns`, which has the shape of this skeleton."""
        pieces = [self.parts[0]]
        for turn, is_stripped, part in zip(
            self.order, self.is_stripped, self.parts[1:], strict=True
        ):
            text = turns[turn]["content"]
            pieces += (text.strip() if is_stripped else text, part)
        return "".join(pieces)


def shape(turns: Sequence[Message]) -> tuple[object, ...]:
    """What conversations that a skeleton serves have in common.

    Roles, which texts are empty, and what the last assistant turn says.
    """
    opened = turns[-1]["content"] if turns[-1]["role"] == "assistant" else None
    return (*((turn["role"], bool(turn["content"])) for turn in turns), opened)


def find(turns: Sequence[Message], render: Callable[[list[Message]], str]) -> Skeleton | None:
    """The skeleton for the shape of `turns`.

    None where the template does more to a text than to place and strip it.
    """
    pieces = re.split(f"{_OPEN}(\\d+){_CLOSE}", render(marked(turns)))
    order = tuple(int(number) for number in pieces[1::2])
    if sorted(order) != _marked_turns(turns):
        return None
    padded = marked(turns, _BEFORE, _BEHIND)
    rendered = render(padded)
    is_stripped = tuple(padded[i]["content"] not in rendered for i in order)
    skeleton = Skeleton(parts=tuple(pieces[::2]), order=order, is_stripped=is_stripped)
    return skeleton if skeleton.fill(padded) == rendered else None


def marked(turns: Sequence[Message], before: str = "", behind: str = "") -> list[Message]:
    """`turns` with a mark between `before` and `behind` for every text not of their shape."""
    conversation = list(turns)
    for i in _marked_turns(turns):
        conversation[i] = {**turns[i], "content": f"{before}{_OPEN}{i}{_CLOSE}{behind}"}
    return conversation


def _marked_turns(turns: Sequence[Message]) -> list[int]:
    """All turns but empty ones and an assistant turn that is left open: these are of the shape."""
    last = len(turns) - (turns[-1]["role"] == "assistant")
    return [i for i, turn in enumerate(turns[:last]) if turn["content"]]


def is_opaque(turns: Sequence[Message]) -> bool:
    """Whether no text of `turns` holds anything that a template might look into."""
    return not any(_SUSPECT.search(turn["content"]) for turn in turns)
