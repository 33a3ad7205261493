"""Turns: together, or alone on the machine."""

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from pipeline.sandbox import machine_lock


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def start(alone: bool, entered: threading.Event, leave: threading.Event) -> threading.Thread:
    def stay() -> None:
        with machine_lock.running(alone=alone):
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    return thread


def test_many_are_inside_together() -> None:
    leave, entered = threading.Event(), [threading.Event() for _ in range(3)]
    threads = [start(False, e, leave) for e in entered]
    assert all(e.wait(10) for e in entered)
    leave.set()
    [t.join() for t in threads]


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_whoever_is_alone_shares_with_nobody(first: bool, second: bool) -> None:
    events = [threading.Event() for _ in range(4)]
    one = start(first, events[0], events[1])
    assert events[0].wait(10)
    two = start(second, events[2], events[3])
    assert not events[2].wait(0.2)
    events[1].set()
    assert events[2].wait(10)
    events[3].set()
    one.join()
    two.join()


def test_a_stream_of_others_does_not_keep_the_one_who_wants_to_be_alone_waiting() -> None:
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            with machine_lock.running(alone=False):
                time.sleep(0.02)

    threads = [threading.Thread(target=others) for _ in range(4)]
    [t.start() for t in threads]
    started = time.monotonic()
    with machine_lock.running(alone=True):
        waited = time.monotonic() - started
    stop.set()
    [t.join() for t in threads]
    assert waited < 5


@pytest.mark.parametrize("ending", ["pass", "os.kill(os.getpid(), 9)"])
def test_other_processes_wait_too_and_a_dead_one_holds_nobody_up(ending: str) -> None:
    script = (
        "import os, sys, time\nfrom pipeline.sandbox import machine_lock\n"
        "with machine_lock.running(alone=True):\n    print('in', flush=True)\n    "
        f"time.sleep(0.3)\n    {ending}"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        started = time.monotonic()
        with machine_lock.running(alone=False):
            waited = time.monotonic() - started
    assert 0.1 < waited < 10


def test_a_name_that_somebody_took_costs_no_turn(tmp_path: Path) -> None:
    (tmp_path / f"datesweep-{os.getuid()}.gate").mkdir()
    with machine_lock.running(alone=True):
        pass


def test_the_lock_of_another_user_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.getuid() + 1  # so that files of this user are another's
    monkeypatch.setattr(os, "getuid", lambda: other)
    held = [(tmp_path / f"datesweep-{other}.{name}").open("w") for name in ("gate", "room")]
    for file in held:
        fcntl.flock(file, fcntl.LOCK_EX)
    entered, leave = threading.Event(), threading.Event()
    thread = start(True, entered, leave)
    was_let_in = entered.wait(5)
    leave.set()
    for file in held:
        file.close()
    thread.join()
    assert was_let_in
