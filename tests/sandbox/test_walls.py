"""What a program can see and touch: files, keys, processes, the environment, its own folder."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.sandbox.confined import kernel, landlock
from pipeline.sandbox.launch import Launcher
from pipeline.sandbox.offers import strongest
from pipeline.sandbox.run import UnitTests
from tests.sandbox.conftest import Run
from tests.sandbox.helpers import MISSING, needs, run_with

InFolder = Callable[[Path], Launcher]


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
    if ring != -3 and not strongest().layers:
        pytest.skip("each user has one such ring in each user namespace")
    if ring != -3 and "limits_only" in request.node.name:
        pytest.skip("the ring of a user is that of all its programs")
    assert run(KEYS, f"assert leaves({ring}) and finds({ring})", ["leaves", "finds"]).detail == ""
    assert run(KEYS, f"assert not finds({ring})", ["finds"]).detail == ""


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
    if landlock.version() < 6:
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
    os.getuid() != 0 or ("namespaces",) in MISSING, reason="needs root and namespaces"
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
    command = Launcher().bubblewrap()
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


@pytest.fixture
def launcher_in() -> Iterator[Callable[[Path], Launcher]]:
    """A launcher that makes private folders in a given one."""
    with contextlib.ExitStack() as stack:

        def make(folder: Path) -> Launcher:
            launcher = Launcher(folder=folder)
            stack.callback(launcher.close)
            return launcher

        yield make


def test_it_starts_in_an_empty_folder_that_is_gone_afterwards(
    run: Run, tmp_path: Path, launcher_in: InFolder
) -> None:
    program = (
        "import os, pathlib\nassert os.listdir() == []\n"
        "pathlib.Path('deep/er').mkdir(parents=True); "
        "pathlib.Path('deep/er/file').write_text('x')\n"
        "os.symlink('/', 'root'); os.chmod('deep/er', 0); os.chmod('deep', 0); os.chmod('.', 0)\n"
    )
    assert run(program, launcher=launcher_in(tmp_path)).status == "passed"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "mess", ["for _ in range(1100): os.mkdir('d'); os.chdir('d')", "os.rmdir(os.getcwd())"]
)
def test_a_folder_that_is_nested_deep_or_already_gone_is_deleted(
    mess: str, tmp_path: Path, launcher_in: InFolder
) -> None:
    launcher = launcher_in(tmp_path)
    assert run_with((), f"import os\n{mess}", launcher=launcher).status == "passed"
    assert list(tmp_path.iterdir()) == []


def test_links_out_of_the_folder_are_not_followed_when_it_is_deleted(
    run: Run, tmp_path: Path, launcher_in: InFolder
) -> None:
    outside, temporary = tmp_path / "outside", tmp_path / "temporary"
    outside.mkdir(mode=0o500)
    temporary.mkdir()
    program = f"import os; os.symlink({str(outside)!r}, 'link')"
    assert run(program, launcher=launcher_in(temporary)).status == "passed"
    assert outside.stat().st_mode & 0o777 == 0o500


def test_another_system_is_asked_for_nothing_of_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    for ask in (
        landlock.version,
        kernel.enter_root,
        lambda: kernel.enter_namespaces(kernel.CLONE_NEWUSER, -1),
    ):
        with pytest.raises(OSError, match="Function not implemented"):
            ask()
