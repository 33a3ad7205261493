"""The floor of a sweep: the prompt tokens that no prefix cache can save, counted without writing
the prompts out.

The prompts of a plan are lead + window + tail (`splice.py`), and few of these are distinct: the
same tails follow every date. So the prefix tree of millions of prompts is added up from a tree of
leads, a tree of windows for each set of dates, and a tree of tails for each set of items. In a
sorted list of prompts, what a prompt adds to the tree is what lies beyond its common prefix with
the one before.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.prompts.splice import Segment, Spliced

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Floor:
    """Prompt tokens of one model's plan."""

    prompt: int
    """All prompts together."""
    tree: int
    """Distinct prefixes: what is computed if a cache keeps single tokens."""
    blocks: int
    """What is computed if a cache keeps whole blocks, and never the last token of a prompt, whose
    logits are wanted."""

    def __add__(self, other: "Floor") -> "Floor":
        """Both, with nothing shared between them."""
        return Floor(self.prompt + other.prompt, self.tree + other.tree, self.blocks + other.blocks)


class Prefixes:
    """Collects the prompts of a plan, one spliced part after another."""

    def __init__(self) -> None:
        """Nothing is collected yet."""
        self._parts: dict[bytes, list[tuple[int, list[Segment]]]] = {}
        """Lead -> which windows follow it, by their number in `_windows`, and which tails follow
        each of those."""
        self._windows: list[list[bytes]] = []
        """Sets of windows, one for each set of dates."""
        self._wholes: list[bytes] = []
        """Prompts that have no window: controls, and what could not be spliced."""

    def add(self, spliced: Spliced, date_texts: Sequence[str]) -> None:
        """Every item of `spliced` under each of `date_texts`."""
        if not date_texts:
            return
        groups: dict[tuple[bytes, int], list[Segment]] = {}
        for item, (lead, windows, tail) in enumerate(
            zip(spliced.leads, spliced.windows, spliced.tails, strict=True)
        ):
            if item in spliced.whole:
                texts = [
                    np.array(spliced.compose(item, text)[0], dtype="<u4").tobytes()
                    for text in date_texts
                ]
                self._wholes += texts
            elif windows.segments.keys() == {""}:
                self._wholes.append(lead.data + tail.data)
            else:
                groups.setdefault((lead.data, id(windows)), []).append(tail)
        windows_of = {id(windows): windows for windows in spliced.windows}
        numbers: dict[int, int] = {}
        for (lead_data, key), tails in groups.items():
            if key not in numbers:
                numbers[key] = len(self._windows)
                self._windows.append([windows_of[key].segments[text].data for text in date_texts])
            self._parts.setdefault(lead_data, []).append((numbers[key], tails))

    def floor(self, block: int) -> Floor:
        """The floor of everything collected, with a cache that keeps blocks of `block` tokens."""
        counter = _Counter(self._windows, block)
        leads = sorted(self._parts)
        for lead, shared in zip(leads, _shared(leads), strict=True):
            counter.add_lead(len(lead) // 4, int(shared), self._parts[lead])
        counter.add_wholes(
            self._wholes,
            [lead + window for lead in leads for window in counter.extremes(self._parts[lead])],
        )
        return Floor(
            prompt=counter.prompt,
            tree=counter.tree,
            blocks=counter.partial + block * counter.new_blocks,
        )


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Distinct segments in sorted order."""

    lengths: Ints
    """(n,) tokens."""
    shared: Ints
    """(n,) tokens in common with the one before; 0 for the first."""


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows that follow a lead, from one set or several, in sorted order."""

    windows: _Sorted
    groups: list[tuple[list[int], Ints]]
    """Which of the sets have a window, and the places of the windows of which that is true."""
    first: bytes
    last: bytes


class _Counter:
    """Adds up what prompts bring to the tree.

    Sets of windows and tails that occur again are sorted once.
    """

    def __init__(self, windows: list[list[bytes]], block: int) -> None:
        self.sets, self.block = windows, block
        self.prompt = self.tree = self.partial = self.new_blocks = 0
        self.windows: dict[tuple[int, ...], _Windows] = {}
        self.tails: dict[tuple[int, ...], _Sorted] = {}

    def add_lead(self, lead: int, shared: int, parts: list[tuple[int, list[Segment]]]) -> None:
        """The prompts under one lead of `lead` tokens, of which `shared` are in common with the
        lead before.
        """
        merged = self._merged(tuple(number for number, _ in parts))
        starts = lead + merged.windows.shared
        starts[0] = shared
        for holders, places in merged.groups:
            tails = self._sorted_tails([parts[index][1] for index in holders])
            ends = lead + merged.windows.lengths[places]
            self._add(ends, starts[places], tails)
            for index in holders:
                own = np.array([len(tail.ids) for tail in parts[index][1]], dtype=np.int64)
                self._ask(ends, own)

    def _add(self, heads: Ints, starts: Ints, tails: _Sorted) -> None:
        """The tree under heads of some lengths, each new from its start on, that all have the same
        tails.
        """
        first, others = int(tails.lengths[0]), slice(1, None)
        self.tree += int((heads + first - starts).sum()) + len(heads) * int(
            (tails.lengths[others] - tails.shared[others]).sum()
        )
        self.new_blocks += int(self._new_blocks(heads + first, starts).sum())
        for length, count in zip(*np.unique(heads, return_counts=True), strict=True):
            self.new_blocks += int(count) * int(
                self._new_blocks(
                    length + tails.lengths[others], length + tails.shared[others]
                ).sum()
            )

    def _new_blocks(self, lengths: Ints, shared: Ints) -> Ints:
        """Blocks of prompts that lie beyond what they share.

        The block of the last token is never taken from a cache.
        """
        cacheable: Ints = (lengths - 1) // self.block
        new: Ints = cacheable - np.minimum(cacheable, shared // self.block)
        return new

    def _ask(self, heads: Ints, tails: Ints) -> None:
        """What is asked: every head with every tail."""
        self.prompt += int(heads.sum()) * len(tails) + int(tails.sum()) * len(heads)
        for length, number in zip(*np.unique(heads, return_counts=True), strict=True):
            lengths = length + tails
            self.partial += int(number) * int(
                (lengths - self.block * ((lengths - 1) // self.block)).sum()
            )

    def add_wholes(self, wholes: list[bytes], heads: list[bytes]) -> None:
        """Prompts that were not spliced, beside the `heads` of those that were."""
        for data in wholes:
            self._ask(np.array([len(data) // 4]), np.zeros(1, dtype=np.int64))
        distinct = sorted(set(wholes))
        for data, shared in zip(distinct, _shared_with(distinct, sorted(heads)), strict=True):
            length = len(data) // 4
            self.tree += length - shared
            self.new_blocks += int(self._new_blocks(np.array([length]), np.array([shared]))[0])

    def extremes(self, parts: list[tuple[int, list[Segment]]]) -> tuple[bytes, bytes]:
        """The first and the last window under a lead, in sorted order."""
        merged = self._merged(tuple(number for number, _ in parts))
        return merged.first, merged.last

    def _merged(self, numbers: tuple[int, ...]) -> _Windows:
        if numbers not in self.windows:
            holders: dict[bytes, list[int]] = {}
            for index, number in enumerate(numbers):
                for data in self.sets[number]:
                    holders.setdefault(data, []).append(index)
            ordered, places = sorted(holders), dict[tuple[int, ...], list[int]]()
            for place, data in enumerate(ordered):
                places.setdefault(tuple(holders[data]), []).append(place)
            groups = [(list(key), np.array(found, dtype=np.int64)) for key, found in places.items()]
            self.windows[numbers] = _Windows(_sorted(ordered), groups, ordered[0], ordered[-1])
        return self.windows[numbers]

    def _sorted_tails(self, lists: list[list[Segment]]) -> _Sorted:
        key = tuple(map(id, lists))
        if key not in self.tails:
            self.tails[key] = _sorted(sorted({tail.data for tails in lists for tail in tails}))
        return self.tails[key]


def _sorted(data: list[bytes]) -> _Sorted:
    return _Sorted(np.array([len(d) // 4 for d in data], dtype=np.int64), _shared(data))


def _shared(ordered: list[bytes]) -> Ints:
    """(n,) tokens that each of `ordered` has in common with the one before; 0 for the first."""
    return np.array(
        [0, *(_common(a, b) for a, b in itertools.pairwise(ordered))][: len(ordered)],
        dtype=np.int64,
    )


def _shared_with(ordered: list[bytes], others: list[bytes]) -> list[int]:
    """For each of `ordered`, the most tokens in common with one before it, or with any of the
    sorted `others`.
    """
    both = sorted([(data, 0) for data in others] + [(data, 1) for data in ordered])
    best: dict[bytes, int] = {}
    for (before, _), (data, is_mine) in itertools.pairwise(both):
        if is_mine:
            best[data] = _common(before, data)
    following: bytes | None = None
    for data, is_mine in reversed(both):
        if not is_mine:
            following = data
        elif following is not None:
            best[data] = max(best.get(data, 0), _common(data, following))
    return [best.get(data, 0) for data in ordered]


def _common(a: bytes, b: bytes) -> int:
    """Tokens that two sequences of 32-bit ids begin with in common."""
    length = min(len(a), len(b)) // 4
    differs = np.frombuffer(a, dtype="<u4", count=length) != np.frombuffer(
        b, dtype="<u4", count=length
    )
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length
