"""The sandbox: what passes, what does not, and that nothing of a program remains.

Most tests run with all layers that this machine offers and with none, since other machines have none.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline import sandbox
from pipeline.sandbox import ExecutionResult

Run = Callable[..., ExecutionResult]
LAYERS = sorted({sandbox._layers(), ()}, reverse=True)


@pytest.fixture(params=LAYERS, ids=lambda layers: "+".join(layers) or "limits_only")
def run(request: pytest.FixtureRequest) -> Run:
    """`sandbox.run` under one set of layers, with short limits."""

    def run_under_layers(program: str, timeout_s: float = 20.0, cpu_limit_s: int = 10, memory_mib: int = 512) -> ExecutionResult:
        return sandbox._run(program, request.param, timeout_s, cpu_limit_s, memory_mib)

    return run_under_layers


def needs(layer: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(layer not in sandbox._layers(), reason=f"this machine offers no {layer}")


def alive(marker: str) -> list[str]:
    """Processes whose command line contains `marker`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [text] if marker in (text := path.read_bytes().replace(b"\0", b" ").decode(errors="replace")) else []
        except OSError:
            continue  # it ended meanwhile
    return found


def test_a_program_that_reaches_its_end_passes(run: Run) -> None:
    result = run("import math, re, json, random, collections, dataclasses\nassert math.sqrt(4) == 2")
    assert (result.status, result.detail, result.limit) == ("passed", "", "")


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("assert 1 == 2, 'no'", "AssertionError: no"),
        ("def f(:", "SyntaxError"),
        ("x = '\\0'\0", "source code string cannot contain null bytes"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("import os; os._exit(0)", "left before its end with status 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("input()", "EOFError"),
        ("print('passed'); import os; os.write(1, b'passed\\nended'); os._exit(0)", "left before its end with status 0"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "killed by SIGTERM"),
        ("x = bytearray(10**12)", "MemoryError"),
        ("x = []\nwhile True: x.append(bytearray(1 << 24))", "MemoryError"),
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E"),
        ("raise ValueError('a\\nb' + 'x' * 10**6)", "ValueError: a bxxx"),
        ("raise ValueError('\\ud800')", "ValueError: ?"),
        ("x = '\udc80'\nraise ValueError('surrogate')", "UnicodeEncodeError"),
    ],
)
def test_a_program_that_does_not_reach_its_end_fails(run: Run, program: str, detail: str) -> None:
    result = run(program)
    assert result.status == "failed"
    assert detail in result.detail
    assert "\n" not in result.detail
    assert len(result.detail) < 400


def test_records_without_the_nonce_do_not_count(run: Run) -> None:
    lines = "b'0' * 32 + b' passed \\n' + b'0' * 32 + b' ended \\n'"
    forge = f"import os\nfor fd in range(3, 256):\n    try: os.write(fd, {lines})\n    except OSError: pass\n"
    assert run(forge + "os._exit(0)").status == "failed"


def test_a_flood_on_the_private_pipe_does_not_block(run: Run) -> None:
    flood = "import os\nwhile True:\n    for fd in range(3, 12):\n        try: os.write(fd, b'x' * 65536)\n        except OSError: pass\n"
    result = run(flood, timeout_s=3.0)
    assert result.status != "passed"
    assert result.duration_s < 8


def test_a_forked_copy_has_no_say(run: Run) -> None:
    result = run("import os\nif os.fork():\n    os.wait()\n    raise ValueError('the program itself')\n")
    assert (result.status, result.detail) == ("failed", "ValueError: the program itself")


@pytest.mark.parametrize("loop", ["while True: pass", "x = 10**10**9", "import re; re.match('(a+)+$', 'a' * 64 + 'b')"])
def test_a_loop_in_python_or_c_uses_up_its_cpu_time(run: Run, loop: str) -> None:
    result = run(loop, timeout_s=30.0, cpu_limit_s=1)
    assert (result.status, result.limit) == ("timeout", "cpu")


def test_a_sleeping_program_reaches_the_deadline(run: Run) -> None:
    result = run("import time; time.sleep(60)", timeout_s=0.6)
    assert (result.status, result.limit) == ("timeout", "wall")
    assert result.duration_s < 5


@pytest.mark.parametrize("catch", ["BaseException", "Exception"])
def test_a_deadline_cannot_be_caught(run: Run, catch: str) -> None:
    ignore = "import signal, time\nfor s in (15, 2, 1): signal.signal(s, signal.SIG_IGN)\n"
    program = ignore + f"while 1:\n    try: time.sleep(9)\n    except {catch}: pass"
    assert run(program, timeout_s=0.6).limit == "wall"


@pytest.mark.parametrize("ending", ["pass", "raise ValueError", "import os; os._exit(0)", "import time; time.sleep(60)"])
def test_processes_that_a_program_starts_do_not_outlive_it(run: Run, ending: str) -> None:
    marker = f"86{threading.get_native_id()}.{time.monotonic_ns()}"  # seconds to sleep, and a name to find the process by
    result = run(f"import subprocess\nsubprocess.Popen(['sleep', '{marker}'], start_new_session=True)\n{ending}", timeout_s=1.5)
    assert result.duration_s < 6
    assert alive(marker) == []


def test_a_daemon_that_left_the_session_is_killed(run: Run) -> None:
    marker = f"87{threading.get_native_id()}.{time.monotonic_ns()}"
    start = f"os.execvp('sleep', ['sleep', '{marker}'])"
    daemon = f"import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: {start}\n    os._exit(0)\nos.wait()"
    assert run(daemon).status == "passed"
    assert alive(marker) == []


