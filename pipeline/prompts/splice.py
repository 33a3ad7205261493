r"""Splice tokenisation: the ids of a prompt under a date, put together from segments that were
tokenised once each.

The prompts of one item differ between dates only in the date. So a prompt is cut twice, left and
right of its date:

    lead                    window               tail
    <|im_start|>system\n    Current date: X.     <|im_end|>\n<|im_start|>user\nQuestion: ...

A lead serves many items, a window is tokenised once for each date and each text around it, a tail
once for each item. Cuts are made at the edges of the date's line, or at a special token, where
tokenizers part a text first. The ids equal those of the whole text where no token spans a cut. That
is proved for each window under every date, and for each distinct context of a cut, by comparison
with the whole; where it fails, the prompts are tokenised whole, and the plan says so.
"""

import itertools
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.tables import prompt_hash, short_hash
from pipeline.prompts.render import ItemPrompt, PromptBuilder

CONTROL_SPAN = 400
"""Characters from the start within which a control is cut."""
CONTEXT = 24
"""Characters beyond a cut that belong to its context: more than a pre-tokenizer looks ahead, and
than a merge reaches in practice."""


_LINE = re.compile(r"[^\r\n]*[\r\n]+")


@dataclass(frozen=True, slots=True)
class Segment:
    """Token ids of a part of a prompt."""

    ids: list[int]
    data: bytes
    """The ids as little-endian 32-bit integers, for hashing."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The date and what stands close to it, under every date."""

    segments: dict[str, Segment]
    """Date text -> its window."""
    longest: int
    """Tokens of the longest."""


@dataclass(frozen=True, slots=True)
class Spliced:
    """The prompts of one task under one condition, for one model, ready to be put together.

    By the position of the item.
    """

    leads: list[Segment]
    """(num_items,) what stands before the window; many are one object."""
    windows: list[Windows]
    """(num_items,) the date and what stands close to it; many are one object."""
    tails: list[Segment]
    """(num_items,) what stands behind the window."""
    whole: dict[int, ItemPrompt]
    """Items whose prompts are tokenised whole each time, since a cut could not be proved."""
    builder: PromptBuilder

    def compose(self, item: int, date_text: str) -> tuple[list[int], str]:
        """Token ids of the prompt of an item under a date, and their hash (`frames.prompt_hash`)."""
        if self.whole and item in self.whole:
            return (ids := self.builder.encode(self.whole[item].text(date_text))), prompt_hash(ids)
        lead = self.leads[item]
        window = self.windows[item].segments[date_text]
        tail = self.tails[item]
        return lead.ids + window.ids + tail.ids, short_hash(lead.data + window.data + tail.data)

    def longest(self, item: int, date_texts: Sequence[str]) -> int:
        """Tokens of the longest prompt of an item under `date_texts`."""
        if item in self.whole:
            return max(len(self.compose(item, text)[0]) for text in date_texts)
        return len(self.leads[item].ids) + self.windows[item].longest + len(self.tails[item].ids)


