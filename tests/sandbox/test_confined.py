"""Plain data between tests and program: what arrives is what was sent, in Python's own types."""

import json
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pipeline.sandbox.confined import plain

SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False)
)
HASHABLE = st.recursive(
    SIMPLE, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.sets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
    ),
    max_leaves=12,
)


def travel(value: Any) -> Any:
    """What arrives of `value`."""
    coded = plain.encode(value, lambda v: {"opaque": [type(v).__name__, bool(v)]})
    return plain.decode(json.loads(json.dumps(coded)))


def shape(value: Any) -> Any:
    """The value with all types spelled out."""
    if isinstance(value, dict):
        return dict, [(shape(k), shape(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [shape(v) for v in value]
    return type(value), value


@settings(deadline=None, max_examples=50)
@given(VALUES)
def test_plain_data_arrive_as_they_were(value: Any) -> None:
    assert shape(travel(value)) == shape(value)


Point = namedtuple("Point", "x y")


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Text(str):
    pass


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        (Point(1, 2), (1, 2)),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (Liar(3), 3),
        ([Liar(1 << 99)], [1 << 99]),
        (Text("x"), "x"),
        (True, True),
        (range(1, 9, 2), range(1, 9, 2)),
        (1 << 20_000, 1 << 20_000),
        (-(1 << 62), -(1 << 62)),
        (float("inf"), float("inf")),
        ("\ud800", "\ud800"),
        (bytearray(b"x"), bytearray(b"x")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_arrives_as_its_base(sent: Any, arrived: Any) -> None:
    assert shape(travel(sent)) == shape(arrived)


def test_views_and_iterators_keep_what_they_yield() -> None:
    assert travel({1: 2}.keys()) == {1}
    assert travel({1: 2}.items()) == {(1, 2)}
    assert list(travel(map(abs, [-1, 2]))) == [1, 2]
    assert travel(iter([1])) != [1]


@pytest.mark.parametrize(
    "value", [object(), len, deque([1]), int, {}.values(), (x for x in iter(int, 1))]
)
def test_anything_else_equals_nothing(value: Any) -> None:
    arrived = travel([value])[0]
    assert isinstance(arrived, plain.Opaque)
    assert arrived != value and arrived != 1 and arrived != travel([value])[0]


def test_an_opaque_object_keeps_its_truth() -> None:
    assert travel(deque([1])) and not travel(deque())


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"a": 1, "b": 2},
        {"nope": [1]},
        {"set": [[1]]},
        {"int": "x"},
        {"dict": [1]},
        {"Decimal": ["x"]},
    ],
)
def test_data_that_no_encoder_sends_are_refused(data: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017 - the tester takes any of them for a failure of the program
        plain.decode(data)


def test_numbers_are_equal_across_types_as_ever() -> None:
    assert travel(Decimal("0.5")) == travel(Fraction(1, 2)) == travel(0.5)
