"""Turns on this machine: many programs at once, or one with the machine to itself."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """While inside with `alone`, nobody else of this user is inside, in whatever process or thread.

    Without it, others may be.

    Everyone passes a gate first. Whoever wants to be alone keeps it shut while those inside leave,
    so it waits no longer than they take.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as gate:
            gate.enter_context(_locked("gate", fcntl.LOCK_EX))
            stack.enter_context(_locked("room", kind))
        yield


@contextlib.contextmanager
def _locked(name: str, kind: int) -> Iterator[None]:
    """A lock that falls with its process.

    It is this machine's alone, so it lives in the temporary folder and not in the cache.
    """
    path = Path(tempfile.gettempdir()) / f"datesweep-{os.getuid()}.{name}"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except (
        OSError
    ):  # the name is taken by somebody else: that may cost us a quiet turn, but not the run
        yield
        return
    try:
        if (
            os.fstat(fd).st_uid == os.getuid()
        ):  # whoever owns another's could keep us waiting for ever
            fcntl.flock(fd, kind)
        yield
    finally:
        os.close(fd)
