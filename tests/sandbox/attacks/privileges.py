"""Programs that want more rights than they have."""

from tests.sandbox.attacks.base import held

PRIVILEGES = [
    held(
        "raising the limits back",
        """
        import resource
        resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))
        """,
        errors="OSError, ValueError",
    ),
    held(
        "raising the memory limit back",
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        """,
        errors="OSError, ValueError",
    ),
    held("becoming root", "os.setresuid(0, 0, 0) if os.getuid() else os.setresuid(1, 1, 1)"),
    held("a better priority", "os.nice(-5)"),
    held("real-time scheduling", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9))"),
    held("chroot", "os.mkdir('r'); os.chroot('r')"),
    held("a device file", "os.mknod('disk', 0o60666, os.makedev(254, 0))"),
    held(
        "a file with the set-user-id bit",
        """
        import stat, subprocess
        import shutil
        shutil.copy('/bin/true', 't'); os.chown('t', 0, 0); os.chmod('t', 0o4755)
        assert os.getuid()
        os.setuid(0)
        """,
        errors="OSError, AssertionError",
    ),
    held("ptrace", "if libc.ptrace(16, os.getppid() or CALLER, None, None) == -1: raise OSError"),
    held(
        "reading the parent's memory by a system call",
        """
        place = (ctypes.c_size_t * 2)(id(libc), 8)
        must(libc.process_vm_readv(os.getppid() or CALLER, place, 1, place, 1, 0))
        """,
    ),
    held(
        "the parent's descriptors by a system call",
        """
        pid = os.pidfd_open(os.getppid() or CALLER)
        for fd in range(3, 20):
            try: must(libc.syscall(438, pid, fd, 0))
            except OSError as error: last = error
            else: break
        else: raise last
        """,
    ),
    held(
        "a user namespace of its own",
        "if libc.unshare(0x10000000) == -1: raise OSError",
        needs=("sysctl",),
    ),
    held("a mount namespace of its own", "if libc.unshare(0x20000) == -1: raise OSError"),
    held("a mount", "if libc.mount(b'tmpfs', b'.', b'tmpfs', 0, None) == -1: raise OSError"),
    held("an unmount", "if libc.umount2(b'/program', 2) == -1: raise OSError"),
    held("another root", "if libc.pivot_root(b'.', b'.') == -1: raise OSError"),
    held(
        "a host name",
        """
        import socket
        socket.sethostname(MARK)
        """,
    ),
    held(
        "the clock",
        """
        import time
        time.clock_settime(time.CLOCK_REALTIME, 0)
        """,
    ),
]
