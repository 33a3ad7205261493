"""Many programs at once, or one with the machine to itself."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.core import locks


@contextlib.contextmanager
def running(*, alone: bool) -> Iterator[None]:
    """While inside with `alone`, no other program of this user runs, in any process or thread.

    Everyone passes a gate first. Whoever wants to be alone keeps it shut while those inside leave,
    so it waits no longer than they take. The locks are this machine's alone, so they live in the
    temporary folder and not in the cache.
    """
    gate, room = (
        Path(tempfile.gettempdir()) / f"datesweep-{os.getuid()}.{name}" for name in ("gate", "room")
    )
    with contextlib.ExitStack() as inside:
        with locks.shared_or_alone(gate, alone=True):
            inside.enter_context(locks.shared_or_alone(room, alone=alone))
        yield
