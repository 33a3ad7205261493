"""The floor of made-up plans against a prefix tree that is written out."""

import itertools
from array import array

from hypothesis import given, strategies as st

from pipeline.prompts.floor import Floor, Prefixes
from pipeline.prompts.splice import Segment, Spliced, Windows


def segment(ids: list[int]) -> Segment:
    return Segment(ids, array("I", ids).tobytes())


def brute(prompts: list[tuple[int, ...]], block: int) -> Floor:
    """Every prompt through a cache that forgets nothing, short ones before those that go on from
    them.
    """
    tree = {p[:n] for p in prompts for n in range(1, len(p) + 1)}
    seen: set[tuple[int, ...]] = set()
    computed = 0
    for p in sorted(prompts):
        blocks = [p[:n] for n in range(block, len(p), block)]
        hits = len(list(itertools.takewhile(seen.__contains__, blocks)))
        computed += len(p) - block * hits
        seen |= {p[:n] for n in range(block, len(p) + 1, block)}
    return Floor(prompt=sum(map(len, prompts)), tree=len(tree), blocks={block: computed})


def spliced(
    leads: list[list[int]], windows: dict[str, list[int]], tails: list[list[int]]
) -> Spliced:
    around = (str(windows), "")
    shared = Windows(around, {text: segment(ids) for text, ids in windows.items()}, 0)
    known = {tuple(lead): segment(lead) for lead in leads}
    return Spliced(
        [known[tuple(lead)] for lead in leads],
        [shared] * len(leads),
        [segment(t) for t in tails],
        {},
        None,
    )  # type: ignore[arg-type]


# Leads, windows and tails end in tokens of their own, as the segments of real prompts do: none is
# the beginning of another.
few = st.lists(st.integers(1, 3), max_size=5)
leads = st.lists(few.map(lambda ids: [*ids, 7]), min_size=1, max_size=4, unique_by=tuple)
windows = st.lists(few.map(lambda ids: [*ids, 8]), min_size=1, max_size=4, unique_by=tuple)
tails = st.lists(few, min_size=1, max_size=5)


@given(
    leads,
    st.lists(st.tuples(st.integers(0, 3), windows, tails), min_size=1, max_size=3),
    tails,
    st.integers(1, 4),
)
def test_the_floor_is_that_of_the_prefix_tree_written_out(
    heads: list[list[int]],
    parts: list[tuple[int, list[list[int]], list[list[int]]]],
    controls: list[list[int]],
    block: int,
) -> None:
    prefixes, prompts = Prefixes(), []
    for number, dates, ends in parts:
        lead = heads[number % len(heads)]
        texts = [str(i) for i in range(len(dates))]
        prefixes.add(spliced([lead] * len(ends), dict(zip(texts, dates, strict=True)), ends), texts)
        prompts += [(*lead, *date, *end) for date in dates for end in ends]
    own = [[9, *control] for control in controls]
    prefixes.add(spliced([[]] * len(own), {"": []}, own), [""])
    prompts += map(tuple, own)
    assert prefixes.floor([block]) == brute(prompts, block)


@given(leads, windows, st.integers(1, 4))
def test_leads_of_their_own_for_each_item_are_counted_too(
    heads: list[list[int]], dates: list[list[int]], block: int
) -> None:
    prefixes, texts = Prefixes(), [str(i) for i in range(len(dates))]
    prefixes.add(spliced(heads, dict(zip(texts, dates, strict=True)), [[5, 6]] * len(heads)), texts)
    controls = [[*head, 9] for head in heads]
    prefixes.add(spliced([[]] * len(controls), {"": []}, controls), [""])
    prompts = [(*head, *date, 5, 6) for head in heads for date in dates] + [
        tuple(c) for c in controls
    ]
    assert prefixes.floor([block]) == brute(prompts, block)


def test_what_is_asked_in_two_passes_shares_nothing() -> None:
    texts = ["a", "b"]
    prefixes = Prefixes()
    prefixes.add(spliced([[7]], {"a": [1, 8], "b": [2, 8]}, [[1, 1]]), texts)
    prefixes.add(spliced([[7]], {"a": [1, 8], "b": [2, 8]}, [[1, 1]]), [])
    one = prefixes.floor([1])
    assert one + one == Floor(2 * one.prompt, 2 * one.tree, {1: 2 * one.blocks[1]})
