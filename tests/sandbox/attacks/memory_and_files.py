"""Programs that fill memory and disks, or leave files behind."""

from tests.sandbox.attacks.base import FILES, ROOT, cheats, held, leaves

MEMORY_AND_FILES = [
    cheats(
        "a memory bomb",
        """
        x = []
        while True: x.append(bytearray(1 << 24))
        """,
    ),
    cheats(
        "a memory bomb of small objects",
        """
        x = []
        while True: x = [x, x]
        """,
        expected="failed timeout",
    ),
    cheats("one huge allocation", "bytearray(10**13)"),
    cheats("a huge integer", "def f(n): return 1 << (1 << 34)"),
    cheats(
        "a disk filler",
        "for i in range(10**6): open(f'x{i}', 'wb').write(bytes(1 << 23))",
        needs=ROOT,
    ),
    cheats(
        "many files",
        "for i in range(10**6): open(f'x{i}', 'w').close()",
        expected="failed timeout",
        needs=ROOT,
    ),
    cheats("a huge file", "open('big', 'wb').write(bytes(1 << 25))"),
    held(
        "a sparse file beyond the limit",
        "os.truncate(os.open('s', os.O_CREAT | os.O_RDWR), 1 << 40)",
    ),
    held(
        "segments of shared memory",
        "must(libc.shmget(0, ctypes.c_size_t(1 << 20), 0o1600))",
        needs=("sysctl",),
    ),
    held("queues of messages", "must(libc.msgget(0, 0o1600))", needs=("sysctl",)),
    held("all descriptors", "while True: os.open('/dev/null', 0)"),
    leaves(
        "huge output",
        "for _ in range(500): print('x' * 10**5); print('y' * 10**5, file=sys.stderr)",
    ),
    leaves("a tree a thousand folders deep", "for _ in range(1000): os.mkdir('d'); os.chdir('d')"),
    leaves(
        "files without permissions",
        "os.mkdir('d'); open('d/x', 'w'); os.chmod('d', 0); os.chmod('.', 0)",
    ),
    leaves(
        "the folder renamed or removed",
        """
        try: os.rename(os.getcwd(), os.getcwd() + '-moved')
        except OSError: pass
        try: os.rmdir(os.getcwd())
        except OSError: pass
        """,
        needs=FILES,
    ),
    leaves("links out of the folder", "os.symlink('/', 'root'); os.symlink(OUTSIDE, 'out')"),
    held(
        "writing through a link",
        """
        os.symlink(OUTSIDE, 'link')
        open('link/new', 'w')
        """,
        needs=FILES,
    ),
    held("a hard link to a file outside", "os.link(OUTSIDE + '/kept', 'kept')", needs=FILES),
    held(
        "moving a file out",
        """
        open('x', 'w').close()
        os.rename('x', OUTSIDE + '/x')
        """,
        needs=FILES,
    ),
    held("removing a file outside", "os.remove(OUTSIDE + '/kept')", needs=FILES),
    held(
        "writing in other temporary folders",
        """
        for d in ('/tmp', '/var/tmp', '/dev/shm', '/run', '/root', '/home', '/usr', '/'):
            try: open(d + '/' + MARK, 'w')
            except OSError as error: last = error
            else: break
        else: raise last
        """,
        needs=FILES,
    ),
    held(
        "shared memory with a name",
        """
        from multiprocessing import shared_memory
        shared_memory.SharedMemory(MARK, create=True, size=9)
        """,
        needs=FILES,
        errors="OSError, ImportError",
    ),
    held(
        "writing in the interpreter's folder",
        "open(os.path.dirname(os.__file__) + '/' + MARK, 'w')",
        needs=FILES,
    ),
]
