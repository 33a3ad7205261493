"""What starts testers: the fork server, its death, and what is said where nothing starts."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.sandbox import fork_server
from pipeline.sandbox.launch import CONFINED, Launcher
from pipeline.sandbox.verdict import ExecutionResult
from tests.sandbox.helpers import MISSING, needs, run_with


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    """One with a fork server of its own."""
    launcher = Launcher()
    yield launcher
    launcher.close()


@pytest.mark.parametrize("layers", [(), ("landlock",), ("namespaces",)])
def test_what_the_sandbox_cannot_start_is_broken_not_failed(layers: tuple[str, ...]) -> None:
    result = run_with(layers, "x = 1", launcher=Launcher(confined=Path("/nonexistent")))
    assert result.status == "broken"
    assert "No such file" in result.detail


@pytest.mark.parametrize(
    ("layers", "module", "wall"),
    [
        (("landlock",), "landlock.py", "def restrict_files"),
        (("namespaces",), "kernel.py", "def enter_work"),
    ],
)
def test_a_layer_that_cannot_be_set_up_is_broken_not_weaker(
    layers: tuple[str, ...], module: str, wall: str, tmp_path: Path
) -> None:
    confined = tmp_path / "pipeline/sandbox/confined"
    shutil.copytree(CONFINED, confined)
    (tmp_path / "pipeline/__init__.py").touch()
    path = confined / module
    broken = f"{wall}(*_): raise OSError('no such wall')\ndef unused"
    path.write_text(path.read_text().replace(wall, broken))
    launcher = Launcher(confined=confined)
    result = run_with(layers, "x = 1", launcher=launcher)
    assert (result.status, result.limit) == ("broken", "")
    assert "no such wall" in result.detail or layers in MISSING
    launcher.close()


@needs("namespaces")
def test_a_fork_server_that_died_is_started_again(launcher: Launcher) -> None:
    def statuses(count: int) -> list[str]:
        runs = [run_with(("namespaces",), "x = 1", launcher=launcher) for _ in range(count)]
        return [result.status for result in runs]

    assert statuses(1) == ["passed"]
    server = launcher.fork_server.pid
    assert server is not None
    os.kill(server, signal.SIGKILL)
    os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    assert statuses(2) == ["passed", "passed"]
    assert launcher.fork_server.pid != server


@needs("namespaces")
def test_a_request_that_finds_no_room_leaves_the_fork_server_to_the_other_threads(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_fds, full = socket.send_fds, [True]  # full once

    def send(*arguments: Any) -> int:
        if full and full.pop():
            raise OSError(errno.ETOOMANYREFS, "Too many references")
        return send_fds(*arguments)

    def run(program: str) -> ExecutionResult:
        return run_with(("namespaces",), program, launcher=launcher)

    run("x = 1")
    server = launcher.fork_server.pid
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, "import time; time.sleep(0.6)")
        time.sleep(0.3)
        monkeypatch.setattr(socket, "send_fds", send)
        assert run("x = 1").status == "broken"
        assert run("x = 1").status == running.result().status == "passed"
    assert launcher.fork_server.pid == server


def test_a_system_without_such_sockets_has_no_fork_server_but_other_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    monkeypatch.setattr(
        fork_server, "socket", SimpleNamespace(socketpair=refuse, AF_UNIX=1, SOCK_SEQPACKET=5)
    )
    with pytest.raises(fork_server.ForkServerError, match="Protocol not supported"):
        fork_server.ForkServer(["true"], {})


@needs("namespaces")
def test_the_fork_server_ends_with_its_caller_however_that_ends() -> None:
    script = (
        "import os, signal\nfrom pipeline.sandbox import launch, run\n"
        "run.Sandbox(layers=('namespaces',)).run('x = 1')\n"
        "print(launch.HERE.fork_server.pid, flush=True)\n"
    )
    for ending in ("pass", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"):
        done = subprocess.run(
            [sys.executable, "-c", script + ending], capture_output=True, text=True, check=False
        )
        assert int(done.stdout)
        path, deadline = Path(f"/proc/{done.stdout.strip()}"), time.monotonic() + 10
        while path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not path.exists()


@needs("namespaces")
def test_programs_of_one_fork_server_share_no_state() -> None:
    run_with(
        ("namespaces",),
        "import builtins, math, random, os\nmath.pi = builtins.len = 3\nos.environ['X'] = "
        "'x'\nopen('x', 'w')",
    )
    clean = (
        "import math, os\nassert math.pi > 3.1 and len([1]) == 1 and 'X' not in os.environ and "
        "os.listdir() == []"
    )
    assert run_with(("namespaces",), clean).detail == ""
    draws = {
        run_with(("namespaces",), "import random\nraise ValueError(random.random())").detail
        for _ in range(3)
    }
    assert len(draws) == 3
