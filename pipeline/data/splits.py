"""Splits of Hub data sets, kept in the cache folder as a mirror is.

`<split>.pin.json` beside each file says at which commit it was fetched.
"""

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core import cache
from pipeline.core.errors import DataError
from pipeline.tasks import Source

TIMEOUT_S = 10.0
"""How long the Hub may take to say at which commit a data set is."""

_NOT_OFFERED = ("BuilderConfig", "Bad split")
"""How `datasets` begins its message when a data set has no such configuration or split."""


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


def fetch_split(source: Source, say: Callable[[str], None] = lambda text: None) -> Pin:
    """What is kept of `source` in the cache folder, fetched from the Hub if it is not there yet.

    Only this split's files are read, which matters where another split has millions of rows. What
    is there stays as it is, also when the Hub has a newer commit: remove the files to fetch anew.
    `say` gets a line before fetching.

    Raises:
        DataError: the Hub cannot be reached, or does not give the data set away without a login.
    """
    if pin := pinned(source):
        return pin
    with cache.filling(_rows_file(source)):
        if pin := pinned(source):
            return pin
        say(f"fetching {source.dataset} ({source.config}, {source.split}) from the Hub")
        return _fetch(source)


def pinned(source: Source) -> Pin | None:
    """What was fetched of `source`; a split counts if its pin is there, which is written last."""
    path = _pin_file(source)
    if not path.is_file():
        return None
    pin = Pin(**json.loads(path.read_text()))
    return pin if pin.num_rows is None or _rows_file(source).is_file() else None


def fetched_file(source: Source) -> Path:
    """The file with the rows of `source`, fetched from the Hub if need be.

    Raises:
        DataError: it cannot be fetched, the Hub has no such split, or the file was changed since.
    """
    pin, path = fetch_split(source), _rows_file(source)
    if pin.num_rows is None:
        raise DataError(
            f"{source.dataset} has no split {source.split!r} in configuration {source.config!r} on "
            f"the Hub at commit {pin.commit}; if a later commit has, remove {_pin_file(source)}"
        )
    if _sha256(path) != pin.sha256:
        raise DataError(
            f"{path} is not the file that was fetched (see {_pin_file(source)}); remove it, and it "
            "is fetched again"
        )
    return path


def silence() -> None:
    """Switch off the progress bars of `datasets`; the terminal belongs to our own."""
    from datasets import disable_progress_bars

    disable_progress_bars()


def _rows_file(source: Source) -> Path:
    return cache.folder() / "data" / source.dataset / source.config / f"{source.split}.parquet"


def _pin_file(source: Source) -> Path:
    return _rows_file(source).with_name(f"{source.split}.pin.json")


def _fetch(source: Source) -> Pin:
    """The pin of `source`, newly fetched.

    Checked against recorded shapes of the Hub's answers, not against the Hub.
    """
    gated = False
    try:
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(source.dataset, timeout=TIMEOUT_S)
        gated = bool(info.gated)
        return _keep(source, str(info.sha), _download(source, str(info.sha)))
    except Exception as error:  # of the Hub's client, `datasets`, the network or the disk
        gated = gated and not isinstance(error, ConnectionError)
        raise DataError(_cannot_fetch(source, error, gated)) from error


def _download(source: Source, commit: str) -> Any:
    """The split as a `datasets.Dataset` in memory; None where the data set has no such split."""
    from datasets import Dataset, load_dataset

    silence()
    # In an empty cache, since `datasets` takes what an older cache holds, of whatever commit, when
    # the Hub fails. Streaming, since without it `datasets` downloads all splits.
    with tempfile.TemporaryDirectory() as scratch:
        options = {"revision": commit, "streaming": True, "cache_dir": scratch}
        try:
            stream = load_dataset(source.dataset, source.config, split=source.split, **options)
        except ValueError as error:
            if str(error).startswith(_NOT_OFFERED):
                return None
            raise
        data = Dataset.from_list(list(stream), features=stream.features)
    split = (stream.info.splits or {}).get(source.split)
    announced = split.num_examples if split else None
    if announced not in (None, len(data)):
        raise ValueError(f"it gave {len(data)} rows, not the {announced} that it announces")
    if not len(data):
        raise ValueError("it gave 0 rows")
    return data


def _keep(source: Source, commit: str, data: Any) -> Pin:
    """The pin of `data`, written after its rows, each in one step."""
    path, pin_path, sha256 = _rows_file(source), _pin_file(source), ""
    if data is not None:
        data.to_parquet(_part(path))
        sha256 = _sha256(_part(path))
        _part(path).replace(path)
    pin = Pin(
        dataset=source.dataset,
        config=source.config,
        split=source.split,
        commit=commit,
        num_rows=None if data is None else len(data),
        sha256=sha256,
    )
    _part(pin_path).write_text(json.dumps(dataclasses.asdict(pin), indent=1) + "\n")
    _part(pin_path).replace(pin_path)
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
    if gated:
        way_out = (
            f"accept its terms at {source.url}, log in with `hf auth login` (or set HF_TOKEN), and "
            "try again"
        )
    else:
        way_out = (
            f"without network, copy {cache.folder() / 'data'} from a machine where `datesweep "
            "fetch` was run, or set data_root in the sweep, or DATESWEEP_DATA, to a local mirror"
        )
    return (
        f"cannot read {source.dataset} ({source.config}, {source.split}) from the Hub: "
        f"{type(error).__name__}: {error}; {way_out}"
    )
