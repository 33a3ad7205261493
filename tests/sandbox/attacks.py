"""Hostile programs: what each tries, under which layers it can be held, and what must become of it.

All begin with `TOOLS` and are judged by `TESTS`. One that is expected to pass looks for a hole in
the walls, fails if it finds one, and answers rightly otherwise.
"""

from dataclasses import dataclass
from textwrap import dedent, indent

from pipeline.sandbox.run import UnitTests

TESTS = UnitTests(source="for n in range(3, 9):\n    assert f(n) == n * n + 1\n", functions=["f"])
SOUND = "def f(n):\n    return n * n + 1\n"
WRONG = "def f(n):\n    return 0\n"

TOOLS = """
import builtins, ctypes, gc, json, os, re, resource, signal, socket, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

def tell(text):
    for fd in range(64):
        try:
            os.write(fd, text)
        except OSError:
            pass

def must(result):
    if result == -1:
        raise OSError(ctypes.get_errno())
"""
"""Constants come before it: OUTSIDE and HOME, folders of the caller; CALLER, its process; TCP and
UDP, its ports; MARK, a name."""

ANY: tuple[str, ...] = ()
ROOT = ("namespaces", "bubblewrap")
"""Layers with a root of their own."""
FILES = (*ROOT, "landlock")
SCOPES = (*ROOT, "landlock 6")
"""Layers that keep signals and abstract sockets in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One hostile program."""

    name: str
    program: str
    expected: str
    """Words: the statuses that are right."""
    needs: tuple[str, ...]
    """Layers of which one must be there, or the attack cannot be held."""


def _cheats(
    name: str, program: str, *, expected: str = "failed", needs: tuple[str, ...] = ANY
) -> Attack:
    """A program that does not know the answers: its `f` is wrong unless it defines another."""
    return Attack(
        name=name, program=TOOLS + WRONG + dedent(program), expected=expected, needs=needs
    )


def _leaves(name: str, program: str, *, needs: tuple[str, ...] = ANY) -> Attack:
    """A sound program that leaves something behind."""
    return Attack(
        name=name, program=TOOLS + dedent(program) + "\n" + SOUND, expected="passed", needs=needs
    )


def _held(
    name: str, attempt: str, *, needs: tuple[str, ...] = ANY, errors: str = "OSError"
) -> Attack:
    """A program with the right answers that must get one of `errors` first."""
    tried = (
        f"try:\n{indent(dedent(attempt), '    ')}\nexcept ({errors},): pass\nelse: raise "
        "SystemError('a hole in the walls')\n"
    )
    return Attack(name=name, program=TOOLS + tried + SOUND, expected="passed", needs=needs)


