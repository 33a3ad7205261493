"""Where a prompt may be cut so that its parts can be tokenised apart, found and proved.

At the edges of the date's line, or at a special token, where tokenizers part a text first. A cut is
exact where the ids of the parts are those of the whole.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.prompts.render import ItemPrompt
from pipeline.prompts.tokens import PromptTokenizer

CONTEXT = 24
"""Characters beyond a cut that belong to its context: more than a pre-tokenizer looks ahead, and
than a merge reaches in practice."""

_LINE = re.compile(r"[^\r\n]*[\r\n]+")


class Cut(NamedTuple):
    """The text of a prompt in parts: lead, window up to the date, window behind it, tail."""

    lead: str
    before: str
    after: str
    tail: str

    @property
    def around(self) -> tuple[str, str]:
        """What stands around the date in the window."""
        return self.before, self.after

    def segments(self, date_text: str) -> tuple[str, str, str]:
        """Lead, window under a date, and tail."""
        return self.lead, f"{self.before}{date_text}{self.after}", self.tail

    def context(self) -> "Cut":
        """What decides whether the cuts are exact: the window, and what stands close to it."""
        return Cut(self.lead[-CONTEXT:], self.before, self.after, self.tail[:CONTEXT])


def proved_cuts(
    tokenizer: PromptTokenizer, prompts: Sequence[ItemPrompt], date_texts: Sequence[str]
) -> list[Cut | None]:
    """Each prompt cut at the first of its candidates that is proved exact; None without one."""
    proved: list[Cut | None] = [None] * len(prompts)
    untried = {i: _candidates(tokenizer, prompt) for i, prompt in enumerate(prompts)}
    while untried:
        tried = {i: cut for i, rest in untried.items() if (cut := next(rest, None))}
        contexts = {i: cut.context() for i, cut in tried.items()}
        exact = _exact(tokenizer, list(dict.fromkeys(contexts.values())), date_texts)
        proved = [tried[i] if contexts.get(i) in exact else cut for i, cut in enumerate(proved)]
        untried = {i: untried[i] for i in tried if proved[i] is None}
    return proved


def _candidates(tokenizer: PromptTokenizer, prompt: ItemPrompt) -> Iterator[Cut]:
    """A prompt cut at every pair of positions that may do, the usual ones first."""
    before, after = prompt.before, prompt.after
    for left, right in itertools.product(_lefts(tokenizer, before), _rights(tokenizer, after)):
        yield Cut(before[:left], before[left:], after[:right], after[right:])


def _lefts(tokenizer: PromptTokenizer, before: str) -> list[int]:
    """Where the date's line begins, or a special token in it ends.

    And before the last of several line breaks, of which tokenizers may keep one for what
    follows.
    """
    line = before.rfind("\n") + 1
    start = max([line, *(m.end() for m in tokenizer.special.finditer(before, line))])
    return [start, start - 1] if before[:start].endswith("\n\n") else [start]


def _rights(tokenizer: PromptTokenizer, after: str) -> list[int]:
    """Where the date's line ends: at a special token, or behind its line breaks.

    Or before the last or the first of them.
    """
    line = _LINE.match(after)
    stop = line.end() if line else len(after)
    if special := tokenizer.special.search(after, 0, stop):
        return [special.start()]
    return list(dict.fromkeys([stop, max(stop - 1, 0), len(after[:stop].rstrip())]))


def _exact(
    tokenizer: PromptTokenizer, contexts: Sequence[Cut], date_texts: Sequence[str]
) -> set[Cut]:
    """Those of `contexts` whose ids are those of their segments, tokenised one by one.

    Each window is tried under every date, each context under two.
    """
    cases: list[tuple[Cut, tuple[str, str, str]]] = []
    windows = set[tuple[str, str]]()
    for context in contexts:
        is_known = context.around in windows
        texts = (date_texts[0], date_texts[-1]) if is_known else date_texts
        cases += [(context, context.segments(text)) for text in texts]
        windows.add(context.around)
    wholes = ("".join(segments) for _, segments in cases)
    parts = (part for _, segments in cases for part in segments)
    ids = tokenizer.encode_all(itertools.chain(wholes, parts))
    wrong = {
        context
        for context, (lead, window, tail) in cases
        if ids[lead + window + tail] != ids[lead] + ids[window] + ids[tail]
    }
    return set(contexts) - wrong
