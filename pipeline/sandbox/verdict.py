"""What the records of a tester say became of its program."""

import errno
import re
import signal
from typing import Literal, NamedTuple

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


class Verdict(NamedTuple):
    """What the records say; see `ExecutionResult`."""

    status: Literal["passed", "failed", "timeout", "broken"]
    detail: str = ""
    limit: Literal["", "cpu", "wall"] = ""
    was_disturbed: bool = False


def of(output: bytes, nonce: str, in_time: bool) -> Verdict:
    """The verdict from the records.

    Lines without the nonce are a traceback of the tester's interpreter.
    """
    lines = output.decode("utf-8", "replace").splitlines()
    marked = [line.split(" ", 2)[1:] for line in lines if line.startswith(nonce + " ")]
    records = dict(reversed(marked))
    if "passed" in records:
        return Verdict("passed")
    if "failed" in records:
        return Verdict("failed", _reproducible(records["failed"]))
    if "cpu" in records:
        return Verdict("timeout", "used up its CPU time", "cpu")
    if "started" not in records or "broken" in records:
        others = [line for line in lines if not line.startswith(nonce)]
        return _not_run(records.get("broken") or "".join(others[-1:]), in_time)
    return (
        _early_end(records)
        if in_time
        else Verdict("timeout", "was still running at the deadline", "wall", was_disturbed=True)
    )


def _reproducible(detail: str) -> str:
    """`detail` without addresses of objects, which differ from run to run."""
    return re.sub(r"\bat 0x[0-9a-fA-F]+", "at 0x...", detail)


def _not_run(cause: str, in_time: bool) -> Verdict:
    """The verdict on a program that was not started, or whose tests cannot be run.

    Nothing it does leads here.
    """
    cause = cause or (DIED if in_time else "it had not started at the deadline")
    has_no_room = any(f"[Errno {number}]" in cause for number in _NO_ROOM)
    was_disturbed = has_no_room or not in_time or cause in (*DEATHS, NO_ANSWER)
    return Verdict("broken", NOT_RUN + _reproducible(cause), was_disturbed=was_disturbed)


def _early_end(records: dict[str, str]) -> Verdict:
    """The verdict on a program that left without one."""
    if "killed" in records:
        return Verdict(
            "failed",
            f"killed by {records['killed']}",
            was_disturbed=records["killed"] == signal.SIGKILL.name,
        )
    if "exited" in records:
        return Verdict("failed", f"left before its end with status {records['exited']}")
    if "closed" in records:
        return Verdict("failed", "closed its pipes before its end")
    return Verdict("failed", "its tester was killed", was_disturbed=True)
