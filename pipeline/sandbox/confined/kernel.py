"""What the confined processes ask of Linux: namespaces, a root of their own, limits.

Everything but the limits does nothing, or raises OSError, on other systems. Start-up is paid by
every program where there is no fork server, so pathlib, typing and dataclasses, which would double
it, stay out of this package.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Iterator
from itertools import accumulate

WORK = "/program"
"""The private folder, where the root is our own."""
NOBODY = 65534
"""The user that programs run as where the caller is root."""
FILE_SIZE_BYTES = 16 << 20
DISK_MIB = 64
NUM_FILES = 4096
"""Limits on what a program may write; the number of files and their sum are bounded where its
folder lives in memory."""
NUM_PROCESSES = 64
"""Processes and threads. The kernel applies it to ordinary users alone, not to root."""

READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)
"""What a program may read beside the interpreter. Not /proc, /home, /etc or /var: they hold other
people's data."""

# Numbers of <sched.h>, <sys/mount.h>, <linux/mount.h> and <linux/prctl.h>; system calls from 424 on
# have one number everywhere.
CLONE_NEWNS = 0x20000
CLONE_NEWIPC = 0x8000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
ALL_NAMESPACES = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 2, 4, 0x1000, 0x4000, 0x40000, 2
MOUNT_SETATTR = 442
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
KEYCTL = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine) if sys.maxsize >> 32 else None
KEYCTL_JOIN_SESSION_KEYRING = 1

libc = ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: object) -> int:
    """The result of a C function of Linux.

    Raises:
        OSError: it returned -1, or the system is another.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, f"{function}: {os.strerror(errno.ENOSYS)}")
    result = int(getattr(libc, function)(*arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), f"{function}: {os.strerror(ctypes.get_errno())}")
    return result


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process, where the system is Linux."""
    if sys.platform == "linux":
        call("prctl", option, value, 0, 0, 0)


def silence() -> None:
    """Point standard input, output and errors at /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def die_first() -> None:
    """Where memory runs out, let the kernel end this process and its children before any other."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


# Namespaces and the root


def enter_namespaces(kinds: int, proc: int) -> None:
    """Own new namespaces of these `kinds`, under the same user id.

    A PID namespace begins with the next child.

    Args:
        kinds: CLONE_ flags, CLONE_NEWUSER among them.
        proc: descriptor of /proc, which need not be mounted any more.
    """
    uid, gid = os.getuid(), os.getgid()
    if kinds & CLONE_NEWIPC:
        # Root alone may write the limits of an IPC namespace.
        _unshare(CLONE_NEWUSER | CLONE_NEWIPC, proc, f"0 {uid} 1", f"0 {gid} 1")
        _forbid_ipc(proc)
        _unshare(kinds & ~CLONE_NEWIPC, proc, f"{uid} 0 1", f"{gid} 0 1")
    else:
        _unshare(kinds, proc, f"{uid} {uid} 1", f"{gid} {gid} 1")


def _unshare(kinds: int, proc: int, uid_map: str, gid_map: str) -> None:
    call("unshare", kinds)
    for name, text in {"setgroups": "deny", "uid_map": uid_map, "gid_map": gid_map}.items():
        _write(proc, f"self/{name}", text)


def _forbid_ipc(proc: int) -> None:
    """Allow no System V shared memory, queues or semaphores, which no limit of a process counts.

    Nothing where /proc/sys is read-only.
    """
    for name, text in {"shmall": "0", "msgmni": "0", "sem": "0 0 0 0"}.items():
        with contextlib.suppress(OSError):
            _write(proc, f"sys/kernel/{name}", text)


def forbid_namespaces(proc: int) -> None:
    """Let nobody in this user namespace make another, whose owner would reach more of the kernel.

    Nothing where /proc/sys is read-only.
    """
    with contextlib.suppress(OSError):
        _write(proc, "sys/user/max_user_namespaces", "0")


