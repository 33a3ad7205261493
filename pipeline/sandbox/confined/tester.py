"""The tester: confines one program, executes the tests, never the program, and writes records."""

# ruff: noqa: S102 - executing the tests is the purpose

import os
import signal
from typing import Any

from pipeline.sandbox.confined import kernel, landlock
from pipeline.sandbox.confined.program import describe
from pipeline.sandbox.confined.remote import BrokenError, Ended, Program, Request

GRACE_S = 2
"""How long the tester may take to clear up after the deadline before the kernel ends it."""


def be_tester(request: Request, proc: int = -1) -> None:
    """Run the program and its tests, write the records, and leave nothing of the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # The caller keeps the deadline; this is for the case that the caller is gone.
    signal.alarm(request.timeout_s + GRACE_S)
    try:
        enter(request, proc)
        program = Program(request, lambda: confine(request))
    except Exception as error:
        request.read_tests()
        request.record("broken", describe(error))
    else:
        tests = request.read_tests()
        kernel.set_limits(request.cpu_limit_s, request.memory_mib, None)
        if not examine(request, program, tests):
            program.record_end(request)
        program.kill(request.children)
    request.record("ended")


def examine(request: Request, program: Program, tests: dict[str, Any]) -> bool:
    """Record what becomes of the program.

    False where it, or its time, ended before there was a verdict.
    """
    try:
        program.start()
        request.record("started")
        program.receive()
        run_tests(program, **tests)
    except Ended:
        return False
    except BrokenError as error:
        request.record("broken", error)
    except BaseException as error:
        request.record("failed", getattr(error, "description", None) or describe(error))
    else:
        request.record("passed")
    return True


def run_tests(program: Program, given: str, source: str, functions: list[str]) -> None:
    """Execute `given`, then `source` with the program's functions in place of the given ones."""
    names: dict[str, Any] = {"__name__": "tests"}
    exec(compile(given, "given.py", "exec", dont_inherit=True), names)
    names |= {name: program.function(name) for name in functions}
    exec(compile(source, "tests.py", "exec", dont_inherit=True), names)


def enter(request: Request, proc: int) -> None:
    """Put up all walls but the limits; a program started hereafter is behind them."""
    kernel.leave_keys()
    if "namespaces" in request.layers:
        kernel.enter_namespaces(kernel.ALL_NAMESPACES, proc)
        kernel.forbid_namespaces(proc)
        kernel.enter_work()
    else:
        request.children = kernel.open_children()
        if "nobody" in request.layers:
            os.chown(".", kernel.NOBODY, kernel.NOBODY)
            kernel.become_nobody()
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # nobody looks into our memory, nor at our descriptors
    kernel.give_up_privileges()
    if "landlock" in request.layers:
        landlock.restrict_files(["/"] if "namespaces" in request.layers else kernel.readable())


def confine(request: Request) -> None:
    """The walls that only the program is behind.

    Its tester may not be its fellow where it can see it.
    """
    if "landlock" in request.layers and "namespaces" not in request.layers:
        landlock.restrict_files(kernel.readable())
    # Elsewhere it would count all processes of the user; and nothing counts those of root.
    has_own_count = request.layers & {"namespaces", "bubblewrap", "nobody"} and os.getuid()
    num_processes = kernel.NUM_PROCESSES if has_own_count else None
    kernel.set_limits(request.cpu_limit_s, request.memory_mib, num_processes)
