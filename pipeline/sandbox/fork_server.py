"""The caller's side of a fork server: started when first needed and again should it die."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

from pipeline.sandbox.confined.server import READY

START_S = 30.0
"""How long a fresh interpreter may take on a busy machine."""
NO_ANSWER = "the fork server does not answer"
ENDED = "the fork server ended at once"


class ForkServerError(Exception):
    """The fork server does not start here, or can take no request; the message says why."""


class DeadError(ForkServerError):
    """The fork server ended after it had started."""


class ForkServer:
    """A running fork server.

    It ends when this object is closed or this process ends, however that happens.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start `command` and wait until it serves.

        Raises:
            ForkServerError: it says something else, or nothing, or this system has no such sockets.
        """
        try:
            self._control, self._process = _connected(command, environment)
        except OSError as error:
            raise ForkServerError(str(error)) from error
        self._control.settimeout(START_S)
        if (answer := self._answer()) != READY:
            self.close()
            raise ForkServerError(answer.decode(errors="replace") or ENDED)
        self._control.settimeout(None)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def _answer(self) -> bytes:
        """What it says first; a traceback comes line by line, the cause last."""
        last = b""
        try:
            while last != READY and (message := self._control.recv(1 << 16)):
                last = message.strip() or last
        except TimeoutError:
            return last or NO_ANSWER.encode()
        except ConnectionError:
            return last
        return last

    def start(self, request: str, fds: list[int]) -> None:
        """Have a tester forked; what becomes of it is written to the last of `fds`.

        Raises:
            DeadError: the server is.
            ForkServerError: this machine has no room for the request now.
        """
        try:
            socket.send_fds(self._control, [request.encode()], fds)
        except OSError as error:
            is_closed = self._control.fileno() == -1  # by another thread that noticed
            is_dead = is_closed or isinstance(error, ConnectionError)
            raise (DeadError if is_dead else ForkServerError)(str(error)) from error

    def close(self) -> None:
        """End it and everything it started."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def _connected(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Our end of a new socket, and a process whose standard files are the other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        end = theirs.fileno()
        try:
            return ours, subprocess.Popen(
                command,
                stdin=end,
                stdout=end,
                stderr=end,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise


class SharedForkServer:
    """The one fork server of a process, for all its threads."""

    def __init__(self, start: Callable[[], ForkServer]) -> None:
        """`start` is called when one is first needed, and after it died or this process forked."""
        self._start, self._lock, self._owner = start, threading.Lock(), 0
        self._server: ForkServer | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, where it has been started."""
        return self._server.pid if self._server else None

    def start(self, request: str, fds: list[int]) -> None:
        """Have a tester forked, by a new server where there is none or it died.

        Raises:
            ForkServerError: there is none to be had.
        """
        server = self._get(None)
        try:
            server.start(request, fds)
        except DeadError:
            self._get(server).start(request, fds)

    def _get(self, dead: ForkServer | None) -> ForkServer:
        """The server, unless it is the `dead` one or was inherited over a fork: then a new one."""
        with self._lock:
            is_ours = self._owner == os.getpid()
            if self._server is None or self._server is dead or not is_ours:
                if self._server is not None and is_ours:
                    self._server.close()
                self._server, self._owner = None, os.getpid()
                self._server = self._start()
            return self._server

    def close(self) -> None:
        """End the server, if this process has one."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None and self._owner == os.getpid():
            server.close()
