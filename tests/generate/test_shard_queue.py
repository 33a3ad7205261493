"""The queue that replicas share."""

from hypothesis import given, strategies as st

from pipeline.generate.shard_queue import ShardQueue


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
