"""Plain data: how arguments and results travel between the tests and the program.

Only types of Python itself cross, rebuilt on arrival from JSON, so that no method of the program's
ever runs among the tests. A subclass of such a type arrives as the type, a generator as an iterator
over what it yields. Anything else arrives as an `Opaque`, which equals nothing.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

MAX_YIELDS = 100_000
"""An iterator that yields more is opaque."""
_JSON_INT = 1 << 62
"""Greater integers travel in hexadecimal, which has no limit on digits and takes linear time."""


class Opaque:
    """Stands for an object that cannot travel; it equals itself alone and keeps its truth."""

    def __init__(self, kind: str, truth: bool) -> None:
        """An object of type `kind`."""
        self._kind, self._truth = kind, truth

    def __bool__(self) -> bool:
        return self._truth

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def encode(value: Any, other: Callable[[Any], Any]) -> Any:
    """What JSON can hold of `value`; `other` encodes what is no plain data."""
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return int(value) if -_JSON_INT < value < _JSON_INT else {"int": hex(value)}
        case list():
            return [encode(v, other) for v in value]
        case dict():
            return {"dict": [[encode(k, other), encode(v, other)] for k, v in value.items()]}
    kind, content = _parts(value)
    return other(value) if kind is None else {kind: [encode(v, other) for v in content]}


def _parts(value: Any) -> tuple[str | None, Any]:
    """The key of `_MAKERS` that rebuilds `value`, and from which values.

    None for what is no plain data.
    """
    for cls in (tuple, set, frozenset, bytes, bytearray):
        if isinstance(value, cls):
            return cls.__name__, value
    if isinstance(value, complex):
        return "complex", (value.real, value.imag)
    if isinstance(value, range):
        return "range", (value.start, value.stop, value.step)
    if isinstance(value, type({}.keys())):
        return "keys", value
    if isinstance(value, type({}.items())):
        return "items", value
    if isinstance(value, _number("fractions", "Fraction")):
        return "Fraction", (value.numerator, value.denominator)
    if isinstance(value, _number("decimal", "Decimal")):
        return "Decimal", (str(value),)
    if isinstance(value, Iterator):
        found = list(islice(value, MAX_YIELDS + 1))
        return ("iter", found) if len(found) <= MAX_YIELDS else (None, None)
    return None, None


def _number(module: str, name: str) -> Any:
    """A class of a module that takes long to import.

    No class where nobody did, since then no value is of it.
    """
    return getattr(sys.modules.get(module), name, ())


def _make(module: str, name: str, parts: list[Any]) -> Any:
    """A value of that class."""
    return getattr(__import__(module), name)(*parts)


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": bytes,
    "bytearray": bytearray,
    "dict": lambda pairs: {k: v for k, v in pairs},  # noqa: C416 - clearer than dict() with a list of lists
    "keys": lambda keys: dict.fromkeys(keys).keys(),
    "items": lambda pairs: dict(pairs).items(),
    "iter": iter,
    "complex": lambda parts: complex(*parts),
    "range": lambda parts: range(*parts),
    "Fraction": lambda parts: _make("fractions", "Fraction", parts),
    "Decimal": lambda parts: _make("decimal", "Decimal", parts),
    "opaque": lambda parts: Opaque(*parts),
}


def decode(data: Any) -> Any:
    """The value that `encode` was given.

    Raises:
        Exception: `data` is nothing that `encode` returns.
    """
    if isinstance(data, list):
        return [decode(v) for v in data]
    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    return int(content, 16) if kind == "int" else _MAKERS[kind](decode(content))
