"""The queue that replicas share, and what a replica checks before it loads anything."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pipeline.cluster import Layout
from pipeline.core.errors import EngineError
from pipeline.generate.replica import Replica, ShardQueue
from pipeline.settings.schema import SweepSpec
from pipeline.store.run_folder import Run


def taken(queue: ShardQueue, replica: int, count: int) -> list[int | None]:
    return [queue.take(replica) for _ in range(count)]


def test_a_replica_alone_gets_the_shards_in_plan_order() -> None:
    assert taken(ShardQueue([3, 4, 7]), 0, 4) == [3, 4, 7, None]


def test_a_second_replica_gets_the_second_half_and_both_keep_to_neighbours() -> None:
    queue = ShardQueue(list(range(9)))
    assert taken(queue, 0, 1) == [0]
    assert [taken(queue, replica, 1)[0] for replica in (1, 0, 1, 0)] == [5, 1, 6, 2]


def test_an_idle_replica_relieves_the_one_with_most_left() -> None:
    queue = ShardQueue(list(range(16)))
    for replica in (0, 1, 2):
        queue.take(replica)  # 0 has 1 to 3 left, 1 has 9 to 15, 2 has 5 to 7
    assert taken(queue, 2, 4) == [5, 6, 7, 12], "the second half of 9 to 15"
    assert queue.left() == 9


@given(st.integers(0, 40), st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=120))
def test_every_shard_is_made_once_by_a_replica_that_lived_to_finish_it(
    num_shards: int, steps: list[tuple[int, bool]]
) -> None:
    queue, at_work, finished, numbers = ShardQueue(list(range(num_shards))), {}, [], list(range(6))

    def advance(slot: int, is_to_die: bool) -> None:
        """The replica of a slot dies, with one shard that it was at, or finishes it and takes the
        next.
        """
        number, current = numbers[slot], at_work.pop(slot, None)
        if is_to_die:
            done = [s for s in queue.handed(number) if s != current]
            assert set(done) <= set(finished)
            assert queue.take(number) is None, "a call of the dead that comes late"
            queue.bury(number, [] if current is None else [current])
            numbers[slot] = max(numbers) + 1
            return
        finished.extend([] if current is None else [current])
        if (shard := queue.take(number)) is not None:
            at_work[slot] = shard

    for slot, is_to_die in steps:
        advance(slot, is_to_die)
    for slot in [*range(6)] * (num_shards + 1):
        advance(slot, is_to_die=False)
    assert sorted(finished) == list(range(num_shards))
    assert queue.left() == 0


def other_fingerprint(run: Run) -> None:
    Path(str(run.manifest_path)).write_text(
        json.dumps({**run.manifest(), "fingerprint": "of another run"})
    )


def no_manifest(run: Run) -> None:
    Path(str(run.manifest_path)).unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_manifest, r"cannot read the run folder .*No such file"),
        (other_fingerprint, "sees another run"),
    ],
)
def test_a_node_that_does_not_see_the_run_folder_says_that_it_must_be_shared(
    change: Callable[[Run], None],
    message: str,
    simulated_run: Run,
    simulated_spec: SweepSpec,
    tmp_path: Path,
) -> None:
    here = Run(tmp_path)
    Path(str(here.manifest_path)).write_text(json.dumps(simulated_run.manifest()))
    change(here)
    placed = Layout(device="cpu", num_replicas=1, threads=1, num_cpus=1, num_gpus=0)
    replica = Replica(tmp_path, simulated_spec, simulated_spec.models[0], placed)
    with pytest.raises(EngineError, match=f"{message}.*all of them share"):
        replica.start(simulated_run.manifest()["fingerprint"], 0)
    assert not (tmp_path / "logs").exists(), "nothing is written there"
