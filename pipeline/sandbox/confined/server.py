"""The fork server: a started interpreter behind a root of its own, which forks off testers.

It executes nothing of anyone's and reads no request, so there is nothing in it that one program
could leave to the next.
"""

import contextlib
import gc
import os
import signal
import socket

from pipeline.sandbox.confined import kernel
from pipeline.sandbox.confined.program import describe
from pipeline.sandbox.confined.remote import Request, play
from pipeline.sandbox.confined.tester import be_tester

PRELOADED = (
    "bisect collections copy datetime decimal fractions functools hashlib heapq itertools json "
    "math operator random re statistics string time typing"
)
"""What programs often import. They still import it themselves, and `random` seeds itself anew in
each process."""
READY = b"ready"


def serve(control: socket.socket) -> None:
    """Fork a tester for each request on `control`, until its other end is closed.

    A request is the text "LAYERS LIMITS" with three descriptors: the program, the tests, and where
    the records go.
    """
    try:
        proc = enter()
    except Exception as error:
        control.send(describe(error).encode())
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # leave no zombies
    gc.collect()
    gc.freeze()  # so that collections in the children copy no pages
    control.send(READY)
    while True:
        text, fds, _, _ = socket.recv_fds(control, 4096, 3)
        if not text:
            return
        _start(text.decode(), fds, proc, control)


def _start(text: str, fds: list[int], proc: int, control: socket.socket) -> None:
    server = os.getpid()
    try:
        if not os.fork():
            control.close()
            play(lambda: _be_child(text, fds, proc, server))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(fds[2], describe(error).encode())
    for fd in fds:
        os.close(fd)


def _be_child(text: str, fds: list[int], proc: int, server: int) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    if os.getppid() == server:
        layers, limits = text.split()
        be_tester(Request(layers, limits, *fds), proc)


def enter() -> int:
    """Put up the walls that all programs share.

    The result is a descriptor of /proc, which they cannot see any more.
    """
    for name in PRELOADED.split():
        __import__(name)
    proc, can_change = os.open("/proc", os.O_PATH), kernel.can_become_nobody()
    if os.getuid() == 0:
        kernel.call("unshare", kernel.CLONE_NEWNS)
    else:
        kernel.enter_namespaces(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS, proc)
    kernel.enter_root()
    if can_change:
        kernel.become_nobody()
        # Or it could not name the users of the namespaces of its children.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    return proc
