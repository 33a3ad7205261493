"""Runs one untrusted program confined. Started by `sandbox.run` as a script in a fresh interpreter; imports the standard library alone.

    python -P -s -S -B _confined.py FEATURES CPU_LIMIT_S MEMORY_MIB  <request  >records

`request` is a nonce, a line feed and the program. `records` are lines of the nonce, a kind and a detail:

* started: the program is confined and begins;
* passed, failed: it ran to its end, or raised;
* killed, exited: a signal ended it, or it left by itself;
* ended: none of its processes is left.

There are up to three processes. The supervisor stays outside and ends everything on SIGTERM. With the feature `namespaces` an init process
is the first in a new PID namespace, so that its end is everyone's. The program runs in the last, the only one that executes foreign code.
"""

# Start-up is paid by every program, so pathlib, typing and dataclasses, which would double it, stay out.
# ruff: noqa: PTH109, PTH112, PTH120, PTH123

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
import types
from collections.abc import Callable

FILE_SIZE_BYTES = 16 << 20
DISK_MIB = 64
NUM_FILES = 4096
"""Limits on what a program may write; the number of files and their sum are bounded where its folder lives in memory."""
NUM_PROCESSES = 64
"""The kernel applies it to ordinary users alone, not to root."""

READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)
"""What Landlock leaves readable beside the interpreter. Not /proc, /home, /etc or /var: they hold other people's data."""

# Numbers of <sched.h>, <sys/mount.h> and <linux/prctl.h>.
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38

# Numbers of <linux/landlock.h>; the system calls have these numbers on every architecture.
# https://docs.kernel.org/userspace-api/landlock.html
LANDLOCK_CREATE, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
NUM_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Rights on files by Landlock version; 16 from version 5 on."""

libc = ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: object) -> int:
    """The result of a C function.

    Raises:
        OSError: it returned -1.
    """
    result = int(getattr(libc, function)(*arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), f"{function}: {os.strerror(ctypes.get_errno())}")
    return result


class Request:
    """What is to be run, and the private pipe to the parent."""

    def __init__(self, features: set[str], cpu_limit_s: int, memory_mib: int) -> None:
        """Read nonce and program from standard input and take standard output for the records."""
        self.features, self.cpu_limit_s, self.memory_mib = features, cpu_limit_s, memory_mib
        nonce, _, source = sys.stdin.buffer.read().partition(b"\n")
        self.source, self._nonce = source, nonce
        self._records = os.dup(1)

    def record(self, kind: str, detail: object = "") -> None:
        """Write one record; a line this short goes through a pipe in one piece."""
        text = " ".join(str(detail).split())[:300].encode("utf-8", "replace")
        os.write(self._records, b"%s %s %s\n" % (self._nonce, kind.encode(), text))


def fork(request: Request, role: Callable[[Request], None]) -> int:
    """The process id of a child that plays `role` and ends; an error outside the program is recorded as `broken`."""
    child = os.fork()
    if child:
        return child
    try:
        role(request)
    except Exception as error:
        request.record("broken", error)
    finally:
        os._exit(0)


# The supervisor


def supervise(request: Request) -> None:
    """Run the program and see to it that nothing of it remains, also when told to stop by SIGTERM or by the parent's death."""
    silence()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # until there is something to stop
    if sys.platform == "linux":
        call("prctl", PR_SET_PDEATHSIG, signal.SIGTERM)
        call("prctl", PR_SET_CHILD_SUBREAPER, 1)
    if "namespaces" in request.features:
        enter_namespaces()
    child = fork(request, be_init if "namespaces" in request.features else be_program)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    _, status = os.waitpid(child, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "namespaces" not in request.features:
        record_end(request, status)
        kill_orphans()


def silence() -> None:
    """Point standard input, output and errors at /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def enter_namespaces() -> None:
    """Own new user, PID, network, IPC and mount namespaces, under the same user id and without a network.

    The PID namespace begins with the next child.
    """
    maps = {"setgroups": "deny", "uid_map": f"{os.getuid()} {os.getuid()} 1", "gid_map": f"{os.getgid()} {os.getgid()} 1"}
    call("unshare", CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS)
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def record_end(request: Request, status: int) -> None:
    """Say how the program's process ended, from its wait `status`."""
    if os.WIFSIGNALED(status):
        request.record("killed", signal.Signals(os.WTERMSIG(status)).name)
    else:
        request.record("exited", os.WEXITSTATUS(status))


def kill_orphans() -> None:
    """Kill what the program left behind; as a subreaper this process inherits all of it, even from sessions of its own."""
    while pids := children():
        for pid in pids:  # all of them before waiting for one, or the others go on forking
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def children() -> list[int]:
    """Process ids of this process's children; none where the kernel does not list them."""
    with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
    return []


# The init process of the namespace


def be_init(request: Request) -> None:
    """Run the program in a folder that lives in memory, and end with it; the kernel then kills whatever it started."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    folder = os.fsencode(os.getcwd())
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"tmpfs", folder, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=700,size=%dm,nr_inodes=%d" % (DISK_MIB, NUM_FILES))
    os.chdir(folder)
    program, pid = fork(request, be_program), 0
    while pid != program:  # an init process also inherits orphans
        pid, status = os.wait()
    record_end(request, status)


# The program's process


def be_program(request: Request) -> None:
    """Give up every privilege, run the program and record whether it reached its end."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if sys.platform == "linux":
        call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        drop_capabilities()
    if "landlock" in request.features:
        restrict_files()
    set_limits(request.cpu_limit_s, request.memory_mib, "namespaces" in request.features)
    request.record("started")
    pid, verdict = os.getpid(), ("passed", "")
    try:
        execute(request.source)
    except BaseException as error:
        verdict = ("failed", describe(error))
    if os.getpid() == pid:  # a copy that the program forked has no say
        request.record(*verdict)


def drop_capabilities() -> None:
    """Clear all capability sets; the owner of a new namespace has every one in it, and root has them anyway."""
    call("capset", struct.pack("=Ii", 0x20080522, 0), bytes(24))


def execute(source: bytes) -> None:
    """Execute the program as a module of its own.

    Its name is not `__main__`: code that a model puts under that guard is a demonstration, and waits for input or prints.
    """
    module = types.ModuleType("program")
    sys.modules["program"], sys.argv = module, ["program.py"]
    exec(compile(source.decode("utf-8", "surrogatepass"), "program.py", "exec", dont_inherit=True), vars(module))  # noqa: S102 - the purpose


def describe(error: BaseException) -> str:
    """The error's type and message, whatever its own methods do."""
    with contextlib.suppress(BaseException):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


def set_limits(cpu_limit_s: int, memory_mib: int, own_namespace: bool) -> None:
    """Lower the resource limits of this process and all it starts."""
    limit(resource.RLIMIT_CPU, cpu_limit_s, cpu_limit_s + 1)
    limit(resource.RLIMIT_FSIZE, FILE_SIZE_BYTES)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 256)
    if own_namespace:  # elsewhere it would count all processes of the user
        limit(resource.RLIMIT_NPROC, NUM_PROCESSES)
    if sys.platform == "linux":  # macOS refuses it
        limit(resource.RLIMIT_AS, memory_mib << 20)


def limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a resource limit, or keep the present one where it is lower."""
    _, present = resource.getrlimit(kind)
    ceiling = sys.maxsize if present == resource.RLIM_INFINITY else present
    resource.setrlimit(kind, (min(soft, ceiling), min(hard or soft, ceiling)))


def landlock_version() -> int:
    """The kernel's Landlock version, from 1.

    Raises:
        OSError: it has none, or it is switched off.
    """
    return call("syscall", LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))


def restrict_files() -> None:
    """Allow writing in the working folder only and reading there, in the interpreter and in `READABLE`; no TCP, no signals outwards."""
    version = landlock_version()
    everything = (1 << NUM_FS_RIGHTS.get(version, 16)) - 1
    tcp, scopes = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = call("syscall", LANDLOCK_CREATE, struct.pack("=QQQ", everything, tcp, scopes)[:size], ctypes.c_size_t(size), 0)
    allow(ruleset, ".", everything)
    allow(ruleset, os.devnull, READ_FILE | WRITE_FILE)
    for path in {*READABLE, sys.base_prefix, sys.base_exec_prefix, os.path.dirname(os.__file__)}:
        allow(ruleset, path, (EXECUTE | READ_FILE | READ_DIR) if os.path.isdir(path) else READ_FILE)
    call("syscall", LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def allow(ruleset: int, path: str, rights: int) -> None:
    """Add to the `ruleset` what may be done beneath `path`, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        call("syscall", LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
        os.close(fd)


def main() -> None:
    """Read the request, run it, and say that all has ended."""
    request = Request(set(sys.argv[1].split(",")), int(sys.argv[2]), int(sys.argv[3]))
    try:
        supervise(request)
    except Exception as error:
        request.record("broken", error)
    request.record("ended")
    os._exit(0)


if __name__ == "__main__":
    main()
