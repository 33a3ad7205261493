"""pass@1: the share of programs that pass their item's tests.

With one program per item the unbiased estimator of Chen et al. 2021
(https://arxiv.org/abs/2107.03374, section 2.1) is this share.
"""

from typing import Self

from pipeline import tasks
from pipeline.core.records import Item, Status
from pipeline.metrics import Metric, Segment
from pipeline.sandbox.offers import strongest
from pipeline.sandbox.run import Sandbox, UnitTests
from pipeline.sandbox.verdict import ExecutionResult


class PassAt1(Metric):
    """Percentage of programs that pass their item's tests in the sandbox.

    Equal programs should be given once: a verdict is not cached.
    """

    name = "pass_at_1"
    title = "pass@1"
    version = 3
    reads = "program"

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        """Programs run in `sandbox`; where there is none, in the strongest of this machine."""
        self._sandbox = sandbox

    def within(self, sandbox: Sandbox) -> Self:
        """The metric that runs programs in `sandbox`."""
        return type(self)(sandbox)

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """1 where the program passes `check(entry_point)`, else 0.

        A program that runs too long counts as 0 with status `timeout`; status `failed` says that
        the sandbox itself broke.
        """
        if not answer.answer:
            return Segment(status="no_answer", stats=[0.0])
        result = _execute(self._sandbox or strongest(), answer.answer, _tests(item))
        if result.status == "broken":
            return Segment(status="failed", stats=None, detail=result.detail)
        status: Status = "timeout" if result.status == "timeout" else "scored"
        passed = float(result.status == "passed")
        return Segment(status=status, stats=[passed], detail=result.detail)


def _tests(item: Item) -> UnitTests:
    """The item's tests, with the program's function under test.

    What else they name is the reference program's.
    """
    entry_point = item.fields["entry_point"]
    source = f"{item.fields['test']}\ncheck({entry_point})\n"
    return UnitTests(given=item.target, source=source, functions=[entry_point])


def _execute(sandbox: Sandbox, program: str, tests: UnitTests) -> ExecutionResult:
    """The verdict on `program`, with a second try, alone on the machine, where it was disturbed.

    On a busy machine a sound program can be late, or its process be killed for want of memory. One
    that used up its CPU time, ten times what any reference program needs, would do so anywhere:
    another try would only leave the other cores idle while it loops. There is no third try, and the
    second keeps its verdict, so a program that has itself killed gains nothing.
    """
    result = sandbox.run(program, tests)
    return sandbox.run(program, tests, alone=True) if result.was_disturbed else result


METRIC = PassAt1()
