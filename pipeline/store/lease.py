"""How one process keeps others out of a run folder on an object store, which has no locks."""

import contextlib
import itertools
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator

from pipeline.core.errors import StoreError
from pipeline.store.places import Place, Remote

BEAT_S = 5.0
"""Seconds after which a process that works on a remote folder renews its lease."""
DEAD_AFTER_S = 30.0
"""Seconds without a renewal after which a lease counts as left behind."""
SETTLE_S = 1.0
"""Seconds that whoever takes over a lease waits to see whether another took it at the same time."""


def in_use(folder: Place, who: str = "") -> StoreError:
    """The error for a `folder` that another process works in; `who` is that process, if known."""
    return StoreError(
        f"{folder}: another datesweep process{who} is working here; wait for it, or give "
        "another --out"
    )


@contextlib.contextmanager
def leased(folder: Remote) -> Iterator[None]:
    """While inside, a thread renews a lease file in `folder`; whoever sees it renewed keeps out.

    Weaker than a lock: a process that stands still for `DEAD_AFTER_S` loses its lease without being
    stopped, and on stores that cannot create a file in one step two may begin at once. Even then
    every file stays whole; work is done twice. After a process was killed, the next waits for
    `DEAD_AFTER_S`. No clocks are compared.

    Raises:
        StoreError: another process renews the lease, or nothing can be written there.
    """
    lease = folder / ".lease"
    own_text = f"{socket.gethostname()}, process {os.getpid()}; {secrets.token_hex(8)}"
    _take(lease, own_text)
    stop = threading.Event()
    beats = threading.Thread(target=_renew, args=(lease, own_text, stop), daemon=True)
    beats.start()
    try:
        yield
    finally:
        stop.set()
        beats.join()
        with contextlib.suppress(StoreError, FileNotFoundError):  # one left behind is taken over
            if lease.read_text().startswith(own_text):
                lease.unlink()


def _take(lease: Remote, own_text: str) -> None:
    if not lease.create(own_text):
        _wait_for_silence(lease)
        lease.write_text(own_text)
        time.sleep(SETTLE_S)
    if (text := lease.read_text()) != own_text:
        raise _held(lease, text)


def _held(lease: Remote, text: str) -> StoreError:
    return in_use(lease, f" ({text.partition(';')[0]})")


def _wait_for_silence(lease: Remote) -> None:
    """Return when `lease` was not renewed for `DEAD_AFTER_S`, or is gone; raise if it was."""
    deadline = time.monotonic() + DEAD_AFTER_S
    with contextlib.suppress(FileNotFoundError):
        first_text = lease.read_text()
        while time.monotonic() < deadline:
            time.sleep(BEAT_S / 4)
            if (text := lease.read_text()) != first_text:
                raise _held(lease, text)


def _renew(lease: Remote, own_text: str, stop: threading.Event) -> None:
    for beat in itertools.count(1):
        if stop.wait(BEAT_S):
            return
        # A store that stumbles is asked again at the next beat.
        with contextlib.suppress(StoreError, FileNotFoundError):
            if not lease.read_text().startswith(own_text):
                return
            lease.write_text(f"{own_text}; beat {beat}")
