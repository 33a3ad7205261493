"""What is read of this machine and of the user's settings. Nothing here judges."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

RAY_START_S = 120.0
"""How long a local Ray session may take before it counts as one that does not start; on a busy
machine it took 15 s."""
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
    named = (line.partition(":") for line in cpuinfo.splitlines())
    return next(
        ({*value.split()} for key, _, value in named if key.strip() in ("flags", "Features")), set()
    )


def nvidia_smi() -> tuple[str, str]:
    """What nvidia-smi lists, and what it says if it fails.

    Both empty where there is no such program.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return "", ""
    query = "--query-gpu=name,memory.total,compute_cap,driver_version"
    try:
        done = subprocess.run(
            [program, query, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=SMI_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer within {SMI_S:.0f} s"
    return (
        (done.stdout, "")
        if done.returncode == 0
        else ("", done.stderr or done.stdout or f"exit status {done.returncode}")
    )


def room(folder: Path) -> tuple[int, bool]:
    """Free bytes for `folder`, which need not be there yet, and whether it can be written or made."""
    there = next(
        parent for parent in [folder.absolute(), *folder.absolute().parents] if parent.exists()
    )
    return shutil.disk_usage(there).free, there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def free_bytes(folder: Path) -> int | None:
    """Free bytes in `folder`; None where there is none."""
    return shutil.disk_usage(folder).free if folder.is_dir() else None


def num_splits(mirror: Path) -> int | None:
    """Files with rows in a mirror of data sets; None where it is no folder.

    A data set's name has one part or two.
    """
    if not mirror.is_dir():
        return None
    depths = ("*/*/*", "*/*/*/*")
    return sum(
        1
        for depth in depths
        for suffix in ("parquet", "jsonl")
        for _ in mirror.glob(f"{depth}.{suffix}")
    )


def stores(schemes: tuple[str, ...]) -> dict[str, tuple[str, bool]]:
    """For each scheme, the package that fsspec needs for it, and whether that is installed.

    Nothing is imported.
    """
    from fsspec.registry import known_implementations  # type: ignore[import-untyped]

    needed = {
        scheme: str(known_implementations[scheme]["class"]).split(".")[0]
        for scheme in schemes
        if scheme in known_implementations
    }
    return {
        scheme: (package, importlib.util.find_spec(package) is not None)
        for scheme, package in needed.items()
    }


def start_ray() -> tuple[bool, float, str]:
    """Whether a local Ray session starts, after how many seconds, and what it has or said last.

    In a process of its own, which can be given up: a session that cannot start may also wait for
    ever.
    """
    code = (
        "from pipeline import cluster\n"
        "with cluster.session(None) as found:\n"
        "    print(f'{found.num_cpus} cores, {found.num_gpus} GPUs', flush=True)\n"
    )
    started = time.monotonic()
    try:
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=RAY_START_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return False, RAY_START_S, "it neither starts nor fails"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return (
        done.returncode == 0,
        time.monotonic() - started,
        lines[-1] if lines else f"exit status {done.returncode}",
    )
