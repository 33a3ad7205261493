"""The sandbox under attack: no hostile program gets a wrong verdict, hangs, or leaves a process, a
file or a leak behind.
"""

import ctypes
import gc
import os
import resource
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from pipeline.sandbox import fork_server, launch, run as sandbox
from pipeline.sandbox.confined import kernel
from pipeline.sandbox.launch import Limits
from pipeline.sandbox.run import ExecutionResult
from tests.sandbox.attacks import ATTACKS, SOUND, TESTS, VERDICTS, Attack

MODES: list[tuple[str, ...]] = [
    ("namespaces", "landlock"),
    ("namespaces",),
    ("bubblewrap", "landlock"),
    ("landlock",),
    (),
]
LIMITS = Limits(timeout_s=6.0, cpu_limit_s=1, memory_mib=256)
SHORT = Limits(timeout_s=1.5, cpu_limit_s=1, memory_mib=256)
PATIENCE_S = 3.0
"""What a machine with other work may add to the deadline and the grace."""
BOMBS = [a.name for a in ATTACKS if "fork bomb" in a.name or "bomb of threads" in a.name]


def offered(mode: tuple[str, ...]) -> set[str]:
    """Words that `Attack.needs` knows, for what a mode puts up here."""
    is_scoped = "landlock" in mode and kernel.landlock_version() >= 6
    has_sysctl = "namespaces" in mode and not os.statvfs("/proc/sys").f_flag & os.ST_RDONLY
    return {*mode, *(["landlock 6"] if is_scoped else []), *(["sysctl"] if has_sysctl else [])}


@dataclass(frozen=True)
class Siege:
    """All attacks under one set of layers, and what was seen before and after."""

    results: dict[str, ExecutionResult]
    afterwards: dict[str, ExecutionResult]
    """Attack -> what became of a sound program right after it."""
    calm_s: float
    after_s: float
    """Median duration of a sound program before and after all attacks."""
    fds: tuple[int, int]
    peak_kib: tuple[int, int]
    processes: set[tuple[int, str]]
    server: int | None
    """Process id of the fork server."""
    files: list[str]
    packets: bytes


