"""The sandbox: what passes, what does not, and that nothing of a program remains.

`test_sandbox_attacks.py` has the hostile programs.

Most tests run with all layers that this machine offers and with none, since other machines have
none.
"""

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.sandbox import fork_server, launch, run as sandbox, verdict
from pipeline.sandbox.confined import kernel
from pipeline.sandbox.launch import Limits
from pipeline.sandbox.run import ExecutionResult, UnitTests

Run = Callable[..., ExecutionResult]
LAYERS = sorted({sandbox.layers(), ()}, reverse=True)
NO_TESTS = UnitTests(source="")


@pytest.fixture(params=LAYERS, ids=lambda layers: "+".join(layers) or "limits_only")
def run(request: pytest.FixtureRequest) -> Run:
    """`sandbox.run` under one set of layers, with short limits."""

    def run_under_layers(
        program: str,
        source: str = "",
        functions: list[str] | None = None,
        given: str = "",
        **limits: float,
    ) -> ExecutionResult:
        tests = UnitTests(source=source, functions=functions or [], given=given)
        defaults = {"timeout_s": 20.0, "cpu_limit_s": 10, "memory_mib": 512}
        return sandbox._run(program, tests, request.param, Limits(**(defaults | limits)))  # type: ignore[arg-type]

    return run_under_layers


def run_with(layers: tuple[str, ...], program: str, tests: UnitTests = NO_TESTS) -> ExecutionResult:
    return sandbox._run(program, tests, layers, Limits(20.0, 5, 512))


def needs(layer: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        bool(reason := sandbox._trial((layer,))), reason=f"no {layer} here: {reason}"
    )


