"""Two ways of doing the same, timed in turn, so that a slow minute of the machine falls on both."""

from collections.abc import Callable
from typing import TypeVar

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


def in_turn(
    number: int, ours: Callable[[], Ours], theirs: Callable[[], Theirs]
) -> tuple[Ours, Theirs]:
    """What both give; on even numbers ours goes first, on odd ones theirs."""
    if number % 2:
        late = theirs()
        return ours(), late
    return ours(), theirs()
