"""The floor of a sweep: the prompt tokens that no prefix cache can save, without writing them out.

The prompts of a plan are lead + window + tail (`splice.py`), and few of these are distinct: the
same tails follow every date. So the prefix tree of millions of prompts is added up from a tree of
leads, a tree of windows for each set of dates, and a tree of tails for each set of items. In a
sorted list of prompts, what a prompt adds to the tree is what lies beyond its common prefix with
the one before.
"""

import bisect
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.prompts.splice import Spliced

Ints = npt.NDArray[np.int64]
TOKEN_BYTES = 4
WindowSet = tuple[int, str, str]
"""Names a set of windows: the number of its set of dates, and the text on both sides of a date."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Prompt tokens of one model's plan."""

    prompt: int
    """All prompts together."""
    tree: int
    """Distinct prefixes: what is computed if a cache keeps single tokens."""
    blocks: dict[int, int]
    """Size of a block -> what is computed if a cache keeps whole blocks of that many tokens, and
    never the last token of a prompt, whose logits are wanted."""

    def __add__(self, other: "Floor") -> "Floor":
        """Both, with nothing shared between them."""
        blocks = {size: count + other.blocks[size] for size, count in self.blocks.items()}
        return Floor(self.prompt + other.prompt, self.tree + other.tree, blocks)


class Prefixes:
    """Collects the prompts of a plan, one spliced part after another."""

    def __init__(self) -> None:
        """Nothing is collected yet."""
        self._dates: dict[tuple[str, ...], int] = {}
        """Numbers of sets of dates."""
        self._windows: dict[WindowSet, list[bytes]] = {}
        self._tails: dict[bytes, dict[WindowSet, list[bytes]]] = {}
        """Lead -> the windows that follow it -> the tails that follow each of those."""
        self._wholes: list[bytes] = []
        """Prompts that have no window: controls, and what could not be spliced."""

    def add(self, spliced: Spliced, date_texts: Sequence[str]) -> None:
        """Every item of `spliced` under each of `date_texts`."""
        if not date_texts:
            return
        number = self._dates.setdefault(tuple(date_texts), len(self._dates))
        parts = zip(spliced.leads, spliced.windows, spliced.tails, strict=True)
        for item, (lead, windows, tail) in enumerate(parts):
            if item in spliced.whole:
                prompts = (spliced.compose(item, text)[0] for text in date_texts)
                self._wholes += [np.array(ids, dtype="<u4").tobytes() for ids in prompts]
            elif "" in windows.segments:
                self._wholes.append(lead.data + tail.data)
            else:
                key = (number, *windows.around)
                if key not in self._windows:
                    self._windows[key] = [windows.segments[text].data for text in date_texts]
                self._tails.setdefault(lead.data, {}).setdefault(key, []).append(tail.data)

    def floor(self, block_sizes: Sequence[int]) -> Floor:
        """The floor of everything collected, for caches with blocks of each of `block_sizes`."""
        tally = _Tally(block_sizes)
        # The same sets of windows follow many leads where the question comes before the date.
        merge = functools.cache(self._merge)
        leads, heads = sorted(self._tails), list[bytes]()
        for lead, shared in zip(leads, _shared(leads), strict=True):
            windows = merge(tuple(self._tails[lead]))
            heads += [lead + windows.first, lead + windows.last]
            self._add_lead(tally, lead, int(shared), windows)
        self._add_wholes(tally, heads)
        return Floor(tally.prompt, tally.tree, tally.blocks)

    def _merge(self, sets: tuple[WindowSet, ...]) -> "_Windows":
        """The windows of all `sets` as one sorted list."""
        owners: dict[bytes, list[WindowSet]] = {}
        for key in sets:
            for data in self._windows[key]:
                owners.setdefault(data, []).append(key)
        ordered = sorted(owners)
        groups: dict[tuple[WindowSet, ...], list[int]] = {}
        for position, data in enumerate(ordered):
            groups.setdefault(tuple(owners[data]), []).append(position)
        return _Windows(
            ordered=_Ordered(_lengths(ordered), _shared(ordered)),
            groups={key: np.array(positions) for key, positions in groups.items()},
            first=ordered[0],
            last=ordered[-1],
        )

    def _add_lead(self, tally: "_Tally", lead: bytes, shared: int, windows: "_Windows") -> None:
        """The prompts under a lead that has `shared` tokens in common with the lead before."""
        length = len(lead) // TOKEN_BYTES
        starts = length + windows.ordered.shared
        starts[0] = shared
        for sets, positions in windows.groups.items():
            ends = length + windows.ordered.lengths[positions]
            asked = [tail for key in sets for tail in self._tails[lead][key]]
            distinct = sorted(set(asked))
            tails = _Ordered(_lengths(distinct), _shared(distinct))
            # Each window's first tail goes on from where the window parts from the one before.
            tally.grow(ends[:, None] + tails.lengths[:1], starts[positions][:, None])
            heads, times = np.unique(ends, return_counts=True)
            later = slice(1, None)
            tally.grow(
                heads[:, None] + tails.lengths[later], heads[:, None] + tails.shared[later], times
            )
            tally.ask(heads[:, None] + _lengths(asked), times)

    def _add_wholes(self, tally: "_Tally", heads: list[bytes]) -> None:
        """Prompts without a window, beside the first and last `heads` of those with one."""
        ordered, neighbours = sorted(set(self._wholes)), sorted(heads)
        shared = _shared(ordered)
        for i, whole in enumerate(ordered):
            place = bisect.bisect(neighbours, whole)
            beside = neighbours[max(place - 1, 0) : place + 1]
            shared[i] = max([shared[i], *(_common(whole, head) for head in beside)])
        tally.grow(_lengths(ordered)[:, None], shared[:, None])
        tally.ask(_lengths(self._wholes)[:, None])


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Distinct sequences in sorted order."""

    lengths: Ints
    """(n,) tokens."""
    shared: Ints
    """(n,) tokens in common with the one before; 0 for the first."""


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows that follow a lead, from one set or several, in sorted order."""

    ordered: _Ordered
    groups: dict[tuple[WindowSet, ...], Ints]
    """Some of the sets -> positions of the windows that exactly these have."""
    first: bytes
    last: bytes