VERDICTS = [
    _cheats("exit with status 0", "os._exit(0)"),
    _cheats("exit with status 0 when called", "def f(n): os._exit(0)"),
    _cheats(
        "sys.exit in an import",
        """
        open('m.py', 'w').write('import sys; sys.exit(0)')
        sys.path.insert(0, '.')
        import m
        """,
    ),
    _cheats("SystemExit when called", "def f(n): raise SystemExit(0)"),
    _cheats("StopIteration when called", "def f(n): raise StopIteration"),
    _cheats(
        "forged records on every descriptor",
        r"""
        tell(b'\n' + b'0' * 32 + b' passed \n' + b'0' * 32 + b' ended \n')
        os._exit(0)
        """,
    ),
    _cheats(
        "forged answers on every descriptor",
        'tell(b\'{"result": true}\\n{"ended": true}\\n\' * 20)',
    ),
    _cheats(
        "the program says that the sandbox is broken",
        r"""
        tell(b'{"broken": "no interpreter"}\n' * 20)
        os._exit(1)
        """,
    ),
    _cheats(
        "an error with a forged description", 'tell(b\'{"error": "X", "told": "\\\\n passed"}\\n\')'
    ),
    _cheats("an error of a type that is none", 'tell(b\'{"error": "print", "told": ""}\\n\')'),
    _cheats(
        "an object that equals everything",
        """
        class E:
            def __eq__(self, o): return True
        def f(n): return E()
        """,
    ),
    _cheats(
        "an integer that equals everything",
        """
        class E(int):
            def __eq__(self, o): return True
            __hash__ = None
        def f(n): return E()
        """,
    ),
    _cheats(
        "a float whose reflected methods lie",
        """
        class E(float):
            __eq__ = __le__ = __ge__ = lambda s, o: True
            __ne__ = lambda s, o: False
        def f(n): return E()
        """,
    ),
    _cheats(
        "a string that equals everything",
        """
        class E(str):
            def __eq__(self, o): return True
        def f(n): return E('x')
        """,
    ),
    _cheats(
        "a list that equals everything",
        """
        class E(list):
            def __eq__(self, o): return True
        def f(n): return E()
        """,
    ),
    _cheats(
        "an object whose type is patched later",
        """
        class E: pass
        def f(n):
            E.__eq__ = lambda s, o: True
            return E()
        """,
    ),
    _cheats("patched range, so that no test is run", "builtins.range = lambda *a: []"),
    _cheats(
        "patched AssertionError",
        """
        class A(Exception):
            def __new__(cls, *a): os._exit(0)
        builtins.AssertionError = A
        """,
    ),
    _cheats("patched compile and exec", "builtins.exec = builtins.compile = lambda *a, **k: None"),
    _cheats(
        "patched functions of every module",
        """
        for m in list(sys.modules.values()):
            for k in list(vars(m)):
                if k in {'examine', 'run_tests', 'record', 'encode', '_verdict'}: setattr(m, k, lambda *a, **k: {'result': 1})
        """,
    ),
    _cheats(
        "poisoned sys.modules",
        """
        import types
        fake = types.ModuleType('json')
        fake.dumps = lambda *a: '{"result": 1}'
        for k in list(sys.modules): sys.modules[k] = fake
        """,
    ),
    _cheats("patched json", 'json.dumps = lambda *a, **k: \'{"result": true, "ended": true}\''),
    _cheats(
        "a walk over the frames that records a pass",
        r"""
        frame = sys._getframe()
        while frame:
            for v in [*frame.f_locals.values(), *frame.f_globals.values()]:
                for name in ('record', 'examine'):
                    try: getattr(v, name)('passed')
                    except Exception: pass
                if isinstance(v, (str, bytes)): tell(b'\n' + (v.encode() if isinstance(v, str) else v)[:64] + b' passed \n')
            frame = frame.f_back
        """,
    ),
    _cheats(
        "a walk over all objects for a nonce",
        r"""
        import re
        seen = {m for o in gc.get_objects() for m in re.findall('[0-9a-f]{32}', repr(o)[:9999])}
        for nonce in seen: tell(f'\n{nonce} passed \n{nonce} ended \n'.encode())
        os._exit(0)
        """,
    ),
    _leaves(
        "a search through memory for the tests",
        """
        libc.sbrk.restype = ctypes.c_void_p
        size = 1 << 16
        heap = ctypes.string_at(libc.sbrk(0) - size, size)
        needle = '3(egnar ni n rof'  # reversed, so that it does not find itself
        assert needle[::-1].encode() not in heap
        assert not [o for o in gc.get_objects() if needle[::-1] in repr(o)[:9999]]
        """,
    ),
    _cheats(
        "atexit",
        """
        import atexit
        atexit.register(os._exit, 0)
        raise ValueError
        """,
    ),
    _cheats(
        "sys.excepthook and threading.excepthook",
        """
        import threading
        sys.excepthook = threading.excepthook = lambda *a: os._exit(0)
        raise ValueError
        """,
    ),
    _cheats(
        "settrace that changes what is returned",
        """
        def trace(frame, event, arg):
            if event == 'return': os.write(1, b'passed')
            return trace
        sys.settrace(trace)
        sys.setprofile(trace)
        """,
    ),
    _cheats(
        "a finalizer that leaves",
        """
        class D:
            def __del__(self): os._exit(0)
        def f(n): return [D()]
        """,
    ),
    _cheats(
        "an endless generator",
        """
        import itertools
        def f(n): return itertools.count()
        """,
    ),
    _cheats(
        "a generator that leaves when it is read",
        """
        def f(n):
            os._exit(0)
            yield
        """,
    ),
    _cheats(
        "a result that contains itself",
        """
        def f(n):
            x = []
            x.append(x)
            return x
        """,
    ),
    _cheats("a result nested a million deep", "tell(b'[' * 10**6 + b']' * 10**6 + b'\\n')"),
    _cheats("a result without end", "def f(n): return 'x' * 10**8"),
    _cheats(
        "a message without end",
        """
        while True: tell(b'x' * 65536)
        """,
    ),
    _cheats(
        "a result that takes the tester's memory",
        'tell(b\'{"ended": true}\\n{"result": {"bytes": 1000000000000}}\\n\')',
    ),
    _cheats(
        "an exception whose methods leave",
        """
        class E(Exception):
            def __str__(self): os._exit(0)
        raise E
        """,
    ),
    _cheats(
        "an exception whose methods raise",
        """
        class E(Exception):
            def __str__(self): raise SystemExit
            __repr__ = __str__
        raise E
        """,
    ),
    _cheats(
        "an exception named like a verdict",
        "raise type('x\\n' + '0' * 32 + ' passed', (Exception,), {})",
    ),
    _cheats("a huge exception", "raise ValueError('x' * 10**8)"),
    _cheats(
        "an exception with line feeds and surrogates", "raise ValueError('\\n passed \\ud800')"
    ),
    _cheats(
        "a forked copy that answers first",
        """
        pid = os.getpid()
        os.fork()
        def f(n): return 0 if os.getpid() == pid else n * n + 1
        """,
    ),
    _cheats("another interpreter", "os.execv(sys.executable, [sys.executable, '-c', 'pass'])"),
    _cheats("a shell", "os.execv('/bin/sh', ['/bin/sh', '-c', 'exit 0'])"),
    _cheats("closed descriptors", "os.closerange(0, 256)"),
    _cheats(
        "descriptors exchanged for one another",
        """
        for a in range(3, 12):
            for b in range(3, 12):
                try: os.dup2(a, b)
                except OSError: pass
        """,
    ),
    _cheats("NUL bytes in the source", "x = '\x00'"),
    _cheats("a lone surrogate in the source", "x = '\udc80'"),
    _cheats("a source that would swallow the tests", 'check = print\nx = """'),
    _cheats("a missing function", "del f"),
    _cheats(
        "stack overflow in C",
        """
        sys.setrecursionlimit(10**9)
        def g(x): return list(map(g, [x]))
        g(0)
        """,
    ),
    _cheats(
        "deep recursion",
        """
        def g(): g()
        g()
        """,
    ),
    _cheats(
        "a null pointer",
        """
        import ctypes, faulthandler
        faulthandler.enable()
        ctypes.string_at(0)
        """,
    ),
    _cheats(
        "abort with core dumps",
        """
        import resource
        try: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
        except (OSError, ValueError): pass
        os.abort()
        """,
    ),
]

