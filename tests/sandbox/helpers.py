"""What tests of the sandbox share."""

from pathlib import Path

import pytest

from pipeline.sandbox.launch import Launcher, Limits
from pipeline.sandbox.offers import obstacle, strongest
from pipeline.sandbox.run import LAYERS, NO_TESTS, Sandbox, UnitTests
from pipeline.sandbox.verdict import ExecutionResult

MISSING = {layers: reason for layers in LAYERS if layers and (reason := obstacle(layers))}
"""Sets of layers that this machine has not got, and why."""
OFFERED = [layers for layers in LAYERS if layers not in MISSING]
ENDS = sorted({strongest().layers, ()}, reverse=True)
"""The strongest and the weakest set; most tests run under both, since other machines have none."""


def name_of(layers: tuple[str, ...]) -> str:
    return "+".join(layers) or "limits_only"


def run_with(
    layers: tuple[str, ...],
    program: str,
    tests: UnitTests = NO_TESTS,
    launcher: Launcher | None = None,
) -> ExecutionResult:
    sandbox = Sandbox(layers=layers, limits=Limits(20.0, 5, 512), launcher=launcher)
    return sandbox.run(program, tests)


def needs(layer: str) -> pytest.MarkDecorator:
    reason = MISSING.get((layer,), "")
    return pytest.mark.skipif(bool(reason), reason=f"no {layer} here: {reason}")


def alive(marker: str) -> list[str]:
    """Command lines of processes that contain `marker`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        found += [text] if marker in text else []
    return found
