"""CPU cores and memory that a process's affinity and control groups leave it of the machine."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_UNLIMITED = 1 << 60
"""Control groups write a number of this size where there is no limit."""

_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def num_cores() -> int:
    """CPU cores that this process may keep busy, at least 1."""
    own = _OWN.read_text() if _OWN.is_file() else ""
    return max(1, int(usable_cores(limits(_GROUPS, own)[0])))


def limits(root: Path, own: str) -> tuple[float | None, int | None]:
    """CPU cores, and bytes of memory, that the control groups allow; None where they set no limit.

    Args:
        root: where control groups are mounted, /sys/fs/cgroup.
        own: the text of /proc/self/cgroup. Of a group and all above it, the smallest limit counts.
    """
    groups = list(_groups(root, own))
    cpus = [cores for group in groups for cores in _cpu_limit(group)]
    files = [group / name for group in groups for name in ("memory.max", "memory.limit_in_bytes")]
    memory = [limit for file in files for limit in _number(file) if limit < _UNLIMITED]
    return min(cpus, default=None), min(memory, default=None)


def _groups(root: Path, own: str) -> Iterator[Path]:
    """Folders of the groups of a process and of all above them."""
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        # Version 1 has a tree for each controller, version 2 one without a name.
        top = root / controllers
        group = top / path.strip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _cpu_limit(folder: Path) -> list[float]:
    """Cores that one group allows: its quota by its period; none where it has no limit."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        return [int(quota) / int(period)] if quota != "max" else []
    quotas, periods = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return [quotas[0] / periods[0]] if quotas and periods and quotas[0] > 0 else []


def _number(file: Path) -> list[int]:
    """The number in a file; none where there is no file, or another word in it."""
    with contextlib.suppress(OSError, ValueError):
        return [int(file.read_text())]
    return []


def usable_cores(cpu_limit: float | None) -> float:
    """CPU cores that this process's affinity leaves, and its control groups allow."""
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(free, cpu_limit) if cpu_limit is not None else free
