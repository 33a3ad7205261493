"""What is read of this machine and of the user's settings. Nothing here gives a verdict."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

RAY_START_S = 120.0
"""How long a local Ray session may take before it counts as one that does not start; a busy machine
needs a multiple of the usual seconds."""
SMI_S = 20.0
"""How long nvidia-smi may take; with many GPUs and no persistence mode it takes seconds."""


def version_of(name: str) -> str | None:
    """The installed version of a distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor_flags(cpuinfo: str) -> set[str]:
    """Flags of the first processor, from the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return {*value.split()}
    return set()


def nvidia_smi() -> tuple[str, str]:
    """What nvidia-smi lists, and what it says if it fails; both empty where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "", ""
    query = "--query-gpu=name,memory.total,compute_cap,driver_version"
    try:
        done = _run([program, query, "--format=csv,noheader"], SMI_S)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {SMI_S:.0f} s"
    if done.returncode:
        return "", done.stderr or done.stdout or f"exit status {done.returncode}"
    return done.stdout, ""


def _run(command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        start_new_session=True,
    )


def room(folder: Path) -> tuple[int, bool]:
    """Free bytes for `folder`, which need not be there yet, and whether it can be written."""
    folders = (folder.absolute(), *folder.absolute().parents)
    there = next(parent for parent in folders if parent.exists())
    return shutil.disk_usage(there).free, there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def free_bytes(folder: Path) -> int | None:
    """Free bytes in `folder`; None where there is none."""
    return shutil.disk_usage(folder).free if folder.is_dir() else None


def num_splits(mirror: Path) -> int | None:
    """Files with rows in a mirror of data sets; None where it is no folder."""
    if not mirror.is_dir():
        return None
    # A data set's name has one part or two.
    files = [path for depth in ("*/*/*", "*/*/*/*") for path in mirror.glob(f"{depth}.*")]
    return sum(path.suffix in (".parquet", ".jsonl") for path in files)


def stores(schemes: tuple[str, ...]) -> dict[str, tuple[str, bool]]:
    """For each scheme, the package that fsspec needs for it, and whether that is installed.

    Nothing is imported.
    """
    from fsspec.registry import known_implementations  # type: ignore[import-untyped]

    known = [scheme for scheme in schemes if scheme in known_implementations]
    needed = {s: str(known_implementations[s]["class"]).split(".")[0] for s in known}
    return {s: (name, importlib.util.find_spec(name) is not None) for s, name in needed.items()}


_RAY_SESSION = """
from pipeline import cluster
with cluster.session(None) as resources:
    print(f"{resources.num_cpus} cores, {resources.num_gpus} GPUs", flush=True)
"""


def start_ray() -> tuple[bool, float, str]:
    """Whether a local Ray session starts, after how many seconds, and what it has or said last.

    In a process of its own, which can be given up: a session that cannot start may also wait for
    ever.
    """
    started = time.monotonic()
    try:
        done = _run([sys.executable, "-c", _RAY_SESSION], RAY_START_S)
    except subprocess.TimeoutExpired:
        return False, RAY_START_S, "it neither starts nor fails"
    seconds = time.monotonic() - started
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    said = lines[-1] if lines else f"exit status {done.returncode}"
    return done.returncode == 0, seconds, said
