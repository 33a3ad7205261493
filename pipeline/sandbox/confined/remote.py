"""The program as its tester sees it: a process to start, to ask and to end."""

import builtins
import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from pipeline.sandbox.confined import kernel, plain
from pipeline.sandbox.confined.program import be_program

MAX_MESSAGE = 16 << 20
_LOOK_MS = 50
"""How often to look whether the program has ended while something else keeps its pipe open."""
_LEAVE_MS = 500
"""How long a program that closed its pipes may take to be gone."""


class Request:
    """What is to be run, how, and where the records go."""

    def __init__(self, layers: str, limits: str, *fds: int) -> None:
        """Layers and limits as words with commas between.

        Descriptors of the program, of the tests, and for the records.
        """
        self.layers = set(layers.split(","))
        self.cpu_limit_s, self.memory_mib, self.timeout_s = (int(n) for n in limits.split(","))
        self.program, self.tests, self.records = fds
        self._nonce = ""
        self.children = -1

    def read_tests(self) -> dict[str, Any]:
        """The tests, and from now on the nonce.

        To be called after the program has a memory of its own.
        """
        os.lseek(self.tests, 0, os.SEEK_SET)
        with open(self.tests, "rb") as file:
            tests: dict[str, Any] = json.load(file)
        self._nonce = tests.pop("nonce")
        return tests

    def record(self, kind: str, detail: object = "") -> None:
        """Write one record; the caller may be gone."""
        text = " ".join(str(detail).split())[:300]
        with contextlib.suppress(BrokenPipeError):
            os.write(self.records, f"{self._nonce} {kind} {text}\n".encode("utf-8", "replace"))

    def is_over(self) -> bool:
        """Whether the caller said stop, or is gone."""
        return bool(select.select([self.records], [], [], 0)[0])


class Ended(BaseException):
    """The program can answer no more, or is not to; no test can catch it by accident."""


class BrokenError(Exception):
    """The walls could not be put up."""


class Program:
    """The program's process, from the tester's side."""

    def __init__(self, request: Request, confine: Callable[[], None]) -> None:
        """Fork it off this process, behind its walls and those that `confine` puts up."""
        theirs, self._requests = os.pipe()
        self._replies, ours = os.pipe()
        self._request, self._rest, self._status, self._cpu_s = request, b"", -1, 0.0
        self._pid = os.fork()
        if not self._pid:
            play(lambda: be_program(request.program, theirs, ours, confine))
        os.close(theirs)
        os.close(ours)
        os.set_blocking(self._requests, False)

    def start(self) -> None:
        """Wait until it is confined. What it says later about its walls is its own invention.

        Raises:
            BrokenError: a wall could not be put up.
        """
        message = self.receive()
        if "broken" in message:
            raise BrokenError(message["broken"])

    def function(self, name: str) -> Callable[..., Any]:
        """A function that calls the program's function `name`."""
        return lambda *args, **kwargs: self._call(name, args, kwargs)

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of one call.

        Lists, dictionaries and sets among `args` are changed as the program changed them.

        Raises:
            BaseException: of the built-in type that the program raised, or the nearest to it.
        """
        question = {
            "name": name,
            "args": [_encode(v) for v in args],
            "kwargs": {k: _encode(v) for k, v in kwargs.items()},
        }
        self._send(json.dumps(question).encode() + b"\n")
        reply = self.receive()
        for argument, left in zip(args, reply.get("args", ()), strict=False):
            _become(argument, plain.decode(left))
        return plain.decode(reply["result"])

    def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            Ended: there will be none.
            BaseException: what the program raised.
        """
        message = json.loads(self._line())
        if "error" in message:
            raise _raised(str(message["error"]), str(message["description"]))
        return dict(message)

    def _line(self) -> bytes:
        """The next line. What comes without an end is read in pieces, and not for ever."""
        pieces, size = [self._rest], len(self._rest)
        while b"\n" not in pieces[-1]:
            self._await(self._replies, select.POLLIN)
            piece = os.read(self._replies, 1 << 20)
            pieces.append(piece)
            size += len(piece)
            if not piece:
                raise Ended
            if size > MAX_MESSAGE:
                raise ValueError(f"the program returned more than {MAX_MESSAGE >> 20} MiB")
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def _send(self, line: bytes) -> None:
        while line:
            self._await(self._requests, select.POLLOUT)
            try:
                line = line[os.write(self._requests, line) :]
            except BrokenPipeError:
                raise Ended from None

    def _await(self, fd: int, event: int) -> None:
        """Wait until `fd` is ready.

        Raises:
            Ended: the caller said stop, or the program's process is gone, though another may hold
                its end of the pipe.
        """
        poll = select.poll()
        poll.register(fd, event)
        poll.register(self._request.records, select.POLLIN)
        while True:
            is_gone = self._is_gone()
            ready = [fd for fd, _ in poll.poll(0 if is_gone else _LOOK_MS)]
            if self._request.records in ready or (is_gone and not ready):
                raise Ended
            if ready:
                return

    def _is_gone(self) -> bool:
        """Whether its process has ended; its children may live on."""
        return self._status >= 0 or self._wait(os.WNOHANG)

    def _wait(self, options: int) -> bool:
        pid, status, usage = os.wait4(self._pid, options)
        if pid:
            self._status, self._cpu_s = status, usage.ru_utime + usage.ru_stime
        return bool(pid)

    def record_end(self, request: Request) -> None:
        """Say how its process ended, unless it is being stopped."""
        for _ in range(_LEAVE_MS):
            if self._is_gone():
                break
            if request.is_over():
                return
            time.sleep(0.001)
        if self._status < 0:
            request.record("closed")
        elif not os.WIFSIGNALED(self._status):
            request.record("exited", os.WEXITSTATUS(self._status))
        elif os.WTERMSIG(self._status) == signal.SIGKILL and self._cpu_s > request.cpu_limit_s / 2:
            # The kernel kills at the limit by another clock, which counts ticks; nobody else kills
            # so late.
            request.record("cpu")
        else:
            request.record("killed", signal.Signals(os.WTERMSIG(self._status)).name)

    def kill(self, children: int) -> None:
        """End its process, and with it its PID namespace.

        Where it has none, the listed `children` of this process and theirs too.
        """
        if self._status < 0:
            os.kill(self._pid, signal.SIGKILL)
            self._wait(0)
        if children >= 0:
            kernel.kill_children(children)


def play(role: Callable[[], None]) -> NoReturn:
    """Play `role` in a process that was just forked, and end it."""
    try:
        role()
    finally:
        os._exit(1)


def _encode(value: Any) -> Any:
    return plain.encode(value, _refuse)


def _refuse(value: Any) -> Any:
    if isinstance(value, plain.Opaque):  # the program returned it, and the tests hand it back
        raise TypeError(
            f"{value!r}, which the program returned, is no plain data and cannot be passed to it"
        )
    kind = type(value).__name__
    raise BrokenError(
        f"the tests pass an object of type {kind}, which is no plain data, to the program"
    )


def _become(argument: Any, left: Any) -> None:
    """Change `argument` in place into what the program left of it."""
    if isinstance(argument, list):
        argument[:] = left
    elif isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(left)


def _raised(name: str, description: str) -> BaseException:
    """An exception of the built-in type `name`, described as the program described it."""
    kind = getattr(builtins, name, None)
    is_error = isinstance(kind, type) and issubclass(kind, BaseException)
    cls: type[BaseException] = kind if is_error else Exception  # type: ignore[assignment]
    error = cls.__new__(cls)
    error.args = (description.partition(": ")[2],)
    error.description = description  # type: ignore[attr-defined]
    return error
