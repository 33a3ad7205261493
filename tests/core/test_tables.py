import datetime

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pipeline import frames, variants
from pipeline.config import CalendarSpec, ConditionsSpec
from pipeline.records import Completion, Item, PlanRow, Score, Variant

TEXT = st.text(max_size=20)
ITEMS = st.builds(
    Item,
    task=TEXT,
    item_id=TEXT,
    group=TEXT,
    fields=st.dictionaries(TEXT, TEXT, max_size=3),
    options=st.lists(TEXT, max_size=5),
    target=TEXT,
    references=st.lists(TEXT, max_size=2),
)


@given(st.lists(ITEMS, max_size=4))
def test_items_survive_a_frame(items: list[Item]) -> None:
    assert list(frames.to_records(Item, frames.from_records(Item, items))) == items


def test_variants_survive_a_frame() -> None:
    rows = [
        variants.variants(CalendarSpec(dates=[]), ConditionsSpec())[0],
        *variants.variants(CalendarSpec(dates=[datetime.date(2024, 1, 1)], control=False), ConditionsSpec()),
    ]
    assert list(frames.to_records(Variant, frames.from_records(Variant, rows))) == rows


def test_schemas_have_the_keys_that_joins_use() -> None:
    assert set(frames.ROW_KEY) <= set(frames.schema(Completion))
    assert set(frames.OUTPUT_KEY) <= set(frames.schema(Completion))
    assert {*frames.OUTPUT_KEY, "metric"} <= set(frames.schema(Score))
    assert set(frames.schema(PlanRow)) == {"shard", "item", "arm"}
    assert frames.schema(Score)["stats"] == pl.List(pl.Float64())


@given(TEXT, st.lists(st.floats(allow_nan=False), max_size=4), TEXT, st.lists(st.floats(allow_nan=False), max_size=4))
def test_outputs_have_the_same_id_exactly_when_they_are_the_same(a: str, xs: list[float], b: str, ys: list[float]) -> None:
    same = a == b and [x.hex() for x in xs] == [y.hex() for y in ys]
    assert (frames.output_id(a, xs) == frames.output_id(b, ys)) == same


@given(st.lists(st.integers(0, 2**32 - 1), max_size=8), st.lists(st.integers(0, 2**32 - 1), max_size=8))
def test_prompts_have_the_same_hash_exactly_when_their_ids_are_the_same(a: list[int], b: list[int]) -> None:
    assert (frames.prompt_hash(a) == frames.prompt_hash(b)) == (a == b)
