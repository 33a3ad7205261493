import datetime

import polars as pl
from hypothesis import given, strategies as st

from pipeline.core import tables
from pipeline.core.records import Completion, Item, PlanRow, Score, Variant
from pipeline.prompts import variants
from pipeline.settings.schema import CalendarSpec, ConditionsSpec

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
    assert list(tables.to_records(Item, tables.from_records(Item, items))) == items


def test_variants_survive_a_frame() -> None:
    rows = [
        variants.variants(CalendarSpec(dates=[]), ConditionsSpec())[0],
        *variants.variants(
            CalendarSpec(dates=[datetime.date(2024, 1, 1)], control=False), ConditionsSpec()
        ),
    ]
    assert list(tables.to_records(Variant, tables.from_records(Variant, rows))) == rows


def test_schemas_have_the_keys_that_joins_use() -> None:
    assert set(tables.ROW_KEY) <= set(tables.schema(Completion))
    assert set(tables.OUTPUT_KEY) <= set(tables.schema(Completion))
    assert {*tables.OUTPUT_KEY, "metric"} <= set(tables.schema(Score))
    assert set(tables.schema(PlanRow)) == {"shard", "item", "arm"}
    assert tables.schema(Score)["stats"] == pl.List(pl.Float64())


@given(
    TEXT,
    st.lists(st.floats(allow_nan=False), max_size=4),
    TEXT,
    st.lists(st.floats(allow_nan=False), max_size=4),
)
def test_outputs_have_the_same_id_exactly_when_they_are_the_same(
    a: str, xs: list[float], b: str, ys: list[float]
) -> None:
    same = a == b and [x.hex() for x in xs] == [y.hex() for y in ys]
    assert (tables.output_id(a, xs) == tables.output_id(b, ys)) == same


@given(
    st.lists(st.integers(0, 2**32 - 1), max_size=8), st.lists(st.integers(0, 2**32 - 1), max_size=8)
)
def test_prompts_have_the_same_hash_exactly_when_their_ids_are_the_same(
    a: list[int], b: list[int]
) -> None:
    assert (tables.prompt_hash(a) == tables.prompt_hash(b)) == (a == b)