def alive(marker: str) -> list[str]:
    """Processes whose command line contains `marker`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += (
                [text]
                if marker
                in (text := path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                else []
            )
        except OSError:
            continue  # it ended meanwhile
    return found


def test_a_program_that_reaches_its_end_passes(run: Run) -> None:
    result = run(
        "import math, re, json, random, collections, dataclasses\nassert math.sqrt(4) == 2"
    )
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
        (
            "print('passed'); import os; os.write(1, b'passed\\nended'); os._exit(0)",
            "left before its end with status 0",
        ),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
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


@pytest.mark.parametrize(
    ("program", "source", "detail"),
    [
        ("def f(x): return x + 1", "assert f(1) == 2\nassert f(x=2) == 3", ""),
        ("def f(x): return x", "assert f(1) == 2", "AssertionError:"),
        ("def f(x): raise KeyError('a')", "f(1)", "KeyError: 'a'"),
        ("class E(ValueError): pass\ndef f(x): raise E('b')", "f(1)", "E: b"),
        ("def f(x): raise KeyError('a')", "try: f(1)\nexcept KeyError: pass", ""),
        (
            "class E(ValueError): pass\ndef f(x): raise E('b')",
            "try: f(1)\nexcept ValueError as e: assert str(e) == 'b'",
            "",
        ),
        ("def f(x): x.append(x[0]); x[0] = 9", "a = [1]\nf(a)\nassert a == [9, 1]", ""),
        ("def f(x): x['b'] = x.pop('a')", "a = {'a': 1}\nf(a)\nassert a == {'b': 1}", ""),
        (
            "def f(x): return (i * i for i in range(x))",
            "assert list(f(3)) == [0, 1, 4]\nassert f(3) != [0, 1, 4]",
            "",
        ),
        (
            "n = 0\ndef f():\n    global n\n    n += 1\n    return n",
            "assert [f(), f(), f()] == [1, 2, 3]",
            "",
        ),
        ("f = 5", "f()", "TypeError: 'int' object is not callable"),
        ("", "f()", "NameError: name 'f' is not defined"),
        ("raise ValueError('at once')", "f()", "ValueError: at once"),
        ("def f(x): return x", "assert f(10**5000) == 10**5000", ""),
        (
            "def f(x): return 'passed'",
            "raise ZeroDivisionError('by the tests')",
            "ZeroDivisionError: by the tests",
        ),
    ],
)
def test_tests_call_the_functions_of_the_program(
    run: Run, program: str, source: str, detail: str
) -> None:
    result = run(program, source, ["f"])
    assert (result.status, result.detail) == ("failed" if detail else "passed", detail)


def test_tests_take_other_names_from_trusted_source(run: Run) -> None:
    given = "def f(x): return 0\ndef twice(x): return 2 * x\n"
    program = "def f(x): return x * 2\ndef twice(x): raise ValueError\n"
    assert run(program, "assert f(4) == twice(4) == 8", ["f"], given).status == "passed"
    assert run(program, "assert f(4) == twice(4) == 8", [], given).status == "failed"


def test_tests_that_hand_over_what_cannot_travel_are_broken_not_failed(run: Run) -> None:
    result = run("def f(g): return g(1)", "f(lambda x: x)", ["f"])
    assert result.status == "broken"
    assert "no plain data" in result.detail


def test_an_object_of_the_program_that_comes_back_to_it_fails_it(run: Run) -> None:
    result = run("class E: pass\ndef f(x): return E()", "f(f(1))", ["f"])
    assert (result.status, result.detail.split(",")[0]) == ("failed", "TypeError: <E>")


def test_a_program_holds_its_pipes_and_nothing_of_the_caller(run: Run) -> None:
    held = [open(os.devnull) for _ in range(300)]  # noqa: SIM115, PTH123 - so that the descriptors passed on have great numbers
    program = (
        "import os\ndef is_open(fd):\n    try: return bool(os.fstat(fd))\n    except "
        "OSError: return False\n"
        "def f(): return sum(map(is_open, range(5000)))"
    )
    result = run(program, "assert f() == 5", ["f"])
    for file in held:
        file.close()
    assert result.detail == ""


def test_a_program_that_closes_its_pipes_and_lives_on_is_told(run: Run) -> None:
    result = run("import os, time\nos.closerange(3, 256)\ntime.sleep(60)")
    assert (result.status, result.detail, result.was_disturbed) == (
        "failed",
        "closed its pipes before its end",
        False,
    )


def test_a_description_is_the_same_in_all_runs(run: Run) -> None:
    assert run("raise ValueError(object(), lambda: 0, 'at 3')").detail == (
        "ValueError: (<object object at 0x...>, <function <lambda> at 0x...>, 'at 3')"
    )


def keyctl(*arguments: object) -> int:
    return int(kernel.libc.syscall(kernel.KEYCTL, *arguments)) if kernel.KEYCTL else -1


KEYS = (
    f"import ctypes\nlibc, keyctl, add_key = ctypes.CDLL(None), {kernel.KEYCTL}, "
    f"{ {250: 248, 219: 217}.get(kernel.KEYCTL or 0) }\n"
    "def leaves(ring): return libc.syscall(add_key, b'user', b'left', b'x', "
    "ctypes.c_size_t(1), ring) > 0\n"
    "def finds(ring): return libc.syscall(keyctl, 10, ring, b'user', b'left', 0) > 0"
)


@pytest.mark.skipif(keyctl(0, -3, 1) == -1, reason="there are no keyrings here")
@pytest.mark.parametrize("ring", [-3, -4, -5], ids=["session", "user", "user session"])
def test_a_program_finds_no_key_of_another(
    run: Run, ring: int, request: pytest.FixtureRequest
) -> None:
    if ring != -3 and not sandbox.layers():
        pytest.skip("each user has one such ring in each user namespace")
    if ring != -3 and "limits_only" in request.node.name:
        pytest.skip("the ring of a user is that of all its programs")
    assert run(KEYS, f"assert leaves({ring}) and finds({ring})", ["leaves", "finds"]).detail == ""
    assert run(KEYS, f"assert not finds({ring})", ["finds"]).detail == ""


def test_a_program_sees_nothing_of_its_tests(run: Run) -> None:
    program = (
        "import sys\ndef f(): return sorted(n for n in sys.modules if 'pipeline' in n), sys.argv"
    )
    assert run(program, "assert f() == ([], ['program.py'])", ["f"]).status == "passed"


def test_a_forked_copy_has_no_say(run: Run) -> None:
    result = run(
        "import os\nif os.fork():\n    os.wait()\n    raise ValueError('the program itself')\n"
    )
    assert (result.status, result.detail) == ("failed", "ValueError: the program itself")


@pytest.mark.parametrize(
    "loop", ["while True: pass", "x = 10**10**9", "import re; re.match('(a+)+$', 'a' * 64 + 'b')"]
)
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


@pytest.mark.parametrize(
    "ending", ["pass", "raise ValueError", "import os; os._exit(0)", "import time; time.sleep(60)"]
)
def test_processes_that_a_program_starts_do_not_outlive_it(run: Run, ending: str) -> None:
    # seconds to sleep, and a name to find the process by
    marker = f"86{threading.get_native_id()}.{time.monotonic_ns()}"
    result = run(
        f"import subprocess\nsubprocess.Popen(['sleep', '{marker}'], "
        f"start_new_session=True)\n{ending}",
        timeout_s=1.5,
    )
    assert result.duration_s < 6
    assert alive(marker) == []


def test_a_daemon_that_left_the_session_is_killed(run: Run) -> None:
    marker = f"87{threading.get_native_id()}.{time.monotonic_ns()}"
    start = f"os.execvp('sleep', ['sleep', '{marker}'])"
    daemon = (
        f"import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: {start}\n    "
        "os._exit(0)\nos.wait()"
    )
    assert run(daemon).status == "passed"
    assert alive(marker) == []


def test_running_threads_do_not_delay_the_verdict(run: Run) -> None:
    result = run("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()")
    assert result.status == "passed"
    assert result.duration_s < 10


@pytest.mark.parametrize(
    ("ending", "was_disturbed"),
    [("os.kill(os.getpid(), 9)", True), ("os.abort()", False), ("os._exit(1)", False)],
)
def test_only_an_end_that_may_have_come_from_outside_is_a_disturbance(
    ending: str, was_disturbed: bool
) -> None:
    result = run_with((), f"import os; {ending}")
    assert (result.status, result.was_disturbed) == ("failed", was_disturbed)


@pytest.mark.parametrize(
    ("records", "in_time", "expected"),
    [
        ("", False, ("broken", "it had not started at the deadline", True)),
        ("", True, ("broken", "its tester died", True)),
        (
            "BlockingIOError: [Errno 11] Resource temporarily unavailable\n",
            True,
            ("broken", "[Errno 11]", True),
        ),
        ("N killed SIGKILL\nN ended \n", True, ("broken", "its tester died", True)),
        ("N broken OSError: [Errno 95] no such wall\n", True, ("broken", "no such wall", False)),
        ("N started \n", False, ("timeout", "was still running at the deadline", True)),
        ("N started \n", True, ("failed", "its tester was killed", True)),
        ("N started \nN cpu \nN ended \n", True, ("timeout", "used up its CPU time", False)),
        ("N started \nN passed \n", False, ("passed", "", False)),
    ],
)
def test_records_are_judged_by_whether_the_program_had_started(
    records: str, in_time: bool, expected: tuple[str, str, bool]
) -> None:
    found = verdict.of(records.replace("N ", "nonce ").encode(), "nonce", in_time)
    assert (found.status, found.was_disturbed) == (expected[0], expected[2])
    assert expected[1] in found.detail


def test_huge_output_is_discarded(run: Run) -> None:
    assert (
        run(
            "import sys\nfor _ in range(2000): print('x' * 10**5); print('y' * 10**5, "
            "file=sys.stderr)"
        ).status
        == "passed"
    )


def test_a_huge_file_is_refused(run: Run) -> None:
    assert "File too large" in run("open('big', 'wb').write(bytes(1 << 25))").detail


def test_the_environment_is_scrubbed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATESWEEP_SECRET", "token-of-the-user")
    assert (
        run(
            "import os\nassert not any('SECRET' in k or 'token' in v for k, v in "
            "os.environ.items())"
        ).status
        == "passed"
    )


@needs("landlock")
@pytest.mark.parametrize("path", ["/proc/1/environ", "/etc/passwd", "/proc/self/environ", __file__])
def test_files_of_others_cannot_be_read(path: str) -> None:
    assert "PermissionError" in run_with(("landlock",), f"open({path!r}, 'rb').read()").detail


@needs("landlock")
def test_files_outside_the_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    programs = [
        f"open('{tmp_path}/new', 'w')",
        f"open('{tmp_path}/kept', 'w')",
        f"import os; os.remove('{tmp_path}/kept')",
        f"import os; os.mkdir('{tmp_path}/x')",
    ]
    assert ["Permission" in run_with(("landlock",), p).detail for p in programs] == [True] * len(
        programs
    )
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("kept", "kept")]


@needs("landlock")
def test_processes_of_others_cannot_be_signalled() -> None:
    if kernel.landlock_version() < 6:
        pytest.skip("this kernel's Landlock keeps no signals in")
    assert (
        "PermissionError" in run_with(("landlock",), f"import os; os.kill({os.getpid()}, 0)").detail
    )


@pytest.mark.parametrize(
    "layer", [pytest.param(layer, marks=needs(layer)) for layer in ("namespaces", "bubblewrap")]
)
def test_the_root_shows_the_interpreter_and_little_else(layer: str) -> None:
    program = (
        "import os, socket\ndef f(path): return sorted(os.listdir(path)) if "
        "os.path.exists(path) else None\n"
    )
    program += (
        "def writes(path):\n    try: open(path + '/x', 'w')\n    except OSError as e: return "
        "e.strerror\n"
    )
    program += "def links(): return {n for _, n in socket.if_nameindex()}"
    prefix = Path(sys.base_prefix).parts[1]
    source = (
        "assert set(f('/')) <= {'bin', 'dev', 'etc', 'lib', 'lib64', 'nix', 'program', "
        f"'usr', {prefix!r}, {Path(__file__).parts[1]!r}}}\n"
        "assert set(f('/dev')) == {'null', 'zero', 'random', 'urandom'}, f('/dev')\n"
        "assert set(f('/etc')) <= {'ld.so.cache', 'localtime'}, f('/etc')\n"
        "assert f('/proc') is None and f('/program') == [] and links() == {'lo'}\n"
        f"assert f({str(Path(__file__).parent)!r}) is None\n"
        f"assert writes('/usr') == writes({str(Path(os.__file__).parent)!r}) == 'Read-only "
        "file system'\n"
        "assert writes('/program') is None"
    )
    result = run_with(
        (layer,), program, UnitTests(source=source, functions=["f", "writes", "links"])
    )
    assert result.detail == ""


@needs("namespaces")
def test_there_is_no_other_process_and_no_privilege() -> None:
    program = (
        "import os, ctypes\nlibc = ctypes.CDLL(None)\n"
        "def f(): return os.getpid(), os.getppid()\n"
        "def no_new_privileges(): return libc.prctl(39, 0, 0, 0, 0)\n"
        "def caps():\n    data = (ctypes.c_uint32 * 6)()\n"
        "    libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)\n    return list(data)\n"
    )
    source = "assert f() == (1, 0) and no_new_privileges() == 1 and caps() == [0] * 6"
    tests = UnitTests(source=source, functions=["f", "no_new_privileges", "caps"])
    assert run_with(("namespaces",), program, tests).status == "passed"


@pytest.mark.skipif(
    os.getuid() != 0 or bool(sandbox._trial(("namespaces",))), reason="needs root and namespaces"
)
def test_where_the_caller_is_root_programs_are_nobody() -> None:
    program = (
        "import os, resource\ndef f(): return os.getuid(), os.getgid(), "
        "resource.getrlimit(resource.RLIMIT_NPROC)[1]"
    )
    tests = UnitTests(
        source=f"assert f() == ({kernel.NOBODY}, {kernel.NOBODY}, {kernel.NUM_PROCESSES})",
        functions=["f"],
    )
    assert run_with(("namespaces",), program, tests).status == "passed"


def test_bubblewrap_gets_a_command_that_hides_all_but_the_interpreter() -> None:
    command = launch.bubblewrap()
    binds = [
        command[i + 1 : i + 3]
        for i, word in enumerate(command)
        if word in ("--ro-bind", "--dev-bind")
    ]
    assert Path(command[0]).name == "bwrap" and command[-1] == "--"
    assert {"--unshare-all", "--die-with-parent", "--cap-drop"} <= set(command)
    assert command[command.index("--tmpfs") - 2 :][:4] == [
        "--size",
        str(kernel.DISK_MIB << 20),
        "--tmpfs",
        kernel.WORK,
    ]
    assert all(source == target for source, target in binds)
    assert not {
        "/",
        "/home",
        "/proc",
        "/tmp",
        "/root",
        "/etc",
        str(Path.home()),
        str(Path.cwd()),
    } & {source for source, _ in binds}


def test_it_starts_in_an_empty_folder_that_is_gone_afterwards(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import os, pathlib\nassert os.listdir() == []\n"
        "pathlib.Path('deep/er').mkdir(parents=True); "
        "pathlib.Path('deep/er/file').write_text('x')\n"
        "os.symlink('/', 'root'); os.chmod('deep/er', 0); os.chmod('deep', 0); os.chmod('.', 0)\n"
    )
    assert run(program).status == "passed"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "mess", ["for _ in range(1500): os.mkdir('d'); os.chdir('d')", "os.rmdir(os.getcwd())"]
)
def test_a_folder_that_is_nested_deep_or_already_gone_is_deleted(
    mess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run_with((), f"import os\n{mess}").status == "passed"
    assert list(tmp_path.iterdir()) == []


def test_links_out_of_the_folder_are_not_followed_when_it_is_deleted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, temporary = tmp_path / "outside", tmp_path / "temporary"
    outside.mkdir(mode=0o500)
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert run(f"import os; os.symlink({str(outside)!r}, 'link')").status == "passed"
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_program_is_not_the_main_module(run: Run) -> None:
    assert run("if __name__ == '__main__': input()").status == "passed"


def test_a_set_has_one_order_in_all_runs(run: Run) -> None:
    details = {
        run("raise ValueError(list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}))").detail for _ in range(4)
    }
    assert len(details) == 1


def test_packages_of_the_harness_cannot_be_imported(run: Run) -> None:
    for name in ("polars", "pipeline", "confined", "stats"):
        assert "ModuleNotFoundError" in run(f"import {name}").detail


@pytest.mark.parametrize("layers", [(), ("landlock",), ("namespaces",)])
def test_what_the_sandbox_cannot_start_is_broken_not_failed(
    layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_CHILD", Path("/nonexistent/child.py"))
    monkeypatch.setattr(launch, "SHARED", fork_server.Shared())
    result = run_with(layers, "x = 1")
    assert result.status == "broken"
    assert "No such file" in result.detail


@pytest.mark.parametrize(
    ("layers", "wall"), [(("landlock",), "def restrict_files"), (("namespaces",), "def enter_work")]
)
def test_a_layer_that_cannot_be_set_up_is_broken_not_weaker(
    layers: tuple[str, ...], wall: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(launch._CHILD.parent, tmp_path / "pipeline/sandbox/confined")
    (tmp_path / "pipeline/__init__.py").touch()
    child = tmp_path / "pipeline/sandbox/confined/__main__.py"
    source = (
        (child.parent / "kernel.py")
        .read_text()
        .replace(wall, f"{wall}(*_): raise OSError('no such wall')\ndef unused")
    )
    (child.parent / "kernel.py").write_text(source)
    monkeypatch.setattr(launch, "_CHILD", child)
    monkeypatch.setattr(launch, "SHARED", fork_server.Shared())
    result = run_with(layers, "x = 1")
    assert (result.status, result.limit) == ("broken", "")
    assert "no such wall" in result.detail or sandbox._trial(layers)
    launch.SHARED.close()


@needs("namespaces")
def test_a_fork_server_that_died_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = fork_server.Shared()
    monkeypatch.setattr(launch, "SHARED", shared)
    assert run_with(("namespaces",), "x = 1").status == "passed"
    assert shared._server is not None
    shared._server._process.kill()
    shared._server._process.wait()
    assert [run_with(("namespaces",), "x = 1").status for _ in range(2)] == ["passed", "passed"]
    shared.close()


@needs("namespaces")
def test_a_request_that_finds_no_room_leaves_the_fork_server_to_the_other_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared, send_fds, full = fork_server.Shared(), socket.send_fds, [True]  # full once
    monkeypatch.setattr(launch, "SHARED", shared)

    def send(*arguments: Any) -> int:
        if full and full.pop():
            raise OSError(errno.ETOOMANYREFS, "Too many references")
        return send_fds(*arguments)

    run_with(("namespaces",), "x = 1")
    server = shared._server
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_with, ("namespaces",), "import time; time.sleep(0.6)")
        time.sleep(0.3)
        monkeypatch.setattr(socket, "send_fds", send)
        assert run_with(("namespaces",), "x = 1").status == "broken"
        assert run_with(("namespaces",), "x = 1").status == running.result().status == "passed"
    assert shared._server is server
    shared.close()


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


def test_another_system_is_asked_for_nothing_of_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    for ask in (
        kernel.landlock_version,
        kernel.enter_root,
        lambda: kernel.enter_namespaces(kernel.CLONE_NEWUSER, -1),
    ):
        with pytest.raises(OSError, match="Function not implemented"):
            ask()


@needs("namespaces")
def test_the_fork_server_ends_with_its_caller_however_that_ends() -> None:
    script = (
        "import os, signal\nfrom pipeline.sandbox import run as sandbox\nsandbox.run('x = 1')\n"
        "print(sandbox._launch.SHARED._server._process.pid, flush=True)\n"
    )
    for ending in ("pass", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"):
        done = subprocess.run(
            [sys.executable, "-c", script + ending], capture_output=True, text=True, check=False
        )
        path, deadline = Path(f"/proc/{done.stdout.strip()}"), time.monotonic() + 10
        while path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not path.exists()


@needs("namespaces")
def test_programs_of_one_fork_server_share_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_each_layer_is_offered_with_a_reason_or_what_it_brings() -> None:
    offers = {offer.layer: offer for offer in sandbox.offers()}
    assert set(offers) == {"namespaces", "bubblewrap", "landlock", "nobody"}
    assert all(offer.about and (offer.works or not offer.used) for offer in offers.values())
    assert {layer for layer, offer in offers.items() if offer.used} >= set(sandbox.layers())


def test_a_layer_that_does_not_work_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "bubblewrap", lambda: ["/nonexistent/bwrap"])
    sandbox._trial.cache_clear()
    found = {offer.layer: offer for offer in sandbox.offers()}["bubblewrap"]
    sandbox._trial.cache_clear()
    assert (found.works, "No such file" in found.about) == (False, True)


def answers(*statuses: str) -> Callable[..., ExecutionResult]:
    """A `sandbox._run` that gives these, of which only a time-out is a disturbance, and `passed`
    ever after.
    """
    left = list(statuses)

    def answer(*_: Any) -> ExecutionResult:
        status: Any = left.pop(0) if left else "passed"
        return ExecutionResult(
            status=status,
            detail="" if status == "passed" else status,
            limit="",
            duration_s=0.0,
            was_disturbed=status == "timeout",
        )

    return answer


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing is known of the layers, before and after; trials take no time."""
    monkeypatch.setattr(sandbox, "_PAUSE_S", 0.0)
    monkeypatch.setattr(sandbox, "_required", None)
    for known in (sandbox._trial, sandbox._strongest):
        known.cache_clear()
    yield monkeypatch
    for known in (sandbox._trial, sandbox._strongest):
        known.cache_clear()


