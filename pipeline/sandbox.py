"""Run one untrusted Python program in a confined process and say whether it ran to its end.

Each program gets a fresh interpreter with the standard library alone, in its own session, with a scrubbed environment, an empty temporary
folder that is deleted afterwards, no input, discarded output, and limits on CPU time, memory, file size and open files. The wall-clock
deadline is kept here, by the parent. A program passes only if it reaches its end: the record of that carries a nonce, so neither exit
status 0 nor anything printed counts.

Where Linux allows it, two more layers are added; `confinement()` says which ones this machine offers:

* namespaces: no network at all, a folder in memory of bounded size, and one kill that reaches every descendant;
* Landlock: outside its folder a program writes nothing and reads little more than the interpreter; no TCP, no signals to others.

Not covered: a program that searches the interpreter's own memory can find the nonce, and one that returns objects with a false `__eq__`
can please a test; bugs of the kernel. A fork bomb lasts until the deadline where the user is root or namespaces are missing. Without
namespaces a program reaches the network by other protocols than TCP; without Landlock it reads and writes whatever the user can. Against a
determined author use a throw-away machine.
"""

import contextlib
import functools
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_CHILD = Path(__file__).with_name("_confined.py")
_PYTHON_FLAGS = ["-P", "-s", "-S", "-B"]
_LAYERS = (("namespaces", "landlock"), ("landlock",), ("namespaces",), ())
"""Sets of extra layers, strongest first. Landlock alone protects more than namespaces alone."""
_MAX_RECORD_BYTES = 1 << 16
_GRACE_S = 2.0
"""How long the supervisor may take to clear up after the deadline before it is killed too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """What became of one program."""

    status: Literal["passed", "failed", "timeout", "broken"]
    """passed: it ran to its end; failed: it raised, left early or was killed; timeout; broken: the sandbox could not run it."""
    detail: str
    """One line: the exception, the signal or the limit; empty where it passed."""
    limit: Literal["", "cpu", "wall"]
    """Which limit a timeout reached. CPU time is the program's own; the wall clock also depends on how busy the machine is."""
    duration_s: float
    """Wall-clock time from start to the end of all its processes."""


def run(program: str, *, timeout_s: float = 8.0, cpu_limit_s: int = 5, memory_mib: int = 1024) -> ExecutionResult:
    """The verdict on `program`, Python source text. Safe to call from several threads.

    The default limits are generous, since a busy machine must not fail a sound program: no reference program of HumanEval needs half
    a second.

    Args:
        program: runs as a module named `program`, not `__main__`.
        timeout_s: wall-clock time for everything, start-up of the interpreter included.
        cpu_limit_s: CPU time, whole seconds, of each process.
        memory_mib: address space of each process.
    """
    return _run(program, _layers(), timeout_s, cpu_limit_s, memory_mib)


def confinement() -> str:
    """The layers that programs run under on this machine, in words, to store beside the scores."""
    known = {"namespaces": "user, PID, network, IPC and mount namespaces", "landlock": "Landlock"}
    return ", ".join(["process limits", *(known[layer] for layer in _layers())])


@functools.cache
def _layers() -> tuple[str, ...]:
    """The strongest set of `_LAYERS` under which an empty program passes here; the weakest where none does."""
    works = (layers for layers in _LAYERS if _run("", layers, 30.0, 5, 1024).status == "passed")
    return next(works, ())