class _Tally:
    """Counts the tokens of prompts, given as matrices of which a row may stand for several."""

    def __init__(self, block_sizes: Sequence[int]) -> None:
        self.prompt = self.tree = 0
        self.blocks = dict.fromkeys(block_sizes, 0)

    def ask(self, lengths: Ints, times: Ints | int = 1) -> None:
        """Prompts that are asked, `times` over; the block of a last token is always computed."""
        self.prompt += _sum(lengths, times)
        for size in self.blocks:
            self.blocks[size] += _sum(lengths - size * ((lengths - 1) // size), times)

    def grow(self, lengths: Ints, shared: Ints, times: Ints | int = 1) -> None:
        """Distinct prompts that have `shared` tokens in common with one before, `times` over."""
        self.tree += _sum(lengths - shared, times)
        for size in self.blocks:
            cacheable = (lengths - 1) // size
            self.blocks[size] += size * _sum(
                cacheable - np.minimum(cacheable, shared // size), times
            )


def _sum(counts: Ints, times: Ints | int) -> int:
    return int((counts.sum(axis=1) * times).sum())


def _lengths(sequences: list[bytes]) -> Ints:
    return np.array([len(data) // TOKEN_BYTES for data in sequences], dtype=np.int64)


def _shared(ordered: list[bytes]) -> Ints:
    """(n,) tokens that each of `ordered` has in common with the one before; 0 for the first."""
    pairs = itertools.pairwise([b"", *ordered])
    return np.array([_common(before, data) for before, data in pairs], dtype=np.int64)


def _common(a: bytes, b: bytes) -> int:
    """Tokens that two sequences of 32-bit ids begin with in common."""
    if (count := min(len(a), len(b)) // TOKEN_BYTES) == 0:
        return 0
    differs = np.not_equal(*(np.frombuffer(data, dtype="<u4", count=count) for data in (a, b)))
    first = int(differs.argmax())
    return first if differs[first] else count
