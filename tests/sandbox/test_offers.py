"""What this machine can put around a program, how it is chosen, and what runs under it."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.sandbox.launch import Launcher, Limits
from pipeline.sandbox.offers import BusyError, choose, offers, strongest, why_not
from pipeline.sandbox.run import LAYERS, Sandbox
from pipeline.sandbox.verdict import ExecutionResult
from tests.sandbox.helpers import ENDS, MISSING, OFFERED, run_with


def test_each_layer_is_offered_with_a_reason_or_what_it_brings() -> None:
    layers = {offer.layer: offer for offer in offers()}
    assert set(layers) == {"namespaces", "bubblewrap", "landlock", "nobody"}
    assert all(offer.about and (offer.works or not offer.used) for offer in layers.values())
    assert {layer for layer, offer in layers.items() if offer.used} >= set(strongest().layers)


def test_the_strongest_set_that_is_offered_is_used() -> None:
    assert strongest().layers == OFFERED[0]
    assert set(OFFERED) | set(MISSING) == set(LAYERS)


def answers(*statuses: str) -> Callable[[tuple[str, ...]], str]:
    """What `obstacle` says where programs end like this, and pass ever after.

    Only a time-out is a disturbance.
    """
    left = list(statuses)

    def result() -> ExecutionResult:
        status: Any = left.pop(0) if left else "passed"
        detail = "" if status == "passed" else status
        return ExecutionResult(status, detail, was_disturbed=status == "timeout")

    return lambda layers: why_not(result, pause_s=0.0)


def test_a_busy_moment_does_not_weaken_the_confinement() -> None:
    assert choose(answers("timeout", "timeout")).layers == LAYERS[0]


def test_while_a_busy_machine_gives_no_answer_nothing_is_chosen() -> None:
    obstacle = answers(*["timeout"] * 3)
    with pytest.raises(BusyError, match=r"too busy.*timeout"):
        choose(obstacle)
    assert choose(obstacle).layers == LAYERS[0]


def test_a_layer_that_does_not_work_here_is_left_out() -> None:
    assert choose(answers("broken", "timeout", "broken")).layers == LAYERS[2]
    assert choose(lambda layers: "broken").layers == ()


def test_a_layer_that_does_not_work_says_why_and_breaks_the_run() -> None:
    launcher = Launcher(bwrap="/nonexistent/bwrap")
    result = run_with(("bubblewrap",), "x = 1", launcher=launcher)
    assert (result.status, "No such file" in result.detail) == ("broken", True)
    assert "No such file" in why_not(lambda: result)


@pytest.mark.parametrize("layers", ENDS)
def test_a_sandbox_that_was_sent_elsewhere_confines_alike(layers: tuple[str, ...]) -> None:
    sandbox = Sandbox(layers=layers, limits=Limits(timeout_s=20.0))
    sent: Sandbox = pickle.loads(pickle.dumps(sandbox))  # noqa: S301 - our own
    assert sent == sandbox
    assert sandbox.has_own_root == bool({"namespaces", "bubblewrap"} & set(layers))
    program = "raise ValueError(any(map(os.path.exists, ['/etc/hostname', '/proc'])))"
    result = sent.run(f"import os; {program}")
    assert result.detail == f"ValueError: {not sandbox.has_own_root}"


def test_layers_that_do_not_exist_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match=r"\('docker',\).*'namespaces', 'landlock'"):
        Sandbox(layers=("docker",))


@pytest.mark.parametrize("layers", LAYERS)
def test_the_confinement_is_described_by_its_layers(layers: tuple[str, ...]) -> None:
    words = Sandbox(layers=layers).confinement()
    assert words.startswith("process limits")
    assert ("Landlock" in words) == ("landlock" in layers)
    assert ("namespaces" in words) == ("namespaces" in layers)
