"""Locks on local files, which fall with the process that holds them, however it ends.

`exclusive` keeps others out of a folder or off a file. `shared_or_alone` lets many in together, or
one alone; it is entered for every program that is run, in a few milliseconds, so it is a bare
`flock`: filelock's ReadWriteLock takes a SQLite transaction, and as long as the program.
"""

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_CANNOT_LOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""What file systems say that have no locks."""


class LockTakenError(Exception):
    """Another process or thread holds the lock."""


@contextlib.contextmanager
def exclusive(path: Path, *, wait: bool) -> Iterator[None]:
    """While inside, nobody else holds the lock of the file `path`, whose folder is made.

    Where the file system has no locks, a marker beside it names the process that holds it. That is
    weaker, since a marker outlives a killed process until another on the same machine looks; it is
    said on standard error.

    Raises:
        LockTakenError: somebody else holds it, and `wait` is False.
        OSError: the file cannot be made.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    timeout_s = -1.0 if wait else 0.0
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(FileLock(path, timeout_s, fallback_to_soft=False))
        except Timeout:
            raise LockTakenError(path) from None
        except OSError as error:
            if error.errno not in _CANNOT_LOCK:
                raise
            warn(f"{path.parent} has no locks ({error}): a marker file stands in")
            try:
                held.enter_context(SoftFileLock(path.with_name(f"{path.name}.held"), timeout_s))
            except Timeout:
                raise LockTakenError(path) from None
        yield


@contextlib.contextmanager
def shared_or_alone(path: Path, *, alone: bool) -> Iterator[None]:
    """While inside with `alone`, no other of this user's is inside; without it, others may be.

    Where there is no lock to be had, nobody is kept out, which is said on standard error: the file
    system has none, or the file is a link or another user's, who could keep us waiting for ever.
    """
    with contextlib.ExitStack() as held:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            held.callback(os.close, handle)
            if os.fstat(handle).st_uid != os.getuid():
                raise PermissionError("it is another user's")
            fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        except OSError as error:
            warn(f"{path} cannot be locked ({error}), so no program waits for another")
        yield


_said: set[str] = set()


def warn(text: str) -> None:
    """Say on standard error what a user should know of a lock, once for each process."""
    if text not in _said:
        _said.add(text)
        sys.stderr.write(f"datesweep: {text}\n")
