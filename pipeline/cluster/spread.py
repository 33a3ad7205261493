"""One function over many inputs, on all the workers that Ray has."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pipeline.cluster.ray_session import worker_deaths

Input = TypeVar("Input")


def spread(
    work: Callable[[Input], Any], inputs: Iterable[Input], *, num_at_once: int, retries: int
) -> Iterator[tuple[Input, Exception | None]]:
    """Each of `inputs` when `work` on it has ended, with the error if its workers died of it.

    Args:
        work: called on a worker's core; what it returns is dropped, what it raises is raised here.
        inputs: read when there is room.
        num_at_once: how many are handed out at a time.
        retries: how often an input whose worker died is given to another.
    """
    import ray

    remote = ray.remote(num_cpus=1, max_retries=retries)(work)
    waiting = iter(inputs)
    running: dict[Any, Input] = {}
    while True:
        for item in itertools.islice(waiting, num_at_once - len(running)):
            running[remote.remote(item)] = item
        if not running:
            return
        for reference in ray.wait(list(running))[0]:
            item, death = running.pop(reference), None
            try:
                ray.get(reference)
            except worker_deaths() as error:
                death = error
            yield item, death


def on_a_worker(work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work` returns on a worker that has nothing else to do; tried once.

    Raises:
        Exception: as `work` raised it, or one of `worker_deaths`.
    """
    import ray

    return ray.get(ray.remote(num_cpus=1, max_retries=0)(work).remote(*arguments))
