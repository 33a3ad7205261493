"""The shards of a model that are still to be made, shared by its replicas."""

from collections import deque


class ShardQueue:
    """Shards as ranges of neighbours, since neighbours share prefixes; an actor.

    A replica works through a range of its own. One that has none left takes the second half of the
    longest range, so a fast replica relieves a slow one, and each keeps to neighbours while it can.
    Which replica makes a shard leaves no trace in it.
    """

    def __init__(self, shards: list[int]) -> None:
        """`shards` in plan order."""
        self._ownerless: list[deque[int]] = [deque(shards)]
        self._ranges: dict[int, deque[int]] = {}
        self._handed: dict[int, list[int]] = {}
        self._gone: set[int] = set()

    def take(self, replica: int) -> int | None:
        """The next shard for `replica`, or None when all are handed out."""
        if replica in self._gone:  # a call that was still on its way when its replica died
            return None
        own = self._ranges.setdefault(replica, deque())
        if not own:
            own.extend(self._range())
        if not own:
            return None
        self._handed.setdefault(replica, []).append(own[0])
        return own.popleft()

    def left(self) -> int:
        """Shards not handed out yet."""
        return sum(map(len, [*self._ownerless, *self._ranges.values()]))

    def handed(self, replica: int) -> list[int]:
        """Every shard that the dead `replica` was given; from now on it gets none."""
        self._gone.add(replica)
        return self._handed.pop(replica, [])

    def bury(self, replica: int, unfinished: list[int]) -> None:
        """Hand out again what a dead `replica` left `unfinished`, then the rest of its range."""
        self._ownerless.append(deque([*unfinished, *self._ranges.pop(replica, ())]))

    def _range(self) -> list[int]:
        """The longest range without an owner, else half of another's; empty if nothing is left."""
        self._ownerless = sorted(filter(None, self._ownerless), key=len)
        if self._ownerless:
            return list(self._ownerless.pop())
        longest = max(self._ranges.values(), key=len)
        return [longest.pop() for _ in range((len(longest) + 1) // 2)][::-1]