def test_a_busy_moment_does_not_weaken_the_confinement(forgotten: pytest.MonkeyPatch) -> None:
    forgotten.setattr(sandbox, "_run", answers("timeout", "timeout"))
    assert sandbox.layers() == sandbox._LAYERS[0]


def test_while_a_busy_machine_gives_no_answer_nothing_is_run_under_weaker_layers(
    forgotten: pytest.MonkeyPatch,
) -> None:
    forgotten.setattr(sandbox, "_run", answers(*["timeout"] * 6))
    result = sandbox.run("x = 1")
    assert (result.status, result.was_disturbed) == ("broken", True)
    with pytest.raises(sandbox.BusyError, match=r"too busy.*timeout"):
        sandbox.layers()
    assert sandbox.layers() == sandbox._LAYERS[0]


def test_a_layer_that_does_not_work_here_is_left_out(forgotten: pytest.MonkeyPatch) -> None:
    forgotten.setattr(sandbox, "_run", answers("broken", "timeout", "broken"))
    assert sandbox.layers() == sandbox._LAYERS[2]


@pytest.mark.parametrize("layers", LAYERS)
def test_programs_run_under_the_layers_that_were_asked_for(
    layers: tuple[str, ...], forgotten: pytest.MonkeyPatch
) -> None:
    sandbox.use(list(layers))
    assert sandbox.layers() == layers
    assert ("namespaces" in sandbox.confinement()) == ("namespaces" in layers)
    is_behind_root = sandbox.run(
        "import os; raise ValueError(os.path.exists('/etc/hostname') or os.path.exists('/proc'))"
    ).detail
    assert is_behind_root == f"ValueError: {not {'namespaces', 'bubblewrap'} & set(layers)}"


def test_layers_that_were_asked_for_and_do_not_work_break_the_run(
    forgotten: pytest.MonkeyPatch,
) -> None:
    forgotten.setattr(launch, "bubblewrap", lambda: ["/nonexistent/bwrap"])
    sandbox.use(("bubblewrap",))
    result = sandbox.run("x = 1")
    assert (result.status, "No such file" in result.detail) == ("broken", True)


def test_layers_that_do_not_exist_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match=r"\('docker',\).*'namespaces', 'landlock'"):
        sandbox.use(("docker",))


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
    assert ("Landlock" in sandbox.confinement()) == ("landlock" in sandbox.layers())
