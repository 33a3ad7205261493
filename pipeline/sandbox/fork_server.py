"""The caller's side of the fork server: one for each process that scores, started when first needed
and again should it die.
"""

import atexit
import os
import socket
import subprocess
import threading
from collections.abc import Sequence

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

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
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
            is_dead = (
                isinstance(error, ConnectionError) or self._control.fileno() == -1
            )  # the latter by another thread that noticed
            raise (DeadError if is_dead else ForkServerError)(str(error)) from error

    def close(self) -> None:
        """End it and everything it started."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def _connected(
    command: Sequence[str], environment: dict[str, str]
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Our end of a new socket, and a process whose standard files are the other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        pipe = theirs.fileno()
        try:
            return ours, subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise


class Shared:
    """The one fork server of this process, for all its threads."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0
        self._server: ForkServer | None = None

    def start(
        self, command: Sequence[str], environment: dict[str, str], request: str, fds: list[int]
    ) -> None:
        """Have a tester forked, by a new server where there is none or it died.

        Raises:
            ForkServerError: there is none to be had.
        """
        server = self._get(None, command, environment)
        try:
            server.start(request, fds)
        except DeadError:
            self._get(server, command, environment).start(request, fds)

    def _get(
        self, dead: ForkServer | None, command: Sequence[str], environment: dict[str, str]
    ) -> ForkServer:
        """The server, unless it is the `dead` one or was inherited over a fork: then a new one."""
        with self._lock:
            if self._server is None or self._server is dead or self._owner != os.getpid():
                if self._server is not None and self._owner == os.getpid():
                    self._server.close()
                self._server, self._owner = None, os.getpid()
                self._server = ForkServer(command, environment)
            return self._server

    def close(self) -> None:
        """End the server, if this process has one."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None and self._owner == os.getpid():
            server.close()


SHARED = Shared()
atexit.register(SHARED.close)
