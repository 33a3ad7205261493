"""Where a run folder may be: a local path or a URL that fsspec can write.

`universal_pathlib` offers paths for URLs too. `Remote` is kept since a run needs little, and that
exactly: what a store cannot tell is an error and not False or an empty folder, listings are never
cached, names are matched as they are, brackets included, and a file is made or replaced in one step
where the store can.
"""

import contextlib
import fnmatch
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import StoreError

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl")
"""Schemes of stores that show an object only when it is whole, and that have no folders to make.
Polars reads them by itself."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A file or folder at a URL, with those operations of `Path` that a run needs.

    Every operation asks the store anew, since other processes write there too. What goes wrong
    there is a StoreError, but for the FileNotFoundError that a `Path` raises too.
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
        """Files below this folder that match `pattern`, part by part, in the store's order.

        None where there is no folder.
        """
        first, _, rest = pattern.partition("/")
        try:
            with self._asking() as (files, path):
                entries = files.ls(path, detail=True)
        except FileNotFoundError:
            return
        for entry in entries:
            child = self / entry["name"].rstrip("/").rpartition("/")[2]
            is_wanted = (entry["type"] == "directory") == bool(rest)
            if is_wanted and fnmatch.fnmatchcase(child.name, first):
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
        """Whether the file was not there and now holds `text`.

        Where the store cannot say so in one step, two may hear True.
        """
        if self.is_file():
            return False
        with self._asking() as (files, path):
            self._make_parent(files, path)
            try:
                files.pipe_file(path, text.encode(), mode="create")
            except FileExistsError:
                return False
            except FileNotFoundError:
                raise StoreError(
                    f"{self.url}: there is no such place to write to; make the bucket first"
                ) from None
        return True

    def upload(self, local: Path) -> None:
        """Make this file a copy of `local`, in one step where the store can."""
        with self._asking() as (files, path):
            # A store without a rename of its own has fsspec's, which copies: no safer than writing
            # the file where it belongs.
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
        """The file system of this URL, which fsspec keeps, and the path in it."""
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
