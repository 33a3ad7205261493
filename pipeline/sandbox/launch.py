"""How a tester is started: forked off the fork server, or as a fresh interpreter, behind bubblewrap
or not.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.sandbox.confined import kernel
from pipeline.sandbox.fork_server import SHARED, ForkServerError

_CHILD = Path(__file__).with_name("confined") / "__main__.py"
_PYTHON_FLAGS = ["-P", "-s", "-S", "-B"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use; see `sandbox.run`."""

    timeout_s: float = 30.0
    cpu_limit_s: int = 5
    memory_mib: int = 1024

    def __str__(self) -> str:
        return f"{self.cpu_limit_s},{self.memory_mib},{int(self.timeout_s) + 1}"


@contextlib.contextmanager
def tester(
    layers: tuple[str, ...], limits: Limits, program: int, tests: int, records: socket.socket
) -> Iterator[None]:
    """While inside, a tester runs or has run; `records` is closed on this side."""
    with contextlib.ExitStack() as stack:
        with records:
            if "namespaces" in layers:
                request = f"{','.join(layers)} {limits}"
                try:
                    SHARED.start(
                        _python("serve"),
                        environment(kernel.WORK),
                        request,
                        [program, tests, records.fileno()],
                    )
                except ForkServerError as error:
                    records.send(str(error).encode())
            else:
                stack.enter_context(_fresh_tester(layers, limits, program, tests, records.fileno()))
        yield


@contextlib.contextmanager
def _fresh_tester(
    layers: tuple[str, ...], limits: Limits, program: int, tests: int, records: int
) -> Iterator[None]:
    """A tester in an interpreter and a folder of its own.

    It and its whole group are dead at the end.
    """
    with _folder() as folder:
        where = kernel.WORK if "bubblewrap" in layers else str(folder)
        command = _python("once", ",".join((*layers, *user(layers))), str(limits), str(tests))
        try:
            process = subprocess.Popen(
                [*(bubblewrap() if "bubblewrap" in layers else []), *command],
                stdin=program,
                stdout=records,
                stderr=records,
                pass_fds=[tests],
                cwd=folder,
                env=environment(where),
                start_new_session=True,
            )
        except OSError as error:
            os.write(records, str(error).encode())
            yield
            return
        with process:
            try:
                yield
            finally:  # before the process is waited for, so that its id is still its own
                os.killpg(process.pid, signal.SIGKILL)


def _python(*arguments: str) -> list[str]:
    # The real interpreter and not a link in a virtual environment, which the program could not
    # read.
    return [os.path.realpath(sys.executable), *_PYTHON_FLAGS, str(_CHILD), *arguments]


def bubblewrap() -> list[str]:
    """The head of a command that bubblewrap runs behind a root like that of `kernel.enter_root`."""
    shown = [path for path in kernel.readable() if not path.startswith("/dev/")]
    devices = [path for path in kernel.readable() if path.startswith("/dev/")]
    ours = [_CHILD.parent.parent / "__init__.py", _CHILD.parent]
    binds = [word for path in (*shown, *map(str, ours)) for word in ("--ro-bind", path, path)]
    binds += [word for path in devices for word in ("--dev-bind", path, path)]
    memory = ["--size", str(kernel.DISK_MIB << 20), "--tmpfs", kernel.WORK]
    return [
        shutil.which("bwrap") or "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        *binds,
        *memory,
        "--chdir",
        kernel.WORK,
        "--",
    ]


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A private temporary folder, deleted at the end with whatever the program did to it."""
    folder = Path(tempfile.mkdtemp(prefix="datesweep-"))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Delete `folder`, also where a program took its permissions away, nested it too deep for
    `shutil.rmtree`, or deleted it.
    """
    with contextlib.suppress(OSError):
        folder.rmdir()  # mostly it is empty
        return
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # neither follows links
        subprocess.run(
            [*command, "--", folder],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def environment(folder: str) -> dict[str, str]:
    """All that a program sees of the environment.

    The fixed hash seed gives sets one order, hence a program one verdict.
    """
    fixed = {
        "PATH": "/usr/bin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
    }
    kept = {
        name: os.environ[name] for name in ["LD_LIBRARY_PATH"] if name in os.environ
    }  # some interpreters need it to start
    return fixed | kept


def user(layers: tuple[str, ...]) -> tuple[str, ...]:
    """Whether programs run as nobody: where the caller is root and may choose."""
    free = "namespaces" in layers or (
        "bubblewrap" not in layers and kernel.anyone_may_read_python()
    )
    return ("nobody",) if free and kernel.can_become_nobody() else ()
