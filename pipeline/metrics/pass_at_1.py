"""pass@1: the share of programs that pass their item's tests.

With one program per item the unbiased estimator of Chen et al. 2021
(https://arxiv.org/abs/2107.03374, section 2.1) is this share.
"""

from typing import ClassVar

from pipeline import tasks
from pipeline.core.records import Item, Status
from pipeline.metrics import Array, Metric, Reads, Segment
from pipeline.metrics._ratio import percent
from pipeline.sandbox import run as sandbox


class PassAt1(Metric):
    """Runs each answer with its item's tests in the sandbox.

    Equal programs should be given once: a verdict is not cached.
    """

    name: ClassVar[str] = "pass_at_1"
    title: ClassVar[str] = "pass@1"
    version: ClassVar[int] = 3
    stat_names: ClassVar[tuple[str, ...]] = ("passed",)
    reads: ClassVar[Reads] = "program"

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """1 where the program passes `check(entry_point)`, else 0.

        A program that runs too long counts as 0 with status `timeout`; status `failed` says that
        the sandbox itself broke.
        """
        if not answer.answer:
            return Segment(status="no_answer", stats=[0.0])
        result = _execute(answer.answer, _tests(item))
        if result.status == "broken":
            return Segment(status="failed", stats=None, detail=result.detail)
        status: Status = "timeout" if result.status == "timeout" else "scored"
        return Segment(
            status=status, stats=[float(result.status == "passed")], detail=result.detail
        )

    def combine(self, sums: Array, counts: Array) -> Array:
        """Percentage of programs that passed."""
        return percent(sums[..., 0], counts)


def _tests(item: Item) -> sandbox.UnitTests:
    """The item's tests: the function under test is the program's, and what else they name is the
    reference program's.
    """
    entry_point = item.fields["entry_point"]
    return sandbox.UnitTests(
        given=item.target,
        source=f"{item.fields['test']}\ncheck({entry_point})\n",
        functions=[entry_point],
    )


def _execute(program: str, tests: sandbox.UnitTests) -> sandbox.ExecutionResult:
    """The verdict on `program`, with a second try, alone on the machine, where something beside the
    program may have decided the first.

    On a busy machine a sound program can be late, or its process be killed for want of memory. One
    that used up its CPU time, ten times what any reference program needs, would do so anywhere:
    another try would only leave the other cores idle while it loops. There is no third try, and the
    second keeps its verdict, so a program that has itself killed gains nothing.
    """
    result = sandbox.run(program, tests)
    return sandbox.run(program, tests, alone=True) if result.was_disturbed else result


METRIC = PassAt1()
