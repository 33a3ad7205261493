"""What the records of a tester say became of its program, and whether something disturbed it."""

import pytest

from pipeline.sandbox import verdict
from tests.sandbox.helpers import run_with


@pytest.mark.parametrize(
    ("ending", "was_disturbed"),
    [("os.kill(os.getpid(), 9)", True), ("os.abort()", False), ("os._exit(1)", False)],
)
def test_only_an_end_that_may_have_come_from_outside_is_a_disturbance(
    ending: str, was_disturbed: bool
) -> None:
    result = run_with((), f"import os; {ending}")
    assert (result.status, result.was_disturbed) == ("failed", was_disturbed)


@pytest.mark.parametrize(
    ("records", "in_time", "expected"),
    [
        ("", False, ("broken", "it had not started at the deadline", True)),
        ("", True, ("broken", "its tester died", True)),
        (
            "BlockingIOError: [Errno 11] Resource temporarily unavailable\n",
            True,
            ("broken", "[Errno 11]", True),
        ),
        ("N killed SIGKILL\nN ended \n", True, ("broken", "its tester died", True)),
        ("N broken OSError: [Errno 95] no such wall\n", True, ("broken", "no such wall", False)),
        ("N started \n", False, ("timeout", "was still running at the deadline", True)),
        ("N started \n", True, ("failed", "its tester was killed", True)),
        ("N started \nN cpu \nN ended \n", True, ("timeout", "used up its CPU time", False)),
        ("N started \nN passed \n", False, ("passed", "", False)),
    ],
)
def test_the_verdict_depends_on_whether_the_program_had_started(
    records: str, in_time: bool, expected: tuple[str, str, bool]
) -> None:
    output = records.replace("N ", "nonce ").encode()
    result = verdict.of(output, "nonce", in_time=in_time)
    assert (result.status, result.was_disturbed) == (expected[0], expected[2])
    assert expected[1] in result.detail
