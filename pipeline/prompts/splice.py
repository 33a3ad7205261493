r"""Splice tokenisation: a prompt's ids, put together from segments that were tokenised once each.

The prompts of one item differ between dates only in the date. So a prompt is cut twice, left and
right of its date:

    lead                    window               tail
    <|im_start|>system\n    Current date: X.     <|im_end|>\n<|im_start|>user\nQuestion: ...

A lead serves many items, a window is tokenised once for each date and each text around it, a tail
once for each item. The ids equal those of the whole text where no token spans a cut. That is proved
for each window under every date, and for each distinct context of a cut, by comparison with the
whole (`cuts.py`); where it fails, the prompts are tokenised whole, and the plan says so.
"""

import itertools
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.tables import prompt_hash, short_hash
from pipeline.prompts.cuts import proved_cuts
from pipeline.prompts.render import ItemPrompt
from pipeline.prompts.tokens import PromptTokenizer

CONTROL_SPAN = 400
"""Characters from the start within which a control is cut."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Token ids of a part of a prompt."""

    ids: list[int]
    data: bytes
    """The ids as little-endian 32-bit integers, for hashing."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The date and what stands close to it, under every date."""

    around: tuple[str, str]
    """The text before and after the date; with the date, all that a window's ids depend on."""
    segments: dict[str, Segment]
    """Date text -> its window."""
    longest: int
    """Tokens of the longest."""


@dataclass(frozen=True, slots=True)
class Spliced:
    """The prompts of one benchmark under one condition, ready to be put together.

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
    tokenizer: PromptTokenizer

    def compose(self, item: int, date_text: str) -> tuple[list[int], str]:
        """Token ids of an item's prompt under a date, and their hash (`tables.prompt_hash`)."""
        if self.whole and item in self.whole:
            ids = self.tokenizer.encode(self.whole[item].text(date_text))
            return ids, prompt_hash(ids)
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

    def __init__(self, tokenizer: PromptTokenizer) -> None:
        """Segments are made by `tokenizer`."""
        self.tokenizer = tokenizer
        self._segments: dict[str, Segment] = {}
        self._chunks: dict[str, list[int]] = {}

    def splice(self, prompts: Sequence[ItemPrompt], date_texts: Sequence[str]) -> Spliced:
        """`prompts` under every one of `date_texts`, which are of one format.

        The single empty text is a control's.
        """
        if list(date_texts) == [""]:
            return self._controls([prompt.text("") for prompt in prompts])
        cuts = proved_cuts(self.tokenizer, prompts, date_texts)
        surroundings = dict.fromkeys(cut.around for cut in cuts if cut)
        windows = {around: self._windows(around, date_texts) for around in surroundings}
        nothing = Windows(("", ""), {}, 0)
        return Spliced(
            leads=self._made([cut.lead if cut else "" for cut in cuts]),
            windows=[windows[cut.around] if cut else nothing for cut in cuts],
            tails=self._made([cut.tail if cut else "" for cut in cuts]),
            whole={i: prompts[i] for i, cut in enumerate(cuts) if cut is None},
            tokenizer=self.tokenizer,
        )

    def forget(self) -> None:
        """Drop what is kept for segments that may occur again."""
        self._segments.clear()
        self._chunks.clear()

    def _controls(self, texts: list[str]) -> Spliced:
        """Prompts without a date.

        Cut so that their tails are those of dated prompts where these were spliced before.
        """
        cuts = [self._control_cut(text) for text in texts]
        leads = self._made([text[:cut] for text, cut in zip(texts, cuts, strict=True)])
        tails = self._made([text[cut:] for text, cut in zip(texts, cuts, strict=True)])
        empty = Windows(("", ""), {"": Segment([], b"")}, 0)
        return Spliced(leads, [empty] * len(texts), tails, {}, self.tokenizer)

    def _control_cut(self, text: str) -> int:
        starts = [m.start() for m in self.tokenizer.special.finditer(text, 0, CONTROL_SPAN)]
        return next((start for start in starts if text[start:] in self._segments), 0)

    def _windows(self, around: tuple[str, str], date_texts: Sequence[str]) -> Windows:
        before, after = around
        segments = self._made([f"{before}{text}{after}" for text in date_texts])
        longest = max(len(segment.ids) for segment in segments)
        return Windows(around, dict(zip(date_texts, segments, strict=True)), longest)

    def _made(self, texts: Sequence[str]) -> list[Segment]:
        """The segment of each text, put together from chunks between special tokens."""
        chunks_of = {text: self._parted(text) for text in texts if text not in self._segments}
        chunks = itertools.chain.from_iterable(chunks_of.values())
        self._chunks |= self.tokenizer.encode_all(c for c in chunks if c not in self._chunks)
        for text, parts in chunks_of.items():
            ids = [token for chunk in parts for token in self._chunks[chunk]]
            self._segments[text] = Segment(ids, array("I", ids).tobytes())
        return [self._segments[text] for text in texts]

    def _parted(self, text: str) -> list[str]:
        """`text` in parts of one special token and what follows it."""
        edges = [0, *(m.start() for m in self.tokenizer.special.finditer(text)), len(text)]
        return [text[a:b] for a, b in itertools.pairwise(edges) if a < b]
