import subprocess
from pathlib import Path

import pytest

from pipeline.commands.doctor import machine


def test_flags_are_read_on_both_kinds_of_processor() -> None:
    assert machine.processor_flags("processor : 0\nflags\t\t: fpu avx2\n\nflags : other\n") == {
        "fpu",
        "avx2",
    }
    assert machine.processor_flags("processor : 0\nFeatures\t: fp asimd\n") == {"fp", "asimd"}
    assert machine.processor_flags("") == set()


def test_room_is_that_of_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    assert machine.room(tmp_path / "not" / "yet")[1]
    (tmp_path / "file").write_text("")
    assert not machine.room(tmp_path / "file" / "below")[1]


def test_splits_of_a_mirror_are_counted(tmp_path: Path) -> None:
    assert machine.num_splits(tmp_path / "none") is None
    for name in ("cais/mmlu/all/test.parquet", "gsm8k/main/test.jsonl", "cais/mmlu/all/readme.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert machine.num_splits(tmp_path) == 2


SMI = "#!/bin/sh\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'H200, 141 GiB, 9.0, 570'", ("H200, 141 GiB, 9.0, 570\n", "")),
        ("echo broken >&2; exit 9", ("", "broken\n")),
        (None, ("", "")),
    ],
)
def test_nvidia_smi_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, expected: tuple[str, str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}")
    if script:
        program = tmp_path / "nvidia-smi"
        program.write_text(SMI + script + "\n")
        program.chmod(0o755)
    assert machine.nvidia_smi() == expected


def test_ray_that_fails_or_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object, **kwargs: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            [], 1, stdout="", stderr="a traceback\nRuntimeError: no\n"
        )

    def hanging(*args: object, **kwargs: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired([], 1)

    for way, expected in ((failing, "RuntimeError: no"), (hanging, "neither starts nor fails")):
        monkeypatch.setattr(machine.subprocess, "run", way)
        started, _, last = machine.start_ray()
        assert not started
        assert expected in last
