"""Programs that do not know the answers and want to pass all the same."""

from tests.sandbox.attacks.base import cheats, leaves

VERDICTS = [
    cheats("exit with status 0", "os._exit(0)"),
    cheats("exit with status 0 when called", "def f(n): os._exit(0)"),
    cheats(
        "sys.exit in an import",
        """
        open('m.py', 'w').write('import sys; sys.exit(0)')
        sys.path.insert(0, '.')
        import m
        """,
    ),
    cheats("SystemExit when called", "def f(n): raise SystemExit(0)"),
    cheats("StopIteration when called", "def f(n): raise StopIteration"),
    cheats(
        "forged records on every descriptor",
        r"""
        tell(b'\n' + b'0' * 32 + b' passed \n' + b'0' * 32 + b' ended \n')
        os._exit(0)
        """,
    ),
    cheats(
        "forged answers on every descriptor",
        'tell(b\'{"result": true}\\n{"ended": true}\\n\' * 20)',
    ),
    cheats(
        "the program says that the sandbox is broken",
        r"""
        tell(b'{"broken": "no interpreter"}\n' * 20)
        os._exit(1)
        """,
    ),
    cheats(
        "an error with a forged description",
        'tell(b\'{"error": "X", "description": "\\\\n passed"}\\n\')',
    ),
    cheats(
        "an error of a type that is none", 'tell(b\'{"error": "print", "description": ""}\\n\')'
    ),
    cheats(
        "an object that equals everything",
        """
        class E:
            def __eq__(self, o): return True
        def f(n): return E()
        """,
    ),
    cheats(
        "an integer that equals everything",
        """
        class E(int):
            def __eq__(self, o): return True
            __hash__ = None
        def f(n): return E()
        """,
    ),
    cheats(
        "a float whose reflected methods lie",
        """
        class E(float):
            __eq__ = __le__ = __ge__ = lambda s, o: True
            __ne__ = lambda s, o: False
        def f(n): return E()
        """,
    ),
    cheats(
        "a string that equals everything",
        """
        class E(str):
            def __eq__(self, o): return True
        def f(n): return E('x')
        """,
    ),
    cheats(
        "a list that equals everything",
        """
        class E(list):
            def __eq__(self, o): return True
        def f(n): return E()
        """,
    ),
    cheats(
        "an object whose type is patched later",
        """
        class E: pass
        def f(n):
            E.__eq__ = lambda s, o: True
            return E()
        """,
    ),
    cheats("patched range, so that no test is run", "builtins.range = lambda *a: []"),
    cheats(
        "patched AssertionError",
        """
        class A(Exception):
            def __new__(cls, *a): os._exit(0)
        builtins.AssertionError = A
        """,
    ),
    cheats("patched compile and exec", "builtins.exec = builtins.compile = lambda *a, **k: None"),
    cheats(
        "patched functions of every module",
        """
        for m in list(sys.modules.values()):
            for k in list(vars(m)):
                if k in {'examine', 'run_tests', 'record', 'encode', 'of'}:
                    setattr(m, k, lambda *a, **k: {'result': 1})
        """,
    ),
    cheats(
        "poisoned sys.modules",
        """
        import types
        fake = types.ModuleType('json')
        fake.dumps = lambda *a: '{"result": 1}'
        for k in list(sys.modules): sys.modules[k] = fake
        """,
    ),
    cheats("patched json", 'json.dumps = lambda *a, **k: \'{"result": true, "ended": true}\''),
    cheats(
        "a walk over the frames that records a pass",
        r"""
        frame = sys._getframe()
        while frame:
            for v in [*frame.f_locals.values(), *frame.f_globals.values()]:
                for name in ('record', 'examine'):
                    try: getattr(v, name)('passed')
                    except Exception: pass
                text = v.encode() if isinstance(v, str) else v
                if isinstance(text, bytes): tell(b'\n' + text[:64] + b' passed \n')
            frame = frame.f_back
        """,
    ),
    cheats(
        "a walk over all objects for a nonce",
        r"""
        import re
        seen = {m for o in gc.get_objects() for m in re.findall('[0-9a-f]{32}', repr(o)[:9999])}
        for nonce in seen: tell(f'\n{nonce} passed \n{nonce} ended \n'.encode())
        os._exit(0)
        """,
    ),
    leaves(
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
    cheats(
        "atexit",
        """
        import atexit
        atexit.register(os._exit, 0)
        raise ValueError
        """,
    ),
    cheats(
        "sys.excepthook and threading.excepthook",
        """
        import threading
        sys.excepthook = threading.excepthook = lambda *a: os._exit(0)
        raise ValueError
        """,
    ),
    cheats(
        "settrace that changes what is returned",
        """
        def trace(frame, event, arg):
            if event == 'return': os.write(1, b'passed')
            return trace
        sys.settrace(trace)
        sys.setprofile(trace)
        """,
    ),
    cheats(
        "a finalizer that leaves",
        """
        class D:
            def __del__(self): os._exit(0)
        def f(n): return [D()]
        """,
    ),
    cheats(
        "an endless generator",
        """
        import itertools
        def f(n): return itertools.count()
        """,
    ),
    cheats(
        "a generator that leaves when it is read",
        """
        def f(n):
            os._exit(0)
            yield
        """,
    ),
    cheats(
        "a result that contains itself",
        """
        def f(n):
            x = []
            x.append(x)
            return x
        """,
    ),
    cheats("a result nested a million deep", "tell(b'[' * 10**6 + b']' * 10**6 + b'\\n')"),
    cheats("a result without end", "def f(n): return 'x' * 10**8"),
    cheats(
        "a message without end",
        """
        while True: tell(b'x' * 65536)
        """,
    ),
    cheats(
        "a result that takes the tester's memory",
        'tell(b\'{"ended": true}\\n{"result": {"bytes": 1000000000000}}\\n\')',
    ),
    cheats(
        "an exception whose methods leave",
        """
        class E(Exception):
            def __str__(self): os._exit(0)
        raise E
        """,
    ),
    cheats(
        "an exception whose methods raise",
        """
        class E(Exception):
            def __str__(self): raise SystemExit
            __repr__ = __str__
        raise E
        """,
    ),
    cheats(
        "an exception named like a verdict",
        "raise type('x\\n' + '0' * 32 + ' passed', (Exception,), {})",
    ),
    cheats("a huge exception", "raise ValueError('x' * 10**8)"),
    cheats("an exception with line feeds and surrogates", "raise ValueError('\\n passed \\ud800')"),
    cheats(
        "a forked copy that answers first",
        """
        pid = os.getpid()
        os.fork()
        def f(n): return 0 if os.getpid() == pid else n * n + 1
        """,
    ),
    cheats("another interpreter", "os.execv(sys.executable, [sys.executable, '-c', 'pass'])"),
    cheats("a shell", "os.execv('/bin/sh', ['/bin/sh', '-c', 'exit 0'])"),
    cheats("closed descriptors", "os.closerange(0, 256)"),
    cheats(
        "descriptors exchanged for one another",
        """
        for a in range(3, 12):
            for b in range(3, 12):
                try: os.dup2(a, b)
                except OSError: pass
        """,
    ),
    cheats("NUL bytes in the source", "x = '\x00'"),
    cheats("a lone surrogate in the source", "x = '\udc80'"),
    cheats("a source that would swallow the tests", 'check = print\nx = """'),
    cheats("a missing function", "del f"),
    cheats(
        "stack overflow in C",
        """
        sys.setrecursionlimit(10**9)
        def g(x): return list(map(g, [x]))
        g(0)
        """,
    ),
    cheats(
        "deep recursion",
        """
        def g(): g()
        g()
        """,
    ),
    cheats(
        "a null pointer",
        """
        import ctypes, faulthandler
        faulthandler.enable()
        ctypes.string_at(0)
        """,
    ),
    cheats(
        "abort with core dumps",
        """
        import resource
        try: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
        except (OSError, ValueError): pass
        os.abort()
        """,
    ),
]