class Splicer:
    """Splices prompts of one model.

    Segments that occur again, under other dates or conditions, are tokenised once.
    """

    def __init__(self, builder: PromptBuilder) -> None:
        """`builder` holds the tokenizer."""
        self.builder = builder
        added = builder.tokenizer.added_tokens_decoder.values()
        plain = [t.content for t in added if not (t.lstrip or t.rstrip or t.single_word)]
        self.special = re.compile(
            "|".join(map(re.escape, sorted(plain, key=len, reverse=True))) or r"(?!)"
        )
        """Tokens at which the tokenizer parts a text before anything else."""
        self._known: dict[str, Segment] = {}
        self._chunks: dict[str, list[int]] = {}

    def splice(self, prompts: Sequence[ItemPrompt], date_texts: Sequence[str]) -> Spliced:
        """`prompts` under every one of `date_texts`, which are of one format.

        The single empty text is a control's.
        """
        if list(date_texts) == [""]:
            return self._controls([prompt.text("") for prompt in prompts])
        cutter = _Cutter(self, date_texts)
        pairs = list(zip(prompts, cutter.cuts(prompts), strict=True))
        return Spliced(
            leads=self.segments(
                [prompt.before[: cut.left] if cut else "" for prompt, cut in pairs]
            ),
            windows=[
                cutter.windows(prompt, cut) if cut else Windows({}, 0) for prompt, cut in pairs
            ],
            tails=self.segments(
                [prompt.after[cut.right :] if cut else "" for prompt, cut in pairs]
            ),
            whole={item: prompt for item, (prompt, cut) in enumerate(pairs) if cut is None},
            builder=self.builder,
        )

    def forget(self) -> None:
        """Drop what is kept for segments that may occur again."""
        self._known.clear()
        self._chunks.clear()

    def _controls(self, texts: list[str]) -> Spliced:
        """Prompts without a date, cut so that their tails are those of dated prompts where these
        were spliced before.
        """
        cuts = [self._control_cut(text) for text in texts]
        leads = self.segments([text[:cut] for text, cut in zip(texts, cuts, strict=True)])
        tails = self.segments([text[cut:] for text, cut in zip(texts, cuts, strict=True)])
        return Spliced(
            leads, [Windows({"": Segment([], b"")}, 0)] * len(texts), tails, {}, self.builder
        )

    def _control_cut(self, text: str) -> int:
        places = [found.start() for found in self.special.finditer(text, 0, CONTROL_SPAN)]
        return next((place for place in places if text[place:] in self._known), 0)

    def segments(self, texts: list[str]) -> list[Segment]:
        """The segment of each text, put together from chunks between special tokens.

        New chunks are tokenised on all cores.
        """
        new = {text: self._parted(text) for text in texts if text not in self._known}
        chunks = list(
            dict.fromkeys(
                chunk for parted in new.values() for chunk in parted if chunk not in self._chunks
            )
        )
        self._chunks |= dict(zip(chunks, self.encode(chunks), strict=True))
        for text, parted in new.items():
            ids = [token for chunk in parted for token in self._chunks[chunk]]
            self._known[text] = Segment(ids, array("I", ids).tobytes())
        return [self._known[text] for text in texts]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text as a whole, tokenised on all cores."""
        return [
            e.ids
            for e in self.builder.tokenizer.backend_tokenizer.encode_batch_fast(
                texts, add_special_tokens=False
            )
        ]

    def _parted(self, text: str) -> list[str]:
        """`text` in parts of one special token and what follows it."""
        places = [0, *(found.start() for found in self.special.finditer(text)), len(text)]
        return [text[a:b] for a, b in itertools.pairwise(places) if a < b]


@dataclass(frozen=True, slots=True)
class _Cut:
    """The lead is `before[:left]`, the tail is `after[right:]`."""

    left: int
    right: int

    def context(self, prompt: ItemPrompt) -> tuple[str, str, str, str]:
        """What stands close to the cuts: outside and inside on the left, inside and outside on the
        right.
        """
        before, after = prompt.before, prompt.after
        outside = (
            before[max(0, self.left - CONTEXT) : self.left],
            after[self.right : self.right + CONTEXT],
        )
        return outside[0], before[self.left :], after[: self.right], outside[1]


class _Cutter:
    """Finds cuts and proves them, once for each context, for prompts under one set of dates."""

    def __init__(self, splicer: Splicer, date_texts: Sequence[str]) -> None:
        self.splicer, self.date_texts = splicer, list(date_texts)
        self.known: dict[tuple[str, str], Windows] = {}

    def cuts(self, prompts: Sequence[ItemPrompt]) -> list[_Cut | None]:
        """Where each prompt is cut: at the first of its places that is proved exact.

        None where none is.
        """
        found: list[_Cut | None] = [None] * len(prompts)
        places = [
            list(itertools.product(self._lefts(p.before), self._rights(p.after))) for p in prompts
        ]
        for attempt in range(max((len(own) for own in places), default=0)):
            tried = {
                i: _Cut(*own[attempt])
                for i, own in enumerate(places)
                if found[i] is None and attempt < len(own)
            }
            contexts = {i: cut.context(prompts[i]) for i, cut in tried.items()}
            exact = self._exact(list(dict.fromkeys(contexts.values())))
            for i, cut in tried.items():
                found[i] = cut if contexts[i] in exact else None
        return found

    def windows(self, prompt: ItemPrompt, cut: _Cut) -> Windows:
        """What is between the cuts, under every date."""
        left, right = prompt.before[cut.left :], prompt.after[: cut.right]
        if (left, right) not in self.known:
            segments = self.splicer.segments([f"{left}{text}{right}" for text in self.date_texts])
            longest = max(len(segment.ids) for segment in segments)
            self.known[left, right] = Windows(
                dict(zip(self.date_texts, segments, strict=True)), longest
            )
        return self.known[left, right]

    def _lefts(self, before: str) -> list[int]:
        """Where the date's line begins.

        And before the last of several line breaks, of which tokenizers may keep one for what
        follows.
        """
        line = before.rfind("\n") + 1
        start = max([line, *(found.end() for found in self.splicer.special.finditer(before, line))])
        return [start, start - 1] if before[:start].endswith("\n\n") else [start]

    def _rights(self, after: str) -> list[int]:
        """Where the date's line ends: at a special token, or behind its line breaks.

        Or before the last or the first of them.
        """
        line = _LINE.match(after)
        special = self.splicer.special.search(after, 0, stop := line.end() if line else len(after))
        if special:
            return [special.start()]
        return list(dict.fromkeys([stop, max(stop - 1, 0), len(after[:stop].rstrip())]))

    def _exact(self, contexts: list[tuple[str, str, str, str]]) -> set[tuple[str, str, str, str]]:
        """Those of the contexts whose ids are those of their three parts: each window under every
        date, each context under two.
        """
        windows = set[tuple[str, str]]()
        cases = []
        for context in contexts:
            texts = (
                [self.date_texts[0], self.date_texts[-1]]
                if context[1:3] in windows
                else self.date_texts
            )
            windows.add(context[1:3])
            cases += [(context, text) for text in texts]
        parts = [(a, f"{b}{text}{c}", d) for (a, b, c, d), text in cases]
        ids = iter(
            self.splicer.encode(
                [*("".join(three) for three in parts), *(part for three in parts for part in three)]
            )
        )
        wholes = [next(ids) for _ in parts]
        wrong = {
            context
            for (context, _), whole in zip(cases, wholes, strict=True)
            if whole != next(ids) + next(ids) + next(ids)
        }
        return set(contexts) - wrong
