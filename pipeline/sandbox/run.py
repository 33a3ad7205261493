"""Run an untrusted program in confined processes of its own, and judge it by tests that it can
neither see nor touch.

**Verdicts.** The tests run in a process of their own, the tester, which never executes a line of
the program. It calls the program's functions over a pipe, and plain data come back
(`confined/plain.py` lists the types). So Python's own `==` compares Python's own types: no object
with a false `__eq__`, no patched built-in, no exit status, no output and no search through memory
makes a wrong program pass. The records that say so carry a nonce that the program's process never
held. A program passes by returning the right values, or not at all.

What that leaves: a program may know a public benchmark's answers by heart. Without tests, that a
program reached its end is its own word. Tests cannot hand the program functions, nor compare
objects of its classes. What tests need beside the functions under test comes from trusted source,
so a program that redefines a helper or a built-in to please its tests gains nothing.

**Walls.** Each program has fresh processes with the standard library alone, a scrubbed environment,
an empty folder that is deleted, no input, discarded output, and limits on CPU time, memory, file
size, open files and, where the kernel can count them, processes. The deadline is kept here, by the
caller; past it, all that the program started is killed. `offers()` says which layers this machine
adds:

* namespaces: no other process in sight, no network of any kind, a folder in memory of bounded size,
  and a read-only root of nothing but the interpreter, /usr and four devices: no home, no run
  folder, no /proc, no sockets of daemons (Linux 5.12);
* bubblewrap: nearly the same by `bwrap`, where only that program may make namespaces;
* Landlock: outside its folder a program writes nothing and reads no more than the above; no TCP
  (Linux 6.7); no signals to others (6.12);
* nobody: where the caller is root, programs run as the user `nobody`.

The strongest set that passes a trial is used. Namespaces come before bubblewrap since they hold
more and a fork server of ours then shares the interpreter's start-up; it stands behind the same
root, executes nothing of anyone's, and each program is still a process of its own.

**Not covered.** Bugs of the kernel. The memory of many processes together: each has its limit, and
the kernel is asked to end them first. Files in memory (`memfd_create`) and what waits in pipes and
sockets: only the number of open descriptors bounds them. Under bubblewrap alone a program can kill
its own tester, which fails it. System V shared memory has no bound but in our own namespaces, where
/proc/sys can be written. Without namespaces and bubblewrap it outlasts the program, which also
reaches its user's keyring in the kernel, daemons' sockets and the network by other protocols than
TCP, and sees other processes; before Linux 6.12 it may also kill those of its user, and if it kills
its tester, leave processes behind; its disk use is bounded for each file only, and a fork bomb of
an ordinary user or of root lasts until the deadline. Without Landlock as well, it reads and writes
whatever its user can. Against a determined author use a throw-away machine.
"""

import contextlib
import functools
import json
import os
import secrets
import select
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Literal

from pipeline.core.errors import PipelineError
from pipeline.sandbox import launch, machine_lock, verdict
from pipeline.sandbox.confined import kernel
from pipeline.sandbox.launch import Limits

_LAYERS = (
    ("namespaces", "landlock"),
    ("namespaces",),
    ("bubblewrap", "landlock"),
    ("bubblewrap",),
    ("landlock",),
    (),
)
"""Sets of extra layers, strongest first."""
_MAX_RECORD_BYTES = 1 << 16
_GRACE_S = 2.0
"""How long the tester may take to clear up after the deadline before it is killed too."""
_NUM_TRIALS = 3
_PAUSE_S = 1.0
"""How often a busy machine is asked whether a layer works, and how long it is left alone in
between."""