def test_running_threads_do_not_delay_the_verdict(run: Run) -> None:
    result = run("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()")
    assert result.status == "passed"
    assert result.duration_s < 10


def test_huge_output_is_discarded(run: Run) -> None:
    assert run("import sys\nfor _ in range(2000): print('x' * 10**5); print('y' * 10**5, file=sys.stderr)").status == "passed"


def test_a_huge_file_is_refused(run: Run) -> None:
    assert "File too large" in run("open('big', 'wb').write(bytes(1 << 25))").detail


def test_the_environment_is_scrubbed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATESWEEP_SECRET", "token-of-the-user")
    assert run("import os\nassert not any('SECRET' in k or 'token' in v for k, v in os.environ.items())").status == "passed"


@needs("landlock")
@pytest.mark.parametrize("path", ["/proc/1/environ", "/etc/passwd", "/proc/self/environ", __file__])
def test_files_of_others_cannot_be_read(path: str) -> None:
    assert "PermissionError" in sandbox.run(f"open({path!r}, 'rb').read()").detail


@needs("landlock")
def test_files_outside_the_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    programs = [
        f"open('{tmp_path}/new', 'w')",
        f"open('{tmp_path}/kept', 'w')",
        f"import os; os.remove('{tmp_path}/kept')",
        f"import os; os.mkdir('{tmp_path}/x')",
    ]
    assert ["Permission" in sandbox.run(p).detail for p in programs] == [True] * len(programs)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("kept", "kept")]


@needs("landlock")
def test_processes_of_others_cannot_be_signalled() -> None:
    result = sandbox._run(f"import os; os.kill({os.getpid()}, 0)", ("landlock",), 20.0, 5, 512)
    assert "PermissionError" in result.detail or "ProcessLookupError" in result.detail


@needs("namespaces")
def test_there_is_no_network_and_no_other_process() -> None:
    program = "import os, socket\nassert [n for _, n in socket.if_nameindex()] == ['lo']\nassert os.getpid() == 2 and os.getppid() == 1"
    assert sandbox._run(program, ("namespaces",), 20.0, 5, 512).status == "passed"


@needs("namespaces")
def test_capabilities_are_gone() -> None:
    program = "status = open('/proc/self/status').read()\nassert 'CapEff:\\t0000000000000000' in status and 'NoNewPrivs:\\t1' in status"
    assert sandbox._run(program, ("namespaces",), 20.0, 5, 512).status == "passed"


def test_it_starts_in_an_empty_folder_that_is_gone_afterwards(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import os, pathlib\nassert os.listdir() == []\n"
        "pathlib.Path('deep/er').mkdir(parents=True); pathlib.Path('deep/er/file').write_text('x')\n"
        "os.symlink('/', 'root'); os.chmod('deep/er', 0); os.chmod('deep', 0); os.chmod('.', 0)\n"
    )
    assert run(program).status == "passed"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mess", ["for _ in range(1500): os.mkdir('d'); os.chdir('d')", "os.rmdir(os.getcwd())"])
def test_a_folder_that_is_nested_deep_or_already_gone_is_deleted(mess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert sandbox._run(f"import os\n{mess}", (), 20.0, 10, 512).status == "passed"
    assert list(tmp_path.iterdir()) == []


def test_links_out_of_the_folder_are_not_followed_when_it_is_deleted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside, temporary = tmp_path / "outside", tmp_path / "temporary"
    outside.mkdir(mode=0o500)
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert run(f"import os; os.symlink({str(outside)!r}, 'link')").status == "passed"
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_program_is_not_the_main_module(run: Run) -> None:
    assert run("if __name__ == '__main__': input()").status == "passed"


def test_a_set_has_one_order_in_all_runs(run: Run) -> None:
    details = {run("raise ValueError(list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}))").detail for _ in range(4)}
    assert len(details) == 1


def test_packages_of_the_harness_cannot_be_imported(run: Run) -> None:
    for name in ("polars", "pipeline", "_confined", "stats"):
        assert "ModuleNotFoundError" in run(f"import {name}").detail


def test_what_the_sandbox_cannot_start_is_broken_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_CHILD", Path("/nonexistent/child.py"))
    result = sandbox._run("x = 1", (), 10.0, 5, 512)
    assert result.status == "broken"
    assert "No such file" in result.detail


def test_a_layer_that_cannot_be_set_up_is_broken_not_weaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "_confined.py"
    child.write_text(sandbox._CHILD.read_text().replace("LANDLOCK_RESTRICT = 444, 445, 446", "LANDLOCK_RESTRICT = 444, 445, 9999"))
    monkeypatch.setattr(sandbox, "_CHILD", child)
    result = sandbox._run("x = 1", ("landlock",), 10.0, 5, 512)
    assert (result.status, result.limit) == ("broken", "")
    assert "syscall" in result.detail


def test_many_threads_get_their_own_verdicts() -> None:
    programs = [f"assert {i} % 2" for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        verdicts = [r.status for r in pool.map(sandbox.run, programs)]
    assert verdicts == ["failed", "passed"] * 12


def test_no_file_descriptor_is_left_open() -> None:
    sandbox.run("x = 1")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        sandbox.run("x = 1")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_confinement_is_described_by_its_layers() -> None:
    assert sandbox.confinement().startswith("process limits")
    assert ("Landlock" in sandbox.confinement()) == ("landlock" in sandbox._layers())