def _run(program: str, layers: tuple[str, ...], timeout_s: float, cpu_limit_s: int, memory_mib: int) -> ExecutionResult:
    start, nonce = time.monotonic(), secrets.token_hex(16).encode()
    arguments = [",".join(layers), str(cpu_limit_s), str(memory_mib)]
    with _folder() as folder, tempfile.TemporaryFile() as request:
        request.write(nonce + b"\n" + program.encode("utf-8", "surrogatepass"))
        request.seek(0)
        with _supervisor(arguments, folder, request.fileno()) as process:
            output, in_time = _read(process, nonce, start + timeout_s)
    duration_s = time.monotonic() - start
    status, detail, limit = _verdict(output, nonce, in_time)
    return ExecutionResult(status=status, detail=detail, limit=limit, duration_s=duration_s)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A private temporary folder, deleted at the end with whatever the program did to it."""
    folder = Path(tempfile.mkdtemp(prefix="datesweep-"))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Delete `folder`, also where a program took its permissions away, nested it too deep for `shutil.rmtree`, or deleted it."""
    with contextlib.suppress(OSError):
        folder.rmdir()  # mostly it is empty
        return
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # neither follows links
        subprocess.run([*command, "--", folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def _supervisor(arguments: list[str], folder: Path, request: int) -> Iterator[subprocess.Popen[bytes]]:
    """The process that confines and watches the program; it and its whole group are dead at the end."""
    # The real interpreter and not a link in a virtual environment, which the program could not read.
    command = [os.path.realpath(sys.executable), *_PYTHON_FLAGS, str(_CHILD), *arguments]
    with subprocess.Popen(
        command,
        stdin=request,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=_environment(folder),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:  # before the process is waited for, so that its id is still its own
            os.killpg(process.pid, signal.SIGKILL)


def _environment(folder: Path) -> dict[str, str]:
    """All that a program sees of the environment. The fixed hash seed gives sets one order, hence a program one verdict."""
    fixed = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    kept = {name: os.environ[name] for name in ["LD_LIBRARY_PATH"] if name in os.environ}  # some interpreters need it to start
    return fixed | kept


def _read(process: subprocess.Popen[bytes], nonce: bytes, deadline: float) -> tuple[bytes, bool]:
    """What the supervisor wrote, and whether it ended before the `deadline`; past it, the supervisor is told to end the program."""
    output = _read_until(process, nonce, deadline)
    in_time = time.monotonic() < deadline
    if not in_time:
        process.terminate()
        output += _read_until(process, nonce, deadline + _GRACE_S)
    return output, in_time


def _read_until(process: subprocess.Popen[bytes], nonce: bytes, deadline: float) -> bytes:
    """Output up to the record that all has ended, the end of the pipe, the `deadline` or a size that no honest program causes."""
    pipe, output = process.stdout, b""
    assert pipe is not None  # noqa: S101 - for the type checker; the process was opened with a pipe
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while len(output) < _MAX_RECORD_BYTES and nonce + b" ended" not in output:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        chunk = os.read(pipe.fileno(), _MAX_RECORD_BYTES)
        if not chunk:
            break
        output += chunk
    return output


Verdict = tuple[Literal["passed", "failed", "timeout", "broken"], str, Literal["", "cpu", "wall"]]


def _verdict(output: bytes, nonce: bytes, in_time: bool) -> Verdict:
    """Status, detail and limit from the records; lines without the nonce are the program's or a traceback of the supervisor."""
    lines = output.decode("utf-8", "replace").splitlines()
    marked = [line.split(" ", 2)[1:] for line in lines if line.startswith(nonce.decode() + " ")]
    records = dict(reversed(marked))
    if "passed" in records:
        return "passed", "", ""
    if "failed" in records:
        return "failed", records["failed"], ""
    if records.get("killed") == "SIGXCPU":
        return "timeout", "used up its CPU time", "cpu"
    if not in_time:
        return "timeout", "was still running at the deadline", "wall"
    return _early_end(records, lines)


def _early_end(records: dict[str, str], lines: list[str]) -> Verdict:
    """The verdict on a program that left without one."""
    if "started" not in records or not records.keys() & {"killed", "exited"}:
        cause = records.get("broken") or (lines[-1] if lines else "its supervisor died")
        return "broken", f"the sandbox could not run the program: {cause}", ""
    if "killed" in records:
        return "failed", f"killed by {records['killed']}", ""
    return "failed", f"left before its end with status {records['exited']}", ""