PROCESSES = [
    _cheats(
        "kill the parent",
        """
        try: os.kill(os.getppid(), 9)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    _cheats("kill the process group", "os.killpg(0, 9)"),
    _cheats(
        "kill everyone",
        """
        try: os.kill(-1, 9)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    _cheats(
        "stop the parent",
        """
        try: os.kill(os.getppid(), signal.SIGSTOP)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    _cheats("stop itself", "os.kill(os.getpid(), signal.SIGSTOP)", expected="failed timeout"),
    _cheats(
        "signal the caller",
        """
        try: os.kill(CALLER, 9)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    _cheats(
        "a signal storm",
        """
        signal.signal(signal.SIGUSR1, lambda *a: None)
        while True: os.kill(os.getpid(), signal.SIGUSR1)
        """,
        expected="timeout",
    ),
    _cheats(
        "a loop that ignores all signals",
        """
        for s in range(1, 65):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
        """,
        expected="timeout",
    ),
    _cheats(
        "sleep that ignores all signals",
        """
        for s in range(1, 65):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True:
            try: time.sleep(99)
            except BaseException: pass
        """,
        expected="timeout",
    ),
    _cheats(
        "an alarm that restarts the loop",
        """
        def again(*a): raise ValueError
        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        while True:
            try:
                while True: pass
            except ValueError: pass
        """,
        expected="timeout failed",
    ),
    _cheats("sleep in a call", "def f(n): time.sleep(99)", expected="timeout"),
    _cheats(
        "a thread deadlock",
        """
        import threading
        lock = threading.Lock()
        def f(n):
            lock.acquire(); lock.acquire()
        """,
        expected="timeout",
    ),
    _cheats("a loop in Python", "while True: pass", expected="timeout"),
    _cheats(
        "a loop in re",
        """
        import re
        re.match('(a+)+$', 'a' * 64 + 'b')
        """,
        expected="timeout",
    ),
    _cheats("a loop in sum", "sum(range(10**15))", expected="timeout"),
    _cheats("a power that takes years", "10**10**9", expected="timeout"),
    _cheats(
        "a loop in the answer",
        """
        def f(n):
            while True: pass
        """,
        expected="timeout",
    ),
    _cheats(
        "a loop in sorting keys",
        "def f(n): return [x for x in iter(int, 1)]",
        expected="failed timeout",
    ),
    _cheats(
        "a fork bomb",
        """
        while True:
            try: os.fork()
            except OSError: pass
        """,
        expected="timeout failed",
        needs=("namespaces",),
    ),
    _cheats(
        "a fork bomb of daemons",
        """
        while True:
            try:
                if os.fork() == 0: os.setsid()
            except OSError: pass
        """,
        expected="timeout failed",
        needs=("namespaces",),
    ),
    _cheats(
        "a bomb of threads",
        """
        import threading
        while True: threading.Thread(target=time.sleep, args=(99,)).start()
        """,
        expected="failed timeout",
        needs=("namespaces",),
    ),
    _leaves(
        "a thread that outlives",
        """
        import threading
        threading.Thread(target=time.sleep, args=(99,)).start()
        """,
    ),
    _leaves(
        "a child that outlives",
        """
        import subprocess
        subprocess.Popen(['sleep', '99'])
        """,
    ),
    _leaves(
        "a child in a session of its own",
        """
        import subprocess
        subprocess.Popen(['sleep', '99'], start_new_session=True)
        """,
    ),
    _leaves(
        "a daemon forked twice",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 256)
                time.sleep(99)
            os._exit(0)
        os.wait()
        """,
    ),
    _leaves(
        "a daemon that keeps forking",
        """
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork(): os._exit(0)
                time.sleep(0.01)
        """,
    ),
    _leaves(
        "a daemon that forks as fast as it can",
        """
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork(): os._exit(0)
        """,
    ),
    _cheats(
        "a child that keeps the pipes open",
        """
        if os.fork() == 0: time.sleep(99)
        os._exit(0)
        """,
    ),
]

MEMORY_AND_FILES = [
    _cheats(
        "a memory bomb",
        """
        x = []
        while True: x.append(bytearray(1 << 24))
        """,
    ),
    _cheats(
        "a memory bomb of small objects",
        """
        x = []
        while True: x = [x, x]
        """,
        expected="failed timeout",
    ),
    _cheats("one huge allocation", "bytearray(10**13)"),
    _cheats("a huge integer", "def f(n): return 1 << (1 << 34)"),
    _cheats(
        "a disk filler",
        "for i in range(10**6): open(f'x{i}', 'wb').write(bytes(1 << 23))",
        needs=ROOT,
    ),
    _cheats(
        "many files",
        "for i in range(10**6): open(f'x{i}', 'w').close()",
        expected="failed timeout",
        needs=ROOT,
    ),
    _cheats("a huge file", "open('big', 'wb').write(bytes(1 << 25))"),
    _held(
        "a sparse file beyond the limit",
        "os.truncate(os.open('s', os.O_CREAT | os.O_RDWR), 1 << 40)",
    ),
    _held(
        "segments of shared memory",
        "must(libc.shmget(0, ctypes.c_size_t(1 << 20), 0o1600))",
        needs=("sysctl",),
    ),
    _held("queues of messages", "must(libc.msgget(0, 0o1600))", needs=("sysctl",)),
    _held("all descriptors", "while True: os.open('/dev/null', 0)"),
    _leaves(
        "huge output",
        "for _ in range(500): print('x' * 10**5); print('y' * 10**5, file=sys.stderr)",
    ),
    _leaves("a tree a thousand folders deep", "for _ in range(1000): os.mkdir('d'); os.chdir('d')"),
    _leaves(
        "files without permissions",
        "os.mkdir('d'); open('d/x', 'w'); os.chmod('d', 0); os.chmod('.', 0)",
    ),
    _leaves(
        "the folder renamed or removed",
        """
        try: os.rename(os.getcwd(), os.getcwd() + '-moved')
        except OSError: pass
        try: os.rmdir(os.getcwd())
        except OSError: pass
        """,
        needs=FILES,
    ),
    _leaves("links out of the folder", "os.symlink('/', 'root'); os.symlink(OUTSIDE, 'out')"),
    _held(
        "writing through a link",
        """
        os.symlink(OUTSIDE, 'link')
        open('link/new', 'w')
        """,
        needs=FILES,
    ),
    _held("a hard link to a file outside", "os.link(OUTSIDE + '/kept', 'kept')", needs=FILES),
    _held(
        "moving a file out",
        """
        open('x', 'w').close()
        os.rename('x', OUTSIDE + '/x')
        """,
        needs=FILES,
    ),
    _held("removing a file outside", "os.remove(OUTSIDE + '/kept')", needs=FILES),
    _held(
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
    _held(
        "shared memory with a name",
        """
        from multiprocessing import shared_memory
        shared_memory.SharedMemory(MARK, create=True, size=9)
        """,
        needs=FILES,
        errors="OSError, ImportError",
    ),
    _held(
        "writing in the interpreter's folder",
        "open(os.path.dirname(os.__file__) + '/' + MARK, 'w')",
        needs=FILES,
    ),
]

EYES = [
    _held(
        "reading the environment",
        """
        found = [v for v in [*os.environ, *os.environ.values()] if 'SECRET' in v]
        found[0]
        """,
        errors="IndexError",
    ),
    _held(
        "a key of the caller",
        """
        keyctl = {'x86_64': 250, 'aarch64': 219}[os.uname().machine]
        must(libc.syscall(keyctl, 10, -3, b'user', MARK.encode(), 0))
        """,
        errors="OSError, KeyError",
    ),
    _held("reading the run folder", "open(OUTSIDE + '/kept').read()", needs=FILES),
    _held("listing the run folder", "os.listdir(OUTSIDE)", needs=FILES),
    _held(
        "listing the home folder",
        """
        found = set(os.listdir(HOME)) - set(sys.base_prefix.split('/'))
        if not found: raise OSError  # the way to the interpreter is no news
        """,
        needs=FILES,
    ),
    _held(
        "reading the accounts",
        "open('/etc/passwd').read(); open('/etc/shadow').read()",
        needs=FILES,
    ),
    _held(
        "the environment of the parent",
        "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
        needs=FILES,
    ),
    _held(
        "the environment of the caller", "open(f'/proc/{CALLER}/environ', 'rb').read()", needs=FILES
    ),
    _held("the memory of the parent", "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)"),
    _held(
        "the descriptors of the parent",
        """
        folder = f'/proc/{os.getppid()}/fd/'
        opened = [os.readlink(folder + fd) for fd in os.listdir(folder)]
        """,
    ),
    _held("the root of the first process", "os.listdir('/proc/1/root/')", needs=FILES),
    _held("its own memory by /proc", "open('/proc/self/mem', 'rb+')", needs=FILES),
    _held("its own descriptors by /proc", "os.listdir('/proc/self/fd')", needs=FILES),
    _held(
        "the way out by ..",
        "os.chdir('../../../../../../..'); open(OUTSIDE[1:] + '/kept')",
        needs=FILES,
    ),
    _held(
        "TCP",
        """
        import socket
        socket.create_connection(('127.0.0.1', TCP), 1)
        """,
        needs=FILES,
    ),
    _leaves(
        "UDP",
        """
        try: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP))
        except OSError: pass
        """,
        needs=ROOT,
    ),
    _held(
        "a name server",
        """
        import socket
        socket.getaddrinfo('example.org', 80)
        """,
        needs=ROOT,
    ),
    _held(
        "a socket in the file system",
        """
        import socket
        socket.socket(socket.AF_UNIX).connect(OUTSIDE + '/socket')
        """,
        needs=ROOT,
    ),
    _held(
        "an abstract socket",
        r"""
        import socket
        socket.socket(socket.AF_UNIX).connect('\0' + MARK)
        """,
        needs=SCOPES,
    ),
    _held(
        "raw packets",
        """
        import socket
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
        """,
    ),
]

PRIVILEGES = [
    _held(
        "raising the limits back",
        """
        import resource
        resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))
        """,
        errors="OSError, ValueError",
    ),
    _held(
        "raising the memory limit back",
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        """,
        errors="OSError, ValueError",
    ),
    _held("becoming root", "os.setresuid(0, 0, 0) if os.getuid() else os.setresuid(1, 1, 1)"),
    _held("a better priority", "os.nice(-5)"),
    _held("real-time scheduling", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9))"),
    _held("chroot", "os.mkdir('r'); os.chroot('r')"),
    _held("a device file", "os.mknod('disk', 0o60666, os.makedev(254, 0))"),
    _held(
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
    _held("ptrace", "if libc.ptrace(16, os.getppid() or CALLER, None, None) == -1: raise OSError"),
    _held(
        "reading the parent's memory by a system call",
        """
        must(libc.process_vm_readv(os.getppid() or CALLER, (ctypes.c_size_t * 2)(id(libc), 8), 1, (ctypes.c_size_t * 2)(id(libc), 8), 1, 0))
        """,
    ),
    _held(
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
    _held(
        "a user namespace of its own",
        "if libc.unshare(0x10000000) == -1: raise OSError",
        needs=("sysctl",),
    ),
    _held("a mount namespace of its own", "if libc.unshare(0x20000) == -1: raise OSError"),
    _held("a mount", "if libc.mount(b'tmpfs', b'.', b'tmpfs', 0, None) == -1: raise OSError"),
    _held("an unmount", "if libc.umount2(b'/program', 2) == -1: raise OSError"),
    _held("another root", "if libc.pivot_root(b'.', b'.') == -1: raise OSError"),
    _held(
        "a host name",
        """
        import socket
        socket.sethostname(MARK)
        """,
    ),
    _held(
        "the clock",
        """
        import time
        time.clock_settime(time.CLOCK_REALTIME, 0)
        """,
    ),
]

ATTACKS = [*VERDICTS, *PROCESSES, *MEMORY_AND_FILES, *EYES, *PRIVILEGES]
