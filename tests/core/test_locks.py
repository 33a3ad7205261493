"""Locks keep others out, fall with their process, and say where they are weaker."""

import errno
import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeline.core import locks


def is_free(path: Path) -> bool:
    try:
        with locks.exclusive(path, wait=False):
            return True
    except locks.LockTakenError:
        return False


@pytest.fixture
def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no locks; what is said of it is said anew."""

    def flock(handle: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(locks, "_said", set())


def test_a_lock_keeps_others_out_and_whoever_waits_gets_it_next(tmp_path: Path) -> None:
    path, entered = tmp_path / "new" / "x.lock", threading.Event()

    def wait() -> None:
        with locks.exclusive(path, wait=True):
            entered.set()

    with locks.exclusive(path, wait=False):
        assert not is_free(path)
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not entered.wait(0.2)
    assert entered.wait(10)
    waiting.join()
    assert is_free(path)


@pytest.mark.parametrize("flock", ["", "def flock(*_): raise OSError(37, 'No locks available')"])
def test_a_killed_process_leaves_no_lock_and_no_marker_that_holds(
    tmp_path: Path, request: pytest.FixtureRequest, flock: str
) -> None:
    if flock:
        request.getfixturevalue("_no_locks")
    script = (
        f"import fcntl, pathlib, sys, time\nfrom pipeline.core import locks\n{flock}\n"
        f"{'fcntl.flock = flock' if flock else ''}\n"
        "with locks.exclusive(pathlib.Path(sys.argv[1]), wait=False):\n"
        "    print('in', flush=True)\n    time.sleep(60)\n"
    )
    path = tmp_path / "x.lock"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"in\n"
        assert not is_free(path)
        holder.kill()
        holder.wait()
        assert is_free(path)


@pytest.mark.usefixtures("_no_locks")
def test_without_locks_a_marker_stands_in_which_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locks.exclusive(tmp_path / "x.lock", wait=False):
        assert not is_free(tmp_path / "x.lock")
    assert is_free(tmp_path / "x.lock")
    said = capsys.readouterr().err
    assert said.count("has no locks") == 1 and "No locks available" in said


@pytest.mark.usefixtures("_no_locks")
def test_programs_run_where_nothing_can_be_locked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with locks.shared_or_alone(tmp_path / "room", alone=True):
            pass
    said = capsys.readouterr().err
    assert said.count("so no program waits for another") == 1 and "No locks available" in said


def test_a_link_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "room").symlink_to(tmp_path / "elsewhere")
    with locks.shared_or_alone(tmp_path / "room", alone=True):
        assert not (tmp_path / "elsewhere").exists()
    assert "cannot be locked" in capsys.readouterr().err