def _write(folder: int, name: str, text: str) -> None:
    file = os.open(name, os.O_WRONLY, dir_fd=folder)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def enter_root() -> None:
    """Change to a read-only root that shows `readable()` and an empty `WORK`, and nothing else.

    No /proc, no sockets, no /tmp. Needs a mount namespace of our own and Linux 5.12, which first
    could make a whole tree read-only.
    """
    base = "/proc"  # a folder that every system has and that holds nothing we show
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"tmpfs", base.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755,size=1m")
    for path in sorted(map(os.path.realpath, readable())):  # parents before what is beneath them
        _show(path, base)
    for path in readable():
        if not os.path.lexists(base + path):  # a link such as /lib
            os.makedirs(os.path.dirname(base + path), exist_ok=True)
            os.symlink(os.path.realpath(path), base + path)
    os.mkdir(base + WORK)
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    call("syscall", MOUNT_SETATTR, AT_FDCWD, base.encode(), AT_RECURSIVE, attributes, size)
    os.chdir(base)
    call("pivot_root", b".", b".")
    call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def readable() -> Iterator[str]:
    """The interpreter and `READABLE`, as far as they exist."""
    paths = {*READABLE, sys.base_prefix, sys.base_exec_prefix, os.path.dirname(os.__file__)}
    return filter(os.path.exists, sorted(paths))


def _show(path: str, base: str) -> None:
    """Make `path`, which is no link, appear beneath `base`, unless it does already."""
    target = base + path
    if os.path.exists(target):
        return
    if os.path.isdir(path):
        os.makedirs(target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT, 0o600))
    call("mount", path.encode(), target.encode(), None, MS_BIND | MS_REC, None)


def enter_work() -> None:
    """Change to `WORK`, now an empty folder in memory of bounded size."""
    options = b"mode=700,size=%dm,nr_inodes=%d" % (DISK_MIB, NUM_FILES)
    call("mount", b"tmpfs", WORK.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options)
    os.chdir(WORK)


# Privileges and limits


def leave_keys() -> None:
    """Own an empty session keyring instead of the caller's, unless nobody can reach any."""
    try:
        if KEYCTL is not None:
            call("syscall", KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, None)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS):
            raise


def become_nobody() -> None:
    """Give up being root for good, in favour of a user who owns nothing."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def can_become_nobody() -> bool:
    """Whether this process is root, and not of a namespace without such a user."""
    with contextlib.suppress(OSError):
        maps = [_ids("uid_map"), _ids("gid_map")]
        return os.getuid() == 0 and all(
            any(first <= NOBODY < first + count for first, count in ids) for ids in maps
        )
    return False


def _ids(name: str) -> list[tuple[int, int]]:
    """First id and number of ids, for each range that there is in this user namespace."""
    with open(f"/proc/self/{name}") as file:
        return [(int(first), int(count)) for first, _, count in map(str.split, file)]


def anyone_may_read_python() -> bool:
    """Whether the folders down to the standard library are open to all users."""
    library = os.path.realpath(os.path.dirname(os.__file__))
    parents = accumulate(library.split("/")[1:], "{}/{}".format, initial="")
    return all(os.stat(path or "/").st_mode & 0o005 == 0o005 for path in parents)


def give_up_privileges() -> None:
    """Gain none by executing a file, and clear all capability sets.

    A namespace's owner has every one in it, and root has them anyway.
    """
    if sys.platform == "linux":
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        call("capset", struct.pack("=Ii", 0x20080522, 0), bytes(24))


def set_limits(cpu_limit_s: int, memory_mib: int, num_processes: int | None) -> None:
    """Lower the resource limits of this process and all it starts."""
    limit(resource.RLIMIT_CPU, cpu_limit_s)
    limit(resource.RLIMIT_FSIZE, FILE_SIZE_BYTES)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 256)
    if num_processes is not None:
        limit(resource.RLIMIT_NPROC, num_processes)
    if sys.platform == "linux":  # macOS refuses it
        limit(resource.RLIMIT_AS, memory_mib << 20)


def limit(kind: int, most: int) -> None:
    """Set a resource limit for good, or keep the present one where it is lower."""
    _, present = resource.getrlimit(kind)
    ceiling = sys.maxsize if present == resource.RLIM_INFINITY else present
    resource.setrlimit(kind, (min(most, ceiling), min(most, ceiling)))


# Processes


def open_children() -> int:
    """A descriptor of the list of this process's children, to be opened while /proc can be read.

    -1 where the kernel keeps none.
    """
    with contextlib.suppress(OSError):
        return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    return -1


def kill_children(listed: int) -> None:
    """Kill all that descends from this process.

    A subreaper inherits all of it, even from sessions of their own.

    The list may miss a child that is being born; that there is none left is only sure when there is
    none to wait for.

    Args:
        listed: from `open_children`.
    """
    with contextlib.suppress(ChildProcessError):
        while True:
            # All of them before waiting for one, or the others go on forking.
            for pid in os.pread(listed, 1 << 20, 0).split():
                os.kill(int(pid), signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.0005)