class BusyError(PipelineError):
    """This machine is too busy to say how programs can be confined here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTests:
    """What a program must do to pass."""

    source: str
    """Python source; it fails by raising."""
    functions: Sequence[str] = ()
    """Names in `source` that stand for functions of the program."""
    given: str = ""
    """Trusted source, executed first, for the other names that `source` uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """What became of one program."""

    status: Literal["passed", "failed", "timeout", "broken"]
    """passed: it and its tests ran to their end; failed: it raised, left early or was killed;
    timeout; broken: it could not be run here."""
    detail: str
    """One line: the exception, the signal or the limit; empty where it passed."""
    limit: Literal["", "cpu", "wall"]
    """Which limit a timeout reached. CPU time is the program's own; the wall clock also depends on
    how busy the machine is."""
    duration_s: float
    """Wall-clock time from start to the end of all its processes."""
    was_disturbed: bool = False
    """Whether something beside the program may have decided this, so that another try is due: the wall
    clock, a machine without room to start it, or the end of its process or its tester by a signal
    that it may not have sent itself, as where memory runs out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One layer of confinement on this machine."""

    layer: str
    works: bool
    used: bool
    """Whether programs run under it: of namespaces and bubblewrap, one is enough."""
    about: str
    """What it brings, or why it does not work."""


def run(
    program: str,
    tests: UnitTests | None = None,
    *,
    timeout_s: float = 8.0,
    cpu_limit_s: int = 5,
    memory_mib: int = 1024,
    alone: bool = False,
) -> ExecutionResult:
    """The verdict on `program`, Python source text. Safe to call from several threads.

    The default limits are generous, since a busy machine must not fail a sound program: no
    reference program of HumanEval needs half a second.

    Args:
        program: runs as a module named `program`, not `__main__`. tests: run in another process;
            without them a program passes by reaching its end. timeout_s: wall-clock time for
            everything, start-up and tests included; it begins when it is the program's turn.
            cpu_limit_s: CPU time, whole seconds, of each process. memory_mib: address space of each
            process. alone: wait for a turn in which no other program of this user runs on this
            machine.
    """
    with machine_lock.turn(alone=alone):
        try:
            return _run(
                program,
                tests or UnitTests(source=""),
                layers(),
                Limits(timeout_s, cpu_limit_s, memory_mib),
            )
        except BusyError as error:
            return ExecutionResult(
                status="broken", detail=str(error), limit="", duration_s=0.0, was_disturbed=True
            )


_required: tuple[str, ...] | None = None


def layers() -> tuple[str, ...]:
    """The extra layers that programs of this process run under: those of `use`, else the strongest
    that work on this machine.

    Whether they also run as `nobody` follows from who the caller is.

    Raises:
        BusyError: the machine gave no answer.
    """
    return _strongest() if _required is None else _required


def use(layers: Sequence[str]) -> None:
    """From now on programs of this process run under exactly these `layers`.

    Where they do not work, each result is `broken`.

    Raises:
        ValueError: no set of layers is like this one.
    """
    global _required
    if tuple(layers) not in _LAYERS:
        raise ValueError(
            f"no set of layers is {tuple(layers)!r}; the sets are {', '.join(map(repr, _LAYERS))}"
        )
    _required = tuple(layers)


def confinement() -> str:
    """The layers that programs run under on this machine, in words, to store beside the scores.

    Raises:
        BusyError: the machine gave no answer.
    """
    words = {
        "namespaces": "user, PID, network, IPC and mount namespaces with a root of their own",
        "landlock": "Landlock",
    }
    return ", ".join(
        ["process limits", *(words.get(layer, layer) for layer in layers() + launch.user(layers()))]
    )


def offers() -> list[Offer]:
    """Each layer of confinement, whether it works on this machine, and what it brings or why it
    does not work. Takes about a second.

    Raises:
        BusyError: the machine gave no answer.
    """
    used = layers() + launch.user(layers())
    found = [
        _offer(layer, _trial((layer,)), layer in used)
        for layer in ("namespaces", "bubblewrap", "landlock")
    ]
    return [
        *found,
        _offer("nobody", "" if "nobody" in used else _why_not_nobody(), "nobody" in used),
    ]


_BRINGS = {
    "namespaces": "no other processes, no network, a read-only root without home, run folder or /proc, a "
    "folder in memory",
    "bubblewrap": "the same by `bwrap`, where only that program may make namespaces",
    "landlock": "writes in its own folder alone, reads of little more than the interpreter, no TCP, no "
    "signals to others",
    "nobody": "programs run as the user `nobody` instead of root",
}


