"""What this machine can put around a program: the strongest sandbox, and each layer by itself."""

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.core.errors import PipelineError
from pipeline.sandbox import verdict
from pipeline.sandbox.confined import kernel
from pipeline.sandbox.launch import Limits, user
from pipeline.sandbox.run import LAYERS, Sandbox
from pipeline.sandbox.verdict import ExecutionResult

NUM_TRIALS = 3
"""How often a busy machine is asked whether a layer works."""
_TRIAL_LIMITS = Limits(timeout_s=30.0)
_BRINGS = {
    "namespaces": "no other processes, no network, a read-only root without home, run folder or "
    "/proc, a folder in memory",
    "bubblewrap": "the same by `bwrap`, where only that program may make namespaces",
    "landlock": "writes in its own folder alone, reads of little more than the interpreter, no "
    "TCP, no signals to others",
    "nobody": "programs run as the user `nobody` instead of root",
}
_FORBIDDEN = (
    "a container, or the sysctl kernel.apparmor_restrict_unprivileged_userns, may forbid it"
)
_HINTS = {
    "'bwrap'": "bubblewrap is not installed",
    "[Errno 1]": _FORBIDDEN,
    "[Errno 13]": _FORBIDDEN,
    "[Errno 28]": "the sysctl user.max_user_namespaces is 0 here",
    "[Errno 38]": "this kernel is too old, or a container hides the system call",
    "[Errno 95]": "Landlock is switched off at boot",
}
"""What is usually behind an error text."""


class BusyError(PipelineError):
    """This machine is too busy to say how programs can be confined here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One layer of confinement on this machine."""

    layer: str
    works: bool
    used: bool
    """Whether programs run under it: of namespaces and bubblewrap, one is enough."""
    about: str
    """What it brings, or why it does not work."""


@functools.cache
def strongest() -> Sandbox:
    """The sandbox with the strongest layers that work here. Tried once in each process.

    Raises:
        BusyError: the machine gave no answer.
    """
    return choose(obstacle)


def choose(obstacle: Callable[[tuple[str, ...]], str]) -> Sandbox:
    """The strongest sandbox whose layers have no obstacle; the weakest where all have."""
    return Sandbox(layers=next((layers for layers in LAYERS if not obstacle(layers)), ()))


@functools.cache
def obstacle(layers: tuple[str, ...]) -> str:
    """Why no program can run under these layers here; empty where one can.

    Raises:
        BusyError: the machine gave no answer. The next call asks again, so that one busy moment
            weakens nothing.
    """
    # Under its layers a program must be able to import what it has to read first.
    sandbox = Sandbox(layers=layers, limits=_TRIAL_LIMITS)
    return why_not(lambda: sandbox.run("import colorsys"))


def why_not(trial: Callable[[], ExecutionResult], pause_s: float = 1.0) -> str:
    """Why the program of a `trial` could not be run; empty where it could.

    A busy machine is asked again, after it was left alone for `pause_s`.

    Raises:
        BusyError: the machine gave no answer.
    """
    for left in reversed(range(NUM_TRIALS)):
        result = trial()
        if not result.was_disturbed:
            break
        time.sleep(pause_s if left else 0.0)
    reason = result.detail.removeprefix(verdict.NOT_RUN)
    # Some systems kill whoever asks for a layer, and will do so each time.
    if result.was_disturbed and reason not in verdict.DEATHS:
        raise BusyError(
            "this machine is too busy to say how programs can be confined here; try again "
            f"when it has more room: {reason}"
        )
    return reason


def offers() -> list[Offer]:
    """Each layer of confinement on this machine. Takes about a second.

    Raises:
        BusyError: the machine gave no answer.
    """
    layers = strongest().layers
    used = {*layers, *user(layers)}
    obstacles = {layer: obstacle((layer,)) for layer in ("namespaces", "bubblewrap", "landlock")}
    obstacles["nobody"] = "" if "nobody" in used else _why_not_nobody()
    return [
        Offer(
            layer=layer,
            works=not reason,
            used=layer in used,
            about=reason + _hints(reason) if reason else _BRINGS[layer],
        )
        for layer, reason in obstacles.items()
    ]


def _hints(reason: str) -> str:
    return "".join(f" ({hint})" for error, hint in _HINTS.items() if error in reason)


def _why_not_nobody() -> str:
    if os.getuid():
        return "not needed: you are an ordinary user"
    if not kernel.can_become_nobody():
        return "there is no other user in this container"
    return (
        "other users may not read the folder of the Python interpreter, and there are no "
        "namespaces to show it in"
    )
