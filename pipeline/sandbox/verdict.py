"""What the records of a tester say became of its program."""

import errno
import re
import signal
from dataclasses import dataclass
from typing import Literal

from pipeline.sandbox.fork_server import ENDED, NO_ANSWER

NOT_RUN = "the sandbox could not run the program: "
DIED = "its tester died"
DEATHS = (DIED, ENDED)
_NO_ROOM = (
    errno.EAGAIN,
    errno.ENOMEM,
    errno.ENFILE,
    errno.EMFILE,
    errno.ENOBUFS,
    errno.EDQUOT,
    errno.EPIPE,
    errno.ECONNRESET,
)
"""Errors that say something about this moment rather than this machine."""


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What became of one program."""

    status: Literal["passed", "failed", "timeout", "broken"]
    """passed: it and its tests ran to their end; failed: it raised, left early or was killed;
    timeout; broken: it could not be run here."""
    detail: str = ""
    """One line: the exception, the signal or the limit; empty where it passed."""
    limit: Literal["", "cpu", "wall"] = ""
    """Which limit a timeout reached. CPU time is the program's own; the wall clock also depends on
    how busy the machine is."""
    was_disturbed: bool = False
    """Whether something beside the program may have decided this, so that another try is due.

    The wall clock, a machine without room to start it, or the end of its process or its tester by a
    signal that it may not have sent itself, as where memory runs out.
    """
    duration_s: float = 0.0
    """Wall-clock time from start to the end of all its processes."""


def of(output: bytes, nonce: str, *, in_time: bool) -> ExecutionResult:
    """The verdict from the records; lines without the nonce are a traceback of the tester."""
    lines = output.decode("utf-8", "replace").splitlines()
    marked = [line.split(" ", 2)[1:] for line in lines if line.startswith(nonce + " ")]
    records = dict(reversed(marked))
    if "passed" in records:
        return ExecutionResult("passed")
    if "failed" in records:
        return ExecutionResult("failed", _reproducible(records["failed"]))
    if "cpu" in records:
        return ExecutionResult("timeout", "used up its CPU time", "cpu")
    if "started" not in records or "broken" in records:
        others = [line for line in lines if not line.startswith(nonce)]
        return _not_run(records.get("broken") or "".join(others[-1:]), in_time)
    if in_time:
        return _early_end(records)
    detail = "was still running at the deadline"
    return ExecutionResult("timeout", detail, "wall", was_disturbed=True)


def _reproducible(detail: str) -> str:
    """`detail` without addresses of objects, which differ from run to run."""
    return re.sub(r"\bat 0x[0-9a-fA-F]+", "at 0x...", detail)


def _not_run(cause: str, in_time: bool) -> ExecutionResult:
    """The verdict on a program that was not started, or whose tests cannot be run.

    Nothing it does leads here.
    """
    cause = cause or (DIED if in_time else "it had not started at the deadline")
    has_no_room = any(f"[Errno {number}]" in cause for number in _NO_ROOM)
    was_disturbed = has_no_room or not in_time or cause in (*DEATHS, NO_ANSWER)
    return ExecutionResult("broken", NOT_RUN + _reproducible(cause), was_disturbed=was_disturbed)


def _early_end(records: dict[str, str]) -> ExecutionResult:
    """The verdict on a program that left without one."""
    if name := records.get("killed"):
        is_kill = name == signal.SIGKILL.name
        return ExecutionResult("failed", f"killed by {name}", was_disturbed=is_kill)
    if "exited" in records:
        return ExecutionResult("failed", f"left before its end with status {records['exited']}")
    if "closed" in records:
        return ExecutionResult("failed", "closed its pipes before its end")
    return ExecutionResult("failed", "its tester was killed", was_disturbed=True)