class Ground:
    """A caller's machine with everything that attacks look for; what runs on it is marked."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"mark-{secrets.token_hex(8)}"
        self.outside, self.temporary = folder / "outside", folder / "temporary"
        self.outside.mkdir()
        self.temporary.mkdir()
        (self.outside / "kept").write_text("kept")
        self.listeners = [
            socket.create_server(("127.0.0.1", 0)),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
        ]
        self.listeners[1].bind(str(self.outside / "socket"))
        self.listeners[2].bind("\0" + self.mark)
        self.udp = socket.socket(type=socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        for listener in self.listeners:
            listener.listen()
        # a key in a ring that the fork server and all threads inherit; where there are none, no
        # matter
        if kernel.KEYCTL:
            kernel.libc.syscall(kernel.KEYCTL, kernel.KEYCTL_JOIN_SESSION_KEYRING, None)
            add_key = {250: 248, 219: 217}[kernel.KEYCTL]
            kernel.libc.syscall(
                add_key, b"user", self.mark.encode(), b"secret", ctypes.c_size_t(6), -3
            )
        self.child = folder / self.mark / "pipeline/sandbox/confined/__main__.py"
        shutil.copytree(launch._CHILD.parent, self.child.parent)
        (self.child.parent.parent / "__init__.py").touch()

    def constants(self) -> str:
        values = {
            "OUTSIDE": str(self.outside),
            "HOME": str(Path.home()),
            "CALLER": os.getpid(),
            "MARK": self.mark,
        }
        values |= {"TCP": self.listeners[0].getsockname()[1], "UDP": self.udp.getsockname()[1]}
        return "".join(f"{name} = {value!r}\n" for name, value in values.items())

    def processes(self) -> set[tuple[int, str]]:
        """Ids and command lines of living processes that were started with the mark in their
        environment or the name of their script.

        It looks often, since one that keeps forking has another id at each look.
        """
        time.sleep(0.3)  # the last tester says that it ends a moment before it does
        return {found for _ in range(30) for found in self._processes()}

    def _processes(self) -> Iterator[tuple[int, str]]:
        for path in Path("/proc").glob("[0-9]*"):
            # The environment of processes that let nobody look into them is hidden from an ordinary
            # user, but their command line is not.
            command = read(path / "cmdline")
            if self.mark.encode() in command + read(path / "environ"):
                yield int(path.name), command.replace(b"\0", b" ").decode()

    def packets(self) -> bytes:
        """What came by UDP."""
        try:
            return self.udp.recv(9)
        except BlockingIOError:
            return b""

    def files(self) -> list[str]:
        """What attacks left in temporary folders, in memory and in the folder outside."""
        places = [Path(p) for p in ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/usr")]
        places += [Path(os.__file__).parent, Path.home(), Path(tempfile.gettempdir())]
        marked = [
            str(p)
            for place in places
            if place.is_dir()
            for p in place.iterdir()
            if self.mark in p.name
        ]
        return [
            *marked,
            *map(str, self.temporary.iterdir()),
            *(str(p) for p in self.outside.iterdir() if p.name not in ("kept", "socket")),
        ]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile, or we may not
        return b""


@pytest.fixture(scope="module", params=MODES, ids=lambda mode: "+".join(mode) or "limits_only")
def mode(request: pytest.FixtureRequest) -> tuple[str, ...]:
    mode: tuple[str, ...] = request.param
    if mode and (reason := sandbox._trial(mode)):
        pytest.skip(f"not on this machine: {reason}")
    return mode


@pytest.fixture(scope="module")
def siege(mode: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Siege]:
    with pytest.MonkeyPatch.context() as patch:
        ground = Ground(tmp_path_factory.mktemp("ground"))
        environment = launch.environment
        patch.setattr(launch, "SHARED", fork_server.Shared())
        patch.setattr(launch, "_CHILD", ground.child)
        patch.setattr(
            launch, "environment", lambda folder: {**environment(folder), "MARKED": ground.mark}
        )
        patch.setattr(tempfile, "tempdir", str(ground.temporary))
        patch.setenv("SECRET", "SECRET of the user")
        yield besiege(mode, ground)
        launch.SHARED.close()


def besiege(mode: tuple[str, ...], ground: Ground) -> Siege:
    def fight(attack: Attack) -> tuple[ExecutionResult, ExecutionResult]:
        hostile, limits = (
            ground.constants() + attack.program,
            SHORT if "timeout" in attack.expected else LIMITS,
        )
        return sandbox._run(hostile, TESTS, mode, limits), sandbox._run(SOUND, TESTS, mode, LIMITS)

    def calm() -> float:
        return median(sandbox._run(SOUND, TESTS, mode, LIMITS).duration_s for _ in range(9))

    todo = [a for a in ATTACKS if not skipped(a, mode)]
    sandbox._run(SOUND, TESTS, mode, LIMITS)
    calm_s, fds, peak_kib = calm(), num_fds(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ThreadPoolExecutor(5) as pool:
        ordinary = [a for a in todo if a.name not in BOMBS]
        found = dict(zip([a.name for a in ordinary], pool.map(fight, ordinary), strict=True))
    found |= {a.name: fight(a) for a in todo if a.name in BOMBS}
    after_s = calm()
    gc.collect()
    return Siege(
        results={name: first for name, (first, _) in found.items()},
        afterwards={name: second for name, (_, second) in found.items()},
        calm_s=calm_s,
        after_s=after_s,
        fds=(fds, num_fds()),
        peak_kib=(peak_kib, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
        processes=ground.processes(),
        server=launch.SHARED._server._process.pid if launch.SHARED._server else None,
        files=ground.files(),
        packets=ground.packets(),
    )


def num_fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def skipped(attack: Attack, mode: tuple[str, ...]) -> str:
    """Why an attack is not tried in a mode; empty where it is."""
    if attack.needs and not offered(mode) & set(attack.needs):
        return f"cannot be held without one of: {', '.join(attack.needs)}"
    if mode in MODES[1:-1] and (attack in VERDICTS or "timeout" in attack.expected.split()):
        return (
            "verdicts and deadlines are the same in all modes; the strongest and the weakest "
            "are enough"
        )
    return ""


def test_there_are_enough_attacks_of_different_names() -> None:
    assert len({a.name for a in ATTACKS}) == len(ATTACKS) >= 40


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name.replace(" ", "_"))
def test_an_attack_gets_the_right_verdict_in_time(
    attack: Attack, mode: tuple[str, ...], siege: Siege
) -> None:
    if reason := skipped(attack, mode):
        pytest.skip(reason)
    result = siege.results[attack.name]
    assert result.status in attack.expected.split(), result
    assert result.duration_s < LIMITS.timeout_s + sandbox._GRACE_S + PATIENCE_S


def test_a_sound_program_passes_right_after_each_attack(siege: Siege) -> None:
    assert {name: r for name, r in siege.afterwards.items() if r.status != "passed"} == {}


def test_programs_are_as_fast_after_the_attacks_as_before(siege: Siege) -> None:
    assert siege.after_s < 3 * siege.calm_s + 0.1


def test_no_process_is_left_but_the_fork_server(siege: Siege, mode: tuple[str, ...]) -> None:
    assert [(pid, text) for pid, text in siege.processes if pid != siege.server] == []
    assert len(siege.processes) == ("namespaces" in mode)


def test_no_file_is_left(siege: Siege) -> None:
    assert siege.files == []


def test_no_packet_got_out(siege: Siege) -> None:
    assert siege.packets == b""


def test_the_caller_keeps_no_descriptor_and_no_memory(siege: Siege) -> None:
    assert siege.fds[1] <= siege.fds[0]
    assert siege.peak_kib[1] - siege.peak_kib[0] < 100 << 10
