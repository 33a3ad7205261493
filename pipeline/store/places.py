"""Where a run folder may be: a local path or a URL that fsspec can write; and how one process keeps others out of either."""

import contextlib
import fcntl
import fnmatch
import itertools
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import StoreError

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl")
"""Schemes of stores that show an object only when it is whole, and that have no folders to make. Polars reads them by itself."""

BEAT_S = 5.0
"""Seconds after which a process that works on a remote folder renews its lease."""
DEAD_AFTER_S = 30.0
"""Seconds without a renewal after which a lease counts as left behind."""
SETTLE_S = 1.0
"""Seconds that whoever takes over a lease waits to see whether another took it at the same time."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A file or folder at a URL, with those operations of `Path` that a run needs.

    Every operation asks the store anew, since other processes write there too. What goes wrong there is a StoreError, but for the
    FileNotFoundError that a `Path` raises too.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "Remote":
        return Remote(f"{self.url}/{name}")

    @property
    def scheme(self) -> str:
        """What the URL begins with, e.g. `s3`."""
        return self.url.partition("://")[0]

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return Path(self.name).stem

    def resolve(self) -> "Remote":
        """Itself: a URL is the same from everywhere."""
        return self

    def is_file(self) -> bool:
        """Whether a file is there; one that cannot be asked after is an error and not False."""
        try:
            with self._asking() as (files, path):
                return bool(files.info(path)["type"] == "file")
        except FileNotFoundError:
            return False

    def glob(self, pattern: str) -> Iterator["Remote"]:
        """Files below this folder that match `pattern`, part by part, in the store's order; none where there is no folder."""
        first, _, rest = pattern.partition("/")
        try:
            with self._asking() as (files, path):
                entries = files.ls(path, detail=True)
        except FileNotFoundError:
            return
        for entry in entries:
            child = self / entry["name"].rstrip("/").rpartition("/")[2]
            if fnmatch.fnmatchcase(child.name, first) and (entry["type"] == "directory") == bool(rest):
                yield from child.glob(rest) if rest else [child]

    def read_bytes(self) -> bytes:
        """What the file holds."""
        with self._asking() as (files, path):
            return bytes(files.cat_file(path))

    def read_text(self) -> str:
        """What the file holds, as UTF-8."""
        return self.read_bytes().decode()

    def write_text(self, text: str) -> None:
        """Write a small file; see `upload` for one that must be whole."""
        with self._asking() as (files, path):
            files.pipe_file(path, text.encode())

    def create(self, text: str) -> bool:
        """Whether the file was not there and now holds `text`; where the store cannot say so in one step, two may hear True."""
        if self.is_file():
            return False
        with self._asking() as (files, path):
            self._make_parent(files, path)
            try:
                files.pipe_file(path, text.encode(), mode="create")
            except FileExistsError:
                return False
            except FileNotFoundError:
                raise StoreError(f"{self.url}: there is no such place to write to; make the bucket first") from None
        return True

    def upload(self, local: Path) -> None:
        """Make this file a copy of `local`, at once where the store renames files or shows only whole ones."""
        with self._asking() as (files, path):
            # A store without a rename of its own has fsspec's, which copies: no safer than writing the file where it belongs.
            if self.scheme in OBJECT_STORES or type(files).mv is _fsspec().AbstractFileSystem.mv:
                files.put_file(str(local), path)
            else:
                part = f"{path}.{secrets.token_hex(4)}"
                self._make_parent(files, path)
                files.put_file(str(local), part)
                files.mv(part, path)

    def unlink(self) -> None:
        """Delete the file."""
        with self._asking() as (files, path):
            files.rm_file(path)

    def _make_parent(self, files: Any, path: str) -> None:
        if self.scheme not in OBJECT_STORES:
            files.makedirs(path.rpartition("/")[0], exist_ok=True)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[tuple[Any, str]]:
        """The file system of this URL and the path in it; fsspec keeps one for each setting, so asking again is cheap."""
        try:
            yield _fsspec().core.url_to_fs(self.url, use_listings_cache=False)
        except (FileNotFoundError, StoreError):
            raise
        except Exception as error:  # each store has exceptions of its own
            raise StoreError(f"{self.url}: {type(error).__name__}: {error}") from error


def _fsspec() -> Any:
    import fsspec  # type: ignore[import-untyped]

    return fsspec


Place = Path | Remote
"""Where a file or folder is."""


def place(folder: str | Place) -> Place:
    """`folder` as a Remote where it is a URL, else as a Path."""
    if isinstance(folder, str):
        return Remote(folder.rstrip("/")) if "://" in folder else Path(folder)
    return folder


def _in_use(folder: Place, who: str = "") -> StoreError:
    return StoreError(f"{folder}: another datesweep process{who} is working here; wait for it, or give another --out")


@contextlib.contextmanager
def flocked(folder: Path) -> Iterator[None]:
    """While inside, this process has the lock of `folder`; it falls with the process, however it ends.

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
    """While inside, a thread renews a lease file in `folder`, and whoever sees it renewed keeps out.

    Weaker than a lock: a process that stands still for `DEAD_AFTER_S` loses its lease without being stopped, and on stores that cannot
    create a file in one step two may begin at once. Even then every file stays whole; work is done twice. After a process was killed, the
    next waits for `DEAD_AFTER_S`. No clocks are compared.

    Raises:
        StoreError: another process renews the lease, or nothing can be written there.
    """
    lease, mine = folder / ".lease", f"{socket.gethostname()}, process {os.getpid()}; {secrets.token_hex(8)}"
    _take(lease, mine)
    stop = threading.Event()
    beats = threading.Thread(target=_renew, args=(lease, mine, stop), daemon=True)
    beats.start()
    try:
        yield
    finally:
        stop.set()
        beats.join()
        with contextlib.suppress(StoreError, FileNotFoundError):  # a lease left behind is taken over
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
    """Return when `lease` was not renewed for `DEAD_AFTER_S`, or is gone; raise as soon as it is renewed."""
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
        with contextlib.suppress(StoreError, FileNotFoundError):  # a store that stumbles is asked again at the next beat
            if not lease.read_text().startswith(mine):
                return
            lease.write_text(f"{mine}; beat {beat}")
