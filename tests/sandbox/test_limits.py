"""Time, processes and files: what a program may use, and that nothing of it outlives it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.sandbox.offers import strongest
from tests.sandbox.conftest import Run
from tests.sandbox.helpers import alive


def test_a_loop_in_python_or_c_uses_up_its_cpu_time(run: Run) -> None:
    loops = ["while True: pass", "x = 10**10**9", "import re; re.match('(a+)+$', 'a' * 64 + 'b')"]
    with ThreadPoolExecutor(len(loops)) as pool:
        results = list(pool.map(lambda loop: run(loop, timeout_s=30.0, cpu_limit_s=1), loops))
    assert [(r.status, r.limit) for r in results] == [("timeout", "cpu")] * len(loops)


def test_a_sleeping_program_reaches_the_deadline(run: Run) -> None:
    result = run("import time; time.sleep(60)", timeout_s=1.0)
    assert (result.status, result.limit) == ("timeout", "wall")
    assert result.duration_s < 5


@pytest.mark.parametrize("catch", ["BaseException", "Exception"])
def test_a_deadline_cannot_be_caught(run: Run, catch: str) -> None:
    ignore = "import signal, time\nfor s in (15, 2, 1): signal.signal(s, signal.SIG_IGN)\n"
    program = ignore + f"while 1:\n    try: time.sleep(9)\n    except {catch}: pass"
    assert run(program, timeout_s=1.0).limit == "wall"


@pytest.mark.parametrize(
    "ending", ["pass", "raise ValueError", "import os; os._exit(0)", "import time; time.sleep(60)"]
)
def test_processes_that_a_program_starts_do_not_outlive_it(run: Run, ending: str) -> None:
    # seconds to sleep, and a name to find the process by
    marker = f"86{threading.get_native_id()}.{time.monotonic_ns()}"
    result = run(
        f"import subprocess\nsubprocess.Popen(['sleep', '{marker}'], "
        f"start_new_session=True)\n{ending}",
        timeout_s=1.5,
    )
    assert result.duration_s < 6
    assert alive(marker) == []


def test_a_daemon_that_left_the_session_is_killed(run: Run) -> None:
    marker = f"87{threading.get_native_id()}.{time.monotonic_ns()}"
    start = f"os.execvp('sleep', ['sleep', '{marker}'])"
    daemon = (
        f"import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: {start}\n    "
        "os._exit(0)\nos.wait()"
    )
    assert run(daemon).status == "passed"
    assert alive(marker) == []


def test_running_threads_do_not_delay_the_verdict(run: Run) -> None:
    result = run("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()")
    assert result.status == "passed"
    assert result.duration_s < 10


def test_a_huge_file_is_refused(run: Run) -> None:
    assert "File too large" in run("open('big', 'wb').write(bytes(1 << 25))").detail


def test_no_file_descriptor_is_left_open() -> None:
    strongest().run("x = 1")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        strongest().run("x = 1")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
