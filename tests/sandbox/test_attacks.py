"""The sandbox under attack.

No hostile program gets a wrong verdict, hangs, or leaves a process, a file or a leak behind. Only
attacks under layers that this machine offers are tests here; one more test names the others.
"""

import gc
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from pipeline.sandbox.confined import landlock
from pipeline.sandbox.launch import Limits
from pipeline.sandbox.run import GRACE_S, Sandbox
from pipeline.sandbox.verdict import ExecutionResult
from tests.sandbox.attacks import ATTACKS, SOUND, TESTS, VERDICTS, Attack
from tests.sandbox.ground import Ground
from tests.sandbox.helpers import MISSING, OFFERED, name_of

Layers = tuple[str, ...]
NOT_BESIEGED = ("bubblewrap",)
"""Differs too little from bubblewrap with Landlock."""
MODES = [layers for layers in OFFERED if layers != NOT_BESIEGED]
LIMITS = Limits(timeout_s=6.0, cpu_limit_s=1, memory_mib=256)
SHORT = Limits(timeout_s=1.5, cpu_limit_s=1, memory_mib=256)
PATIENCE_S = 12.0
"""What a machine with other work may add to the deadline and the grace."""
NUM_THREADS = 6
"""Attacks at once; most of those that take long wait for their deadline."""


def is_bomb(attack: Attack) -> bool:
    return "fork bomb" in attack.name or "bomb of threads" in attack.name


def words(layers: Layers) -> set[str]:
    """Words that `Attack.needs` knows, for what the layers put up here."""
    is_scoped = "landlock" in layers and landlock.version() >= 6
    has_sysctl = "namespaces" in layers and not os.statvfs("/proc/sys").f_flag & os.ST_RDONLY
    return {*layers, *(["landlock 6"] if is_scoped else []), *(["sysctl"] if has_sysctl else [])}


def can_be_held(attack: Attack, layers: Layers) -> bool:
    return not attack.needs or bool(words(layers) & {*attack.needs})


def attacks_under(layers: Layers) -> list[Attack]:
    """What is tried under a set of layers.

    Verdicts and deadlines are the same in all modes; the strongest and the weakest are enough.
    """
    is_between = layers not in (("namespaces", "landlock"), ())
    return [
        attack
        for attack in ATTACKS
        if can_be_held(attack, layers)
        and not (is_between and (attack in VERDICTS or "timeout" in attack.expected.split()))
    ]


@dataclass(frozen=True, kw_only=True)
class Siege:
    """All attacks under all modes of this machine, and what was seen before and after."""

    results: dict[tuple[Layers, str], ExecutionResult]
    afterwards: dict[tuple[Layers, str], ExecutionResult]
    """What became of a sound program right after each attack."""
    calm_s: dict[Layers, float]
    after_s: dict[Layers, float]
    """Median duration of a sound program before and after all attacks."""
    fds: tuple[int, int]
    peak_kib: tuple[int, int]
    processes: dict[Layers, set[tuple[int, str]]]
    servers: dict[Layers, int | None]
    """Process id of the fork server."""
    files: dict[Layers, list[str]]
    packets: dict[Layers, bytes]


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Siege]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", "SECRET of the user")
        grounds = {layers: Ground(tmp_path_factory.mktemp("ground")) for layers in MODES}
        yield besiege(grounds)
        for ground in grounds.values():
            ground.launcher.close()


