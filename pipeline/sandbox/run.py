"""A `Sandbox`: layers of confinement and limits, and the verdict on a program that runs in it.

The package's docstring says what the walls hold and what they do not.
"""

import contextlib
import dataclasses
import json
import os
import secrets
import select
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from pipeline.sandbox import machine_lock, verdict
from pipeline.sandbox.launch import HERE, Launcher, Limits, user
from pipeline.sandbox.verdict import ExecutionResult

LAYERS = (
    ("namespaces", "landlock"),
    ("namespaces",),
    ("bubblewrap", "landlock"),
    ("bubblewrap",),
    ("landlock",),
    (),
)
"""Sets of extra layers, strongest first."""
MAX_RECORD_BYTES = 1 << 16
GRACE_S = 2.0
"""How long the tester may take to clear up after the deadline before it is killed too."""
_WORDS = {
    "namespaces": "user, PID, network, IPC and mount namespaces with a root of their own",
    "landlock": "Landlock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTests:
    """What a program must do to pass."""

    source: str
    """Python source; it fails by raising."""
    functions: Sequence[str] = ()
    """Names in `source` that stand for functions of the program."""
    given: str = ""
    """Trusted source, executed first, for the other names that `source` uses."""


NO_TESTS = UnitTests(source="")
"""With these a program passes by reaching its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """How programs are confined and what they may use.

    A value that can be sent to other processes. Where a layer does not work, each result is
    `broken`, never less confined.
    """

    layers: tuple[str, ...]
    """One of `LAYERS`."""
    limits: Limits = field(default_factory=Limits)
    launcher: Launcher | None = None
    """What starts processes; None for the launcher of the process that runs the program."""

    def __post_init__(self) -> None:
        """Check the layers.

        Raises:
            ValueError: no set of layers is like this one.
        """
        if self.layers not in LAYERS:
            sets = ", ".join(map(repr, LAYERS))
            raise ValueError(f"no set of layers is {self.layers!r}; the sets are {sets}")

    def run(
        self, program: str, tests: UnitTests = NO_TESTS, *, alone: bool = False
    ) -> ExecutionResult:
        """The verdict on `program`, Python source text. Safe to call from several threads.

        Args:
            program: runs as a module named `program`, not `__main__`.
            tests: run in another process.
            alone: wait for a turn in which no other program of this user runs on this machine.
        """
        with machine_lock.running(alone=alone):
            start = time.monotonic()
            result = self._verdict(program, tests, start + self.limits.timeout_s)
            return dataclasses.replace(result, duration_s=time.monotonic() - start)

    def _verdict(self, program: str, tests: UnitTests, deadline: float) -> ExecutionResult:
        nonce = secrets.token_hex(16)
        ours, theirs = socket.socketpair()
        tester = (self.launcher or HERE).tester
        with (
            ours,
            _text(program) as source,
            _text(json.dumps({"nonce": nonce, **dataclasses.asdict(tests)})) as given,
            tester(self.layers, self.limits, source.fileno(), given.fileno(), theirs),
        ):
            output, in_time = _read(ours, nonce.encode(), deadline)
        return verdict.of(output, nonce, in_time=in_time)

    def confinement(self) -> str:
        """The layers in words, to store beside the scores."""
        layers = (*self.layers, *user(self.layers))
        return ", ".join(["process limits", *(_WORDS.get(layer, layer) for layer in layers)])

    @property
    def has_own_root(self) -> bool:
        """Whether programs see neither files nor processes of others."""
        return "namespaces" in self.layers or "bubblewrap" in self.layers


@contextlib.contextmanager
def _text(text: str) -> Iterator[IO[bytes]]:
    """An open file without a name that holds `text`."""
    has_memfd = sys.platform == "linux"
    with os.fdopen(os.memfd_create("text"), "w+b") if has_memfd else tempfile.TemporaryFile() as f:
        f.write(text.encode("utf-8", "surrogatepass"))
        f.flush()
        yield f


def _read(records: socket.socket, nonce: bytes, deadline: float) -> tuple[bytes, bool]:
    """What the tester wrote, and whether it ended before the `deadline`.

    Past it, the tester is told to end the program.
    """
    output = _read_until(records, nonce, deadline)
    in_time = time.monotonic() < deadline
    if not in_time:
        with contextlib.suppress(OSError):  # it has gone by itself
            records.shutdown(socket.SHUT_WR)
        output += _read_until(records, nonce, deadline + GRACE_S)
    return output, in_time


def _read_until(records: socket.socket, nonce: bytes, deadline: float) -> bytes:
    """Output up to the record that all has ended, the end of the stream, or the `deadline`.

    No honest tester writes more than MAX_RECORD_BYTES.
    """
    output, poll = b"", select.poll()
    poll.register(records, select.POLLIN)
    while len(output) < MAX_RECORD_BYTES and nonce + b" ended" not in output:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        chunk = records.recv(MAX_RECORD_BYTES)
        if not chunk:
            break
        output += chunk
    return output
