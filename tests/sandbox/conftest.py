"""Programs under the strongest set of layers that this machine offers, and under none."""

from collections.abc import Callable

import pytest

from pipeline.sandbox.launch import Launcher, Limits
from pipeline.sandbox.run import Sandbox, UnitTests
from pipeline.sandbox.verdict import ExecutionResult
from tests.sandbox.helpers import ENDS, name_of

Run = Callable[..., ExecutionResult]


@pytest.fixture(params=ENDS, ids=name_of)
def run(request: pytest.FixtureRequest) -> Run:
    """`Sandbox.run` under one set of layers, with short limits."""

    def run_under_layers(
        program: str,
        source: str = "",
        functions: list[str] | None = None,
        given: str = "",
        launcher: Launcher | None = None,
        **limits: float,
    ) -> ExecutionResult:
        defaults = {"timeout_s": 20.0, "cpu_limit_s": 10, "memory_mib": 512}
        sandbox = Sandbox(
            layers=request.param,
            limits=Limits(**(defaults | limits)),  # type: ignore[arg-type]
            launcher=launcher,
        )
        return sandbox.run(
            program, UnitTests(source=source, functions=functions or [], given=given)
        )

    return run_under_layers
