from pathlib import Path

import pytest

from pipeline.core import cores


@pytest.mark.parametrize(
    ("files", "own", "expected"),
    [
        ({"cpu.max": "250000 100000", "memory.max": "1024"}, "0::/", (2.5, 1024)),
        ({"cpu.max": "max 100000", "memory.max": "max"}, "0::/", (None, None)),
        (
            {"a/cpu.max": "400000 100000", "a/b/cpu.max": "100000 100000", "a/memory.max": "512"},
            "0::/a/b",
            (1.0, 512),
        ),
        (
            {
                "memory/m/memory.limit_in_bytes": "2048",
                "memory/memory.limit_in_bytes": str(2**63 - 4096),
            },
            "4:memory:/m",
            (None, 2048),
        ),
        (
            {"cpu,cpuacct/cpu.cfs_quota_us": "150000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            "3:cpu,cpuacct:/docker/x",
            (1.5, None),
        ),
        (
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            "3:cpu:/",
            (None, None),
        ),
        ({}, "", (None, None)),
    ],
    ids=[
        "version 2",
        "no limits",
        "a group within a group",
        "version 1 memory",
        "version 1 in a container",
        "version 1 no quota",
        "none",
    ],
)
def test_limits_of_control_groups(
    tmp_path: Path, files: dict[str, str], own: str, expected: tuple[float | None, int | None]
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert cores.limits(tmp_path, own) == expected
