"""Everything a sweep reads, brought to this machine once, for stages that have no network."""

import contextlib
import os
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.markup import escape
from rich.table import Table

from pipeline import tasks
from pipeline.core import cache
from pipeline.core.errors import DataError, PipelineError
from pipeline.core.progress import Reporter
from pipeline.data import checkpoints
from pipeline.data.rows import first_available, origin_of, read_rows, to_fetch
from pipeline.data.splits import pinned
from pipeline.settings import ModelSpec, SweepSpec
from pipeline.tasks import Source

ANSWER_WITHIN_S = 3.0
"""How long the Hub may take to accept a connection before this machine counts as offline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One model or one split of a data set that a sweep reads; all in words."""

    name: str
    commit: str
    """On the Hub; empty for what does not come from there."""
    size: str
    """Rows of data, bytes of a model."""
    origin: str
    """Where it is read from."""


def fetch(spec: SweepSpec, reporter: Reporter) -> Table:
    """What `spec` reads, all of it on this machine now, with the commits to pin.

    What is there already is not fetched again. One thing that cannot be had does not stop the
    others.

    Raises:
        DataError: some of it cannot be had; the message names each with its reason.
    """
    wanted: list[Callable[[], Fetched]] = [
        *(partial(_fetch_data, sources, spec.data_root, reporter) for sources in _data(spec)),
        *(partial(_fetch_model, model, reporter) for model in spec.models),
    ]
    fetched, faults = [], []
    for one in wanted:
        try:
            fetched.append(one())
        except PipelineError as error:
            faults.append(str(error))
    if faults:
        lines = ["not everything could be fetched; what could is kept:", *faults]
        raise DataError("\n".join(lines))
    return _table(spec, fetched)


def check_present(spec: SweepSpec, *, data: bool = True, weights: bool = True) -> None:
    """Nothing, where all that `spec` needs is here, or the Hub answers so that it can be fetched.

    A stage after planning reads no `data`, and planning reads no `weights`, only what else belongs
    to a model.

    Looks at local files first and asks the network only if something is missing. What comes from a
    local folder, a named mirror or a package needs no network: the stage that reads it says what is
    wrong with it.

    Raises:
        DataError: something is missing and the Hub does not answer; the message lists all that is
            missing.
    """
    splits = [to_fetch(sources, spec.data_root) for sources in _data(spec)] if data else []
    models = [
        m for m in spec.models if not checkpoints.is_here(m, weights=weights and _needs_weights(m))
    ]
    lacking = [
        *(f"data {s.dataset}, configuration {s.config}, split {s.split}" for s in splits if s),
        *(f"model {m.name}: {m.weights.hub}" for m in models),
    ]
    if lacking and (reason := offline()):
        lines = [f"  {line}" for line in lacking]
        raise DataError("\n".join([f"{reason}, and this machine lacks:", *lines, _way_out(spec)]))


def _data(spec: SweepSpec) -> list[tuple[Source, ...]]:
    """For each data set of the tasks, the sources of which the first that exists is taken."""
    styled = [tasks.get(task.name, task.style) for task in spec.tasks]
    pairs = [((t.source,), t.example_sources if t.num_shots else ()) for t in styled]
    return list(dict.fromkeys(sources for pair in pairs for sources in pair if sources))


def _needs_weights(model: ModelSpec) -> bool:
    return model.backend == "vllm"


def _fetch_data(sources: Sequence[Source], data_root: str | None, reporter: Reporter) -> Fetched:
    names = " or ".join(f"{s.dataset} ({s.config}, {s.split})" for s in sources)
    verb = "fetching" if to_fetch(sources, data_root) else "reading"
    with reporter.waiting(f"{verb} {names}"):
        source = first_available(sources, data_root)
        num_rows = sum(1 for _ in read_rows(source, data_root))
    where = origin_of(source, data_root)
    pin = pinned(source) if where.startswith("Hub") else None
    reporter.say(f"{source.dataset} ({source.config}, {source.split}): {num_rows:,} rows, {where}")
    return Fetched(
        name=f"{source.dataset}, {source.config}, {source.split}",
        commit=pin.commit if pin else "",
        size=f"{num_rows:,} rows",
        origin="Hub, in the datesweep cache" if pin else where,
    )


def _fetch_model(model: ModelSpec, reporter: Reporter) -> Fetched:
    folder = checkpoints.folder(model, reporter.say, weights=_needs_weights(model))
    hub, package = model.weights.hub, model.weights.package
    where = f"package {package}" if package else "local folder"
    num_bytes = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    size = f"{num_bytes / 1e9:.2f} GB"
    from_hub = f"{hub} at {folder.name}"
    reporter.say(f"model {model.name}: {size}, {from_hub if hub else where}")
    return Fetched(
        name=f"model {model.name}, {hub}" if hub else f"model {model.name}",
        commit=folder.name if hub else "",
        size=size,
        origin="Hub, in the Hub cache" if hub else where,
    )


def _table(spec: SweepSpec, fetched: list[Fetched]) -> Table:
    title = f"fetched for {escape(spec.name)}"
    table = Table("what, and its commit", "size", "place", title=title, caption_justify="left")
    for row in fetched:
        name = "\n".join(filter(None, (row.name, row.commit)))
        table.add_row(escape(name), row.size, escape(row.origin))
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
        f"{_folders('From there')} Or set data_root in the sweep, or DATESWEEP_DATA, to a local "
        "mirror of the data, and weights.path in a model file to a folder."
    )


def offline() -> str:
    """Why the Hub cannot be asked: a variable says so, or no answer in time; empty where it can."""
    from huggingface_hub import constants

    datasets_offline = os.environ.get("HF_DATASETS_OFFLINE", "").upper()
    if constants.is_offline_mode() or datasets_offline in constants.ENV_VARS_TRUE_VALUES:
        return "HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set"
    host, port = _first_hop(constants.ENDPOINT)
    if _accepts(host, port):
        return ""
    return f"{host}:{port}, on the way to the Hub, does not answer within {ANSWER_WITHIN_S:.0f} s"


def _first_hop(endpoint: str) -> tuple[str, int]:
    """Host and port that a request to `endpoint` connects to: its own, or those of its proxy."""
    url = urllib.parse.urlsplit(endpoint)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not urllib.request.proxy_bypass(str(url.hostname)):
        url = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return str(url.hostname), url.port or (443 if url.scheme == "https" else 80)


def _accepts(host: str, port: int) -> bool:
    # In a thread, since looking up a name knows no time limit.
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
