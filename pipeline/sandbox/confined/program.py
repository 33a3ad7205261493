"""The program's process, the only one that executes foreign code.

Nothing in it is secret; its only descriptors are two pipes.
"""

# ruff: noqa: S102 - executing code is the purpose

import builtins
import contextlib
import json
import os
import select
import signal
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

from pipeline.sandbox.confined import kernel, plain

MAX_DETAIL = 300
_MAX_FDS = 4096
"""Descriptors are this many at most: each got the lowest free number in a fresh interpreter.

The system's own limit may be a thousand million, and some systems close one by one.
"""


def be_program(source: int, requests: int, replies: int, confine: Callable[[], None]) -> None:
    """Put up the last walls, execute the program, and answer the tester ever after.

    Args:
        source: descriptor of the program's text.
        requests: pipe from the tester.
        replies: pipe to the tester.
        confine: puts up the walls.
    """
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # a signal to its own process group is for nobody else
    text = _read_all(source)
    _keep_open(requests, replies)
    with open(requests, "rb") as questions, open(replies, "wb") as answers:
        try:
            confine()
        except Exception as error:
            _send(answers, {"broken": describe(error)})
            return
        if _is_orphan(requests):
            return
        _send(answers, {"started": True})
        module = _Module(text)
        _send(answers, _outcome(module.execute))
        for line in questions:
            _send(answers, _outcome(partial(module.answer, **json.loads(line))))


def _read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb") as file:
        return file.read()


def _keep_open(*fds: int) -> None:
    """Close all descriptors but the standard ones and `fds`."""
    edges = sorted({2, *fds})
    for low, high in zip(edges, [*edges[1:], _MAX_FDS], strict=True):
        os.closerange(low + 1, high)


def _is_orphan(requests: int) -> bool:
    """Whether the tester ended before it could be followed to death."""
    poll = select.poll()
    poll.register(requests, 0)  # reports the hang-up alone
    return bool(poll.poll(0))


def _send(answers: BinaryIO, message: dict[str, Any]) -> None:
    """Write one line, which the tester believes no more than it believes the program."""
    answers.write(json.dumps(message).encode() + b"\n")
    answers.flush()


class _Module:
    """The program as a module.

    Its name is not `__main__`: what a model puts under that guard is a demonstration, and waits for
    input.
    """

    def __init__(self, text: bytes) -> None:
        self._text, self._pid, self._module = text, os.getpid(), types.ModuleType("program")
        for name in [n for n in sys.modules if n.startswith("pipeline")]:
            del sys.modules[name]
        sys.modules["program"], sys.argv = self._module, ["program.py"]

    def execute(self) -> dict[str, Any]:
        """Run the program to its end."""
        with self._original():
            code = compile(
                self._text.decode("utf-8", "surrogatepass"), "program.py", "exec", dont_inherit=True
            )
            exec(code, vars(self._module))
        return {"ended": True}

    def answer(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The result of the program's function `name`, and its positional arguments if changed."""
        if name not in vars(self._module):
            raise NameError(f"name {name!r} is not defined")
        given = [plain.decode(v) for v in args]
        named = {k: plain.decode(v) for k, v in kwargs.items()}
        with self._original():
            result = plain.encode(vars(self._module)[name](*given, **named), _opaque)
        left = [plain.encode(v, _opaque) for v in given]
        return {"result": result} if left == args else {"result": result, "args": left}

    @contextlib.contextmanager
    def _original(self) -> Iterator[None]:
        """End a copy that the program forked, so that it does not answer too."""
        try:
            yield
        finally:
            if os.getpid() != self._pid:
                os._exit(0)


def _opaque(value: Any) -> Any:
    try:
        truth = bool(value)
    except Exception:
        truth = False
    return {"opaque": [type(value).__name__, truth]}


def _outcome(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` returns, or the nearest built-in exception to what it raised, described."""
    try:
        return work()
    except BaseException as error:
        # What the program still holds may have filled the memory.
        with contextlib.suppress(BaseException):
            error.__traceback__ = error.__context__ = error.__cause__ = None
        return {"error": _builtin_name(error), "description": describe(error)[:MAX_DETAIL]}


def _builtin_name(error: BaseException) -> str:
    names = (cls.__name__ for cls in type(error).__mro__)
    return next(name for name in names if name in vars(builtins))


def describe(error: BaseException) -> str:
    """The error's type and message, whatever its own methods do."""
    with contextlib.suppress(BaseException):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
