"""One function over many inputs on workers: each comes back once, also one that kills."""

import os
from collections.abc import Iterator

import pytest

from pipeline import cluster

pytestmark = pytest.mark.usefixtures("ray_session")


def double(number: int) -> int:
    return 2 * number


def kill_on_three(number: int) -> None:
    if number == 3:
        os._exit(1)


def test_each_input_comes_back_once_and_a_death_comes_with_its_own() -> None:
    ended = dict(cluster.spread(kill_on_three, range(6), num_at_once=2, retries=0))
    assert sorted(ended) == list(range(6))
    assert [number for number, death in ended.items() if death] == [3]
    assert isinstance(ended[3], cluster.worker_deaths())


def test_inputs_are_read_only_as_there_is_room() -> None:
    read = []

    def inputs() -> Iterator[int]:
        for number in range(5):
            read.append(number)
            yield number

    for count, _ in enumerate(cluster.spread(double, inputs(), num_at_once=2, retries=0), 1):
        assert len(read) <= count + 1


def test_what_the_function_raises_is_raised_here() -> None:
    with pytest.raises(TypeError):
        list(cluster.spread(double, [None], num_at_once=1, retries=0))
    assert cluster.on_a_worker(double, 2) == 4
