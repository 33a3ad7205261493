"""How one process keeps others out of a run folder: a lock here, a lease on an object store."""

import contextlib
import fcntl
import itertools
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.core.errors import StoreError
from pipeline.store.places import Place, Remote

BEAT_S = 5.0
"""Seconds after which a process that works on a remote folder renews its lease."""
DEAD_AFTER_S = 30.0
"""Seconds without a renewal after which a lease counts as left behind."""
SETTLE_S = 1.0
"""Seconds that whoever takes over a lease waits to see whether another took it at the same time."""


def _in_use(folder: Place, who: str = "") -> StoreError:
    return StoreError(
        f"{folder}: another datesweep process{who} is working here; wait for it, or give "
        "another --out"
    )


@contextlib.contextmanager
def flocked(folder: Path) -> Iterator[None]:
    """While inside, this process has the lock of `folder`.

    It falls with the process, however it ends.

    Raises:
        StoreError: another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(folder) from None
        yield


@contextlib.contextmanager
def leased(folder: Remote) -> Iterator[None]:
    """While inside, a thread renews a lease file in `folder`, and whoever sees it renewed keeps
    out.

    Weaker than a lock: a process that stands still for `DEAD_AFTER_S` loses its lease without being
    stopped, and on stores that cannot create a file in one step two may begin at once. Even then
    every file stays whole; work is done twice. After a process was killed, the next waits for
    `DEAD_AFTER_S`. No clocks are compared.

    Raises:
        StoreError: another process renews the lease, or nothing can be written there.
    """
    lease = folder / ".lease"
    mine = f"{socket.gethostname()}, process {os.getpid()}; {secrets.token_hex(8)}"
    _take(lease, mine)
    stop = threading.Event()
    beats = threading.Thread(target=_renew, args=(lease, mine, stop), daemon=True)
    beats.start()
    try:
        yield
    finally:
        stop.set()
        beats.join()
        with contextlib.suppress(
            StoreError, FileNotFoundError
        ):  # a lease left behind is taken over
            if lease.read_text().startswith(mine):
                lease.unlink()


def _held(lease: Remote, found: str) -> StoreError:
    return _in_use(lease, f" ({found.partition(';')[0]})")


def _take(lease: Remote, mine: str) -> None:
    if not lease.create(mine):
        _wait_for_silence(lease)
        lease.write_text(mine)
        time.sleep(SETTLE_S)
    if (found := lease.read_text()) != mine:
        raise _held(lease, found)


def _wait_for_silence(lease: Remote) -> None:
    """Return when `lease` was not renewed for `DEAD_AFTER_S`, or is gone.

    Raise as soon as it is renewed.
    """
    deadline = time.monotonic() + DEAD_AFTER_S
    with contextlib.suppress(FileNotFoundError):
        seen = lease.read_text()
        while time.monotonic() < deadline:
            time.sleep(BEAT_S / 4)
            if (found := lease.read_text()) != seen:
                raise _held(lease, found)


def _renew(lease: Remote, mine: str, stop: threading.Event) -> None:
    for beat in itertools.count(1):
        if stop.wait(BEAT_S):
            return
        with contextlib.suppress(
            StoreError, FileNotFoundError
        ):  # a store that stumbles is asked again at the next beat
            if not lease.read_text().startswith(mine):
                return
            lease.write_text(f"{mine}; beat {beat}")
