"""Files that are there whole or not at all, here or on an object store."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.store.manifest import differences
from pipeline.store.places import OBJECT_STORES, Place, Remote


@contextlib.contextmanager
def replacing(path: Place) -> Iterator[Path]:
    """A temporary local path whose file becomes `path` in one step on success.

    A reader sees the whole file or none.
    """
    if isinstance(path, Remote):
        with tempfile.TemporaryDirectory(prefix="datesweep-") as folder:
            part = Path(folder) / path.name
            yield part
            path.upload(part)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o644)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_parquet(path: Place) -> pl.DataFrame:
    """The table at `path`."""
    return pl.read_parquet(path if isinstance(path, Path) else path.read_bytes(), glob=False)


def scan_parquet(paths: Sequence[Place]) -> pl.LazyFrame:
    """The tables at `paths`, one below the other, read as they are needed.

    Files on stores that Polars cannot read are held in memory as they are stored.
    """
    if all(isinstance(path, Path) or path.scheme in OBJECT_STORES for path in paths):
        return pl.scan_parquet([str(path) for path in paths], glob=False)
    return pl.scan_parquet(read_all(paths))


def _types(schema: pl.Schema) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in schema.items()}


def read_all(paths: Sequence[Place]) -> list[bytes]:
    """What each file holds; several at a time, as a store takes tens of milliseconds for each."""
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda path: path.read_bytes(), paths))


def write_parquet(frame: pl.DataFrame, path: Place, schema: pl.Schema | None = None) -> None:
    """Write `frame` to `path` in one step; equal frames give equal bytes.

    Raises:
        TypeError: the frame's columns are not those of `schema`, which is a fault of ours.
    """
    if schema is not None and frame.schema != schema:
        lines = differences(_types(schema), _types(frame.schema))
        raise TypeError(f"{path.name}: other columns than it is to have: {'; '.join(lines)}")
    with replacing(path) as part:
        frame.write_parquet(part, compression="zstd", statistics=True, row_group_size=1 << 20)


def write_json(value: Any, path: Place) -> None:
    """Write `value` to `path` in one step; equal values give equal bytes."""
    with replacing(path) as part:
        part.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