_HINTS = {
    "'bwrap'": "bubblewrap is not installed",
    "[Errno 1]": "a container, or the sysctl kernel.apparmor_restrict_unprivileged_userns, may forbid it",
    "[Errno 13]": "a container, or the sysctl kernel.apparmor_restrict_unprivileged_userns, may forbid it",
    "[Errno 28]": "the sysctl user.max_user_namespaces is 0 here",
    "[Errno 38]": "this kernel is too old, or a container hides the system call",
    "[Errno 95]": "Landlock is switched off at boot",
}
"""What is usually behind an error text."""


def _offer(layer: str, failure: str, used: bool) -> Offer:
    hints = [f" ({hint})" for error, hint in _HINTS.items() if error in failure]
    return Offer(
        layer=layer,
        works=not failure,
        used=used,
        about=f"{failure}{''.join(hints)}" or _BRINGS[layer],
    )


def _why_not_nobody() -> str:
    if os.getuid():
        return "not needed: you are an ordinary user"
    if not kernel.can_become_nobody():
        return "there is no other user in this container"
    return (
        "other users may not read the folder of the Python interpreter, and there are no "
        "namespaces to show it in"
    )


@functools.cache
def _strongest() -> tuple[str, ...]:
    """The strongest set of `_LAYERS` that works here; the weakest where none does."""
    return next((layers for layers in _LAYERS if not _trial(layers)), ())


@functools.cache
def _trial(layers: tuple[str, ...]) -> str:
    """Why no program can run under these layers here.

    Empty where one can, and can import what it has to read first.

    Raises:
        BusyError: the machine gave no answer. The next call asks again, so that one busy moment
            weakens nothing.
    """
    for pause_s in (*[_PAUSE_S] * (_NUM_TRIALS - 1), 0.0):
        result = _run("import colorsys", UnitTests(source=""), layers, Limits())
        if not result.was_disturbed:
            break
        time.sleep(pause_s)
    why = result.detail.removeprefix(verdict.NOT_RUN)
    if (
        result.was_disturbed and why not in verdict.DEATHS
    ):  # some systems kill whoever asks for a layer, and will do so each time
        raise BusyError(
            "this machine is too busy to say how programs can be confined here; try again "
            f"when it has more room: {why}"
        )
    return why


def _run(
    program: str, tests: UnitTests, layers: tuple[str, ...], limits: Limits
) -> ExecutionResult:
    start, nonce = time.monotonic(), secrets.token_hex(16)
    ours, theirs = socket.socketpair()
    with (
        ours,
        _text(program) as source,
        _text(json.dumps({"nonce": nonce, **asdict(tests)})) as asked,
        launch.tester(layers, limits, source.fileno(), asked.fileno(), theirs),
    ):
        output, in_time = _read(ours, nonce.encode(), start + limits.timeout_s)
    return ExecutionResult(
        **verdict.of(output, nonce, in_time)._asdict(), duration_s=time.monotonic() - start
    )


@contextlib.contextmanager
def _text(text: str) -> Iterator[IO[bytes]]:
    """An open file without a name that holds `text`."""
    with (
        os.fdopen(os.memfd_create("text"), "w+b")
        if sys.platform == "linux"
        else tempfile.TemporaryFile() as file
    ):
        file.write(text.encode("utf-8", "surrogatepass"))
        file.flush()
        yield file


def _read(records: socket.socket, nonce: bytes, deadline: float) -> tuple[bytes, bool]:
    """What the tester wrote, and whether it ended before the `deadline`.

    Past it, the tester is told to end the program.
    """
    output = _read_until(records, nonce, deadline)
    in_time = time.monotonic() < deadline
    if not in_time:
        with contextlib.suppress(OSError):
            records.shutdown(socket.SHUT_WR)
        output += _read_until(records, nonce, deadline + _GRACE_S)
    return output, in_time


def _read_until(records: socket.socket, nonce: bytes, deadline: float) -> bytes:
    """Output up to the record that all has ended, the end of the stream, the `deadline` or a size
    that no honest tester causes.
    """
    output, poll = b"", select.poll()
    poll.register(records, select.POLLIN)
    while len(output) < _MAX_RECORD_BYTES and nonce + b" ended" not in output:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        chunk = records.recv(_MAX_RECORD_BYTES)
        if not chunk:
            break
        output += chunk
    return output
