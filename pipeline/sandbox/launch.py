"""How a tester is started: forked off the fork server, or as a fresh interpreter.

The latter stands behind bubblewrap or not.
"""

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.sandbox.confined import kernel
from pipeline.sandbox.fork_server import ForkServer, ForkServerError, SharedForkServer

CONFINED = Path(__file__).with_name("confined")
"""The package that runs inside."""
_PYTHON_FLAGS = ["-P", "-s", "-S", "-B"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use.

    They are generous, since a busy machine must not fail a sound program: no reference program of
    HumanEval needs half a second.
    """

    timeout_s: float = 8.0
    """Wall-clock time for everything, start-up and tests included, from the program's turn on."""
    cpu_limit_s: int = 5
    """CPU time of each process, whole seconds."""
    memory_mib: int = 1024
    """Address space of each process."""

    def __str__(self) -> str:
        return f"{self.cpu_limit_s},{self.memory_mib},{int(self.timeout_s) + 1}"


class Launcher:
    """Starts testers, and the fork server that most are forked from."""

    def __init__(
        self,
        *,
        confined: Path = CONFINED,
        bwrap: str = "bwrap",
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start `confined`, the package that runs inside, wrapped in `bwrap` where that is a layer.

        It gets `variables` beside the usual ones of the environment, and a private folder in
        `folder`, or the system's, where it has no root of its own.
        """
        self._confined, self._folder = confined, folder
        self._bwrap, self._variables = bwrap, dict(variables or {})
        self.fork_server = SharedForkServer(self._start_server)

    def close(self) -> None:
        """End the fork server, if there is one."""
        self.fork_server.close()

    @contextlib.contextmanager
    def tester(
        self,
        layers: tuple[str, ...],
        limits: Limits,
        program: int,
        tests: int,
        records: socket.socket,
    ) -> Iterator[None]:
        """While inside, a tester runs or has run; `records` is closed on this side.

        `program` and `tests` are descriptors of texts, the latter with the nonce; what becomes of
        the program is written to `records`.
        """
        with contextlib.ExitStack() as stack:
            with records:
                fds = [program, tests, records.fileno()]
                try:
                    if "namespaces" in layers:
                        self.fork_server.start(f"{','.join(layers)} {limits}", fds)
                    else:
                        stack.enter_context(self._fresh_tester(layers, limits, *fds))
                except (ForkServerError, OSError) as error:
                    records.send(str(error).encode())
            yield

    def _start_server(self) -> ForkServer:
        return ForkServer(self._python("serve"), self._environment(kernel.WORK))

    @contextlib.contextmanager
    def _fresh_tester(
        self, layers: tuple[str, ...], limits: Limits, program: int, tests: int, records: int
    ) -> Iterator[None]:
        """A tester in an interpreter and a folder of its own; its group is dead at the end."""
        with _private_folder(self._folder) as folder:
            is_wrapped = "bubblewrap" in layers
            command = self._python("once", ",".join((*layers, *user(layers))), str(limits))
            process = subprocess.Popen(
                [*(self.bubblewrap() if is_wrapped else []), *command, str(tests)],
                stdin=program,
                stdout=records,
                stderr=records,
                pass_fds=[tests],
                cwd=folder,
                env=self._environment(kernel.WORK if is_wrapped else str(folder)),
                start_new_session=True,
            )
            with process:
                try:
                    yield
                finally:  # before the process is waited for, so that its id is still its own
                    os.killpg(process.pid, signal.SIGKILL)

    def _python(self, *arguments: str) -> list[str]:
        # The real interpreter and not a link in a virtual environment, which the program could not
        # read.
        script = str(self._confined / "__main__.py")
        return [os.path.realpath(sys.executable), *_PYTHON_FLAGS, script, *arguments]

    def bubblewrap(self) -> list[str]:
        """The head of a command that runs behind a root like that of `kernel.enter_root`."""
        ours = [str(self._confined.parent / "__init__.py"), str(self._confined)]
        binds = []
        for path in (*kernel.readable(), *ours):
            binds += ["--dev-bind" if path.startswith("/dev/") else "--ro-bind", path, path]
        memory = ["--size", str(kernel.DISK_MIB << 20), "--tmpfs", kernel.WORK]
        walls = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
        bwrap = shutil.which(self._bwrap) or self._bwrap
        return [bwrap, *walls, *binds, *memory, "--chdir", kernel.WORK, "--"]

    def _environment(self, folder: str) -> dict[str, str]:
        """All that a program sees of the environment.

        The fixed hash seed gives sets one order, hence a program one verdict.
        """
        fixed = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        # some interpreters need it to start
        kept = {n: os.environ[n] for n in ["LD_LIBRARY_PATH"] if n in os.environ}
        return fixed | {"HOME": folder, "TMPDIR": folder} | kept | self._variables


HERE = Launcher()
"""The launcher of this process."""
atexit.register(HERE.close)


@contextlib.contextmanager
def _private_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder, deleted at the end with whatever the program did to it."""
    folder = Path(tempfile.mkdtemp(prefix="datesweep-", dir=parent))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Delete `folder`, also where a program locked, deeply nested or already deleted it."""
    with contextlib.suppress(OSError):
        folder.rmdir()  # mostly it is empty
        return
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # neither follows links
        null = subprocess.DEVNULL
        subprocess.run([*command, "--", folder], stdin=null, stderr=null, check=False)


def user(layers: tuple[str, ...]) -> tuple[str, ...]:
    """Whether programs run as nobody: where the caller is root and may choose."""
    is_free = "namespaces" in layers or (
        "bubblewrap" not in layers and kernel.anyone_may_read_python()
    )
    return ("nobody",) if is_free and kernel.can_become_nobody() else ()
