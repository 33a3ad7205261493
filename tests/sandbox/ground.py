"""A caller's machine with everything that hostile programs look for."""

import ctypes
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.sandbox.confined import kernel
from pipeline.sandbox.launch import CONFINED, Launcher


class Ground:
    """A caller's machine with everything that attacks look for; what runs on it is marked."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"mark-{secrets.token_hex(8)}"
        self.outside, self.temporary = folder / "outside", folder / "temporary"
        self.outside.mkdir()
        self.temporary.mkdir()
        (self.outside / "kept").write_text("kept")
        self.listeners = [
            socket.create_server(("127.0.0.1", 0)),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
        ]
        self.listeners[1].bind(str(self.outside / "socket"))
        self.listeners[2].bind("\0" + self.mark)
        self.udp = socket.socket(type=socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        for listener in self.listeners:
            listener.listen()
        # A key in a ring that the fork server and all threads inherit, where there are such rings.
        if kernel.KEYCTL:
            kernel.libc.syscall(kernel.KEYCTL, kernel.KEYCTL_JOIN_SESSION_KEYRING, None)
            add_key = {250: 248, 219: 217}[kernel.KEYCTL]
            kernel.libc.syscall(
                add_key, b"user", self.mark.encode(), b"secret", ctypes.c_size_t(6), -3
            )
        confined = folder / self.mark / "pipeline/sandbox/confined"
        shutil.copytree(CONFINED, confined)
        (confined.parent / "__init__.py").touch()
        self.launcher = Launcher(
            confined=confined, variables={"MARKED": self.mark}, folder=self.temporary
        )

    def constants(self) -> str:
        values = {
            "OUTSIDE": str(self.outside),
            "HOME": str(Path.home()),
            "CALLER": os.getpid(),
            "MARK": self.mark,
        }
        values |= {"TCP": self.listeners[0].getsockname()[1], "UDP": self.udp.getsockname()[1]}
        return "".join(f"{name} = {value!r}\n" for name, value in values.items())

    def processes(self) -> set[tuple[int, str]]:
        """Ids and command lines of living processes that were started with the mark in their
        environment or the name of their script.

        It looks often, since one that keeps forking has another id at each look.
        """
        time.sleep(0.3)  # the last tester says that it ends a moment before it does
        return {process for _ in range(30) for process in self._processes()}

    def _processes(self) -> Iterator[tuple[int, str]]:
        for path in Path("/proc").glob("[0-9]*"):
            # The environment of processes that let nobody look into them is hidden from an ordinary
            # user, but their command line is not.
            command = read(path / "cmdline")
            if self.mark.encode() in command + read(path / "environ"):
                yield int(path.name), command.replace(b"\0", b" ").decode()

    def packets(self) -> bytes:
        """What came by UDP."""
        try:
            return self.udp.recv(9)
        except BlockingIOError:
            return b""

    def files(self) -> list[str]:
        """What attacks left in temporary folders, in memory and in the folder outside."""
        folders = [Path(p) for p in ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/usr")]
        folders += [Path(os.__file__).parent, Path.home(), Path(tempfile.gettempdir())]
        marked = [
            str(p)
            for folder in folders
            if folder.is_dir()
            for p in folder.iterdir()
            if self.mark in p.name
        ]
        return [
            *marked,
            *map(str, self.temporary.iterdir()),
            *(str(p) for p in self.outside.iterdir() if p.name not in ("kept", "socket")),
        ]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile, or we may not
        return b""
