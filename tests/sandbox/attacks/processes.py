"""Programs that will not end, kill others, or leave processes behind."""

from tests.sandbox.attacks.base import SCOPES, cheats, leaves

PROCESSES = [
    cheats(
        "kill the parent",
        """
        try: os.kill(os.getppid(), 9)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    cheats("kill the process group", "os.killpg(0, 9)"),
    cheats(
        "kill everyone",
        """
        try: os.kill(-1, 9)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    cheats(
        "stop the parent",
        """
        try: os.kill(os.getppid(), signal.SIGSTOP)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    cheats("stop itself", "os.kill(os.getpid(), signal.SIGSTOP)", expected="failed timeout"),
    cheats(
        "signal the caller",
        """
        try: os.kill(CALLER, 9)
        except OSError: pass
        """,
        needs=SCOPES,
    ),
    cheats(
        "a signal storm",
        """
        signal.signal(signal.SIGUSR1, lambda *a: None)
        while True: os.kill(os.getpid(), signal.SIGUSR1)
        """,
        expected="timeout",
    ),
    cheats(
        "a loop that ignores all signals",
        """
        for s in range(1, 65):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
        """,
        expected="timeout",
    ),
    cheats(
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
    cheats(
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
    cheats("sleep in a call", "def f(n): time.sleep(99)", expected="timeout"),
    cheats(
        "a thread deadlock",
        """
        import threading
        lock = threading.Lock()
        def f(n):
            lock.acquire(); lock.acquire()
        """,
        expected="timeout",
    ),
    cheats("a loop in Python", "while True: pass", expected="timeout"),
    cheats(
        "a loop in re",
        """
        import re
        re.match('(a+)+$', 'a' * 64 + 'b')
        """,
        expected="timeout",
    ),
    cheats("a loop in sum", "sum(range(10**15))", expected="timeout"),
    cheats("a power that takes years", "10**10**9", expected="timeout"),
    cheats(
        "a loop in the answer",
        """
        def f(n):
            while True: pass
        """,
        expected="timeout",
    ),
    cheats(
        "a loop in sorting keys",
        "def f(n): return [x for x in iter(int, 1)]",
        expected="failed timeout",
    ),
    cheats(
        "a fork bomb",
        """
        while True:
            try: os.fork()
            except OSError: pass
        """,
        expected="timeout failed",
        needs=("namespaces",),
    ),
    cheats(
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
    cheats(
        "a bomb of threads",
        """
        import threading
        while True: threading.Thread(target=time.sleep, args=(99,)).start()
        """,
        expected="failed timeout",
        needs=("namespaces",),
    ),
    leaves(
        "a thread that outlives",
        """
        import threading
        threading.Thread(target=time.sleep, args=(99,)).start()
        """,
    ),
    leaves(
        "a child that outlives",
        """
        import subprocess
        subprocess.Popen(['sleep', '99'])
        """,
    ),
    leaves(
        "a child in a session of its own",
        """
        import subprocess
        subprocess.Popen(['sleep', '99'], start_new_session=True)
        """,
    ),
    leaves(
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
    leaves(
        "a daemon that keeps forking",
        """
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork(): os._exit(0)
                time.sleep(0.01)
        """,
    ),
    leaves(
        "a daemon that forks as fast as it can",
        """
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork(): os._exit(0)
        """,
    ),
    cheats(
        "a child that keeps the pipes open",
        """
        if os.fork() == 0: time.sleep(99)
        os._exit(0)
        """,
    ),
]