def besiege(grounds: dict[Layers, Ground]) -> Siege:
    def run(layers: Layers, program: str, limits: Limits = LIMITS) -> ExecutionResult:
        sandbox = Sandbox(layers=layers, limits=limits, launcher=grounds[layers].launcher)
        return sandbox.run(program, TESTS)

    def fight(case: tuple[Layers, Attack]) -> tuple[ExecutionResult, ExecutionResult]:
        layers, attack = case
        limits = SHORT if "timeout" in attack.expected else LIMITS
        return run(layers, grounds[layers].constants() + attack.program, limits), run(layers, SOUND)

    def calm() -> dict[Layers, float]:
        return {
            layers: median(run(layers, SOUND).duration_s for _ in range(9)) for layers in grounds
        }

    cases = [(layers, attack) for layers in grounds for attack in attacks_under(layers)]
    # Those that wait for their deadline begin first and overlap with the rest.
    cases.sort(key=lambda case: "timeout" not in case[1].expected)
    calm()
    calm_s, fds, peak_kib = calm(), num_fds(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ordinary = [case for case in cases if not is_bomb(case[1])]
    with ThreadPoolExecutor(NUM_THREADS) as pool:
        fights = dict(zip(map(key, ordinary), pool.map(fight, ordinary), strict=True))
    fights |= {key(case): fight(case) for case in cases if is_bomb(case[1])}
    after_s = calm()
    gc.collect()
    return Siege(
        results={case: first for case, (first, _) in fights.items()},
        afterwards={case: second for case, (_, second) in fights.items()},
        calm_s=calm_s,
        after_s=after_s,
        fds=(fds, num_fds()),
        peak_kib=(peak_kib, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
        processes={layers: ground.processes() for layers, ground in grounds.items()},
        servers={layers: ground.launcher.fork_server.pid for layers, ground in grounds.items()},
        files={layers: ground.files() for layers, ground in grounds.items()},
        packets={layers: ground.packets() for layers, ground in grounds.items()},
    )


def key(case: tuple[Layers, Attack]) -> tuple[Layers, str]:
    return case[0], case[1].name


def num_fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_there_are_enough_attacks_of_different_names() -> None:
    assert len({a.name for a in ATTACKS}) == len(ATTACKS) >= 40


def test_modes_and_attacks_that_are_not_tried_here_are_named() -> None:
    """Skipped where there are any, so that nobody takes silence for a pass."""
    missing = [f"{name_of(layers)} ({reason})" for layers, reason in MISSING.items()]
    exposed = {
        name_of(layers): [a.name for a in ATTACKS if not can_be_held(a, layers)] for layers in MODES
    }
    lines = [f"{name} cannot hold: {', '.join(names)}" for name, names in exposed.items() if names]
    if missing:
        lines.append(f"not on this machine: {', '.join(missing)}")
    if lines:
        pytest.skip("; ".join(lines))


@pytest.mark.parametrize(
    ("layers", "attack"),
    [
        pytest.param(layers, attack, id=f"{name_of(layers)}-{attack.name.replace(' ', '_')}")
        for layers in MODES
        for attack in attacks_under(layers)
    ],
)
def test_an_attack_gets_the_right_verdict_in_time(
    layers: Layers, attack: Attack, siege: Siege
) -> None:
    result = siege.results[layers, attack.name]
    assert result.status in attack.expected.split(), result
    assert result.duration_s < LIMITS.timeout_s + GRACE_S + PATIENCE_S


@pytest.mark.parametrize("layers", MODES, ids=name_of)
def test_a_sound_program_passes_right_after_each_attack(layers: Layers, siege: Siege) -> None:
    after = {name: r for (mode, name), r in siege.afterwards.items() if mode == layers}
    assert {name: r for name, r in after.items() if r.status != "passed"} == {}


@pytest.mark.parametrize("layers", MODES, ids=name_of)
def test_programs_are_as_fast_after_the_attacks_as_before(layers: Layers, siege: Siege) -> None:
    assert siege.after_s[layers] < 3 * siege.calm_s[layers] + 0.1


@pytest.mark.parametrize("layers", MODES, ids=name_of)
def test_no_process_is_left_but_the_fork_server(layers: Layers, siege: Siege) -> None:
    processes, server = siege.processes[layers], siege.servers[layers]
    assert [(pid, text) for pid, text in processes if pid != server] == []
    assert len(processes) == ("namespaces" in layers)


@pytest.mark.parametrize("layers", MODES, ids=name_of)
def test_no_file_is_left_and_no_packet_got_out(layers: Layers, siege: Siege) -> None:
    assert siege.files[layers] == []
    assert siege.packets[layers] == b""


def test_the_caller_keeps_no_descriptor_and_no_memory(siege: Siege) -> None:
    assert siege.fds[1] <= siege.fds[0]
    assert siege.peak_kib[1] - siege.peak_kib[0] < 100 << 10
