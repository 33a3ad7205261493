"""Multiple choice: the answer from log-probabilities, and the label that a text states."""

import json
import math
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import frames, tasks
from pipeline.errors import DataError
from pipeline.records import Item
from pipeline.tasks._choice import most_probable_label, question_block, read_label, spaced_labels

MMLU = tasks.get("mmlu")
ROW = {"question": " What is 1 + 1? \n", "subject": "elementary_mathematics", "choices": [" 1", "2 ", "3", "None"], "answer": 1}


def _outputs(vectors: list[list[float | None]], num_options: int = 4) -> pl.DataFrame:
    columns = {
        "item_id": [f"test-{i:05d}" for i in range(len(vectors))],
        "options": [["x"] * num_options] * len(vectors),
        "label_logprobs": vectors,
    }
    return pl.DataFrame(columns, schema={"item_id": pl.String, "options": pl.List(pl.String), "label_logprobs": pl.List(pl.Float64)})


def test_the_prompt_is_the_papers() -> None:
    [item] = MMLU.items([ROW])
    assert MMLU.prompt(item) == tasks.Prompt(system="", user="Question: What is 1 + 1?\nA. 1\nB. 2\nC. 3\nD. None", prefill="Answer:")
    assert MMLU.labels(item) == [" A", " B", " C", " D"]
    assert item.target == "B"


def test_padding_does_not_tell_the_options_apart() -> None:
    [item] = MMLU.items([ROW])
    assert item.options == ["1", "2", "3", "None"]


def test_the_gold_label_is_taken_by_place_when_options_are_equal() -> None:
    [item] = MMLU.items([ROW | {"choices": ["2", "2", "2", "2"], "answer": 3}])
    assert item.target == "D"


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("answer", "B", "an integer from 0 to 3"),
        ("answer", 4, "an integer from 0 to 3"),
        ("answer", -1, "an integer from 0 to 3"),
        ("answer", True, "an integer from 0 to 3"),
        ("answer", None, "an integer from 0 to 3"),
        ("choices", ["1", "2", "3"], "a list of 4 texts"),
        ("choices", ["1", "2", "3", float("nan")], "a list of 4 texts"),  # what a CSV reader makes of the option `None`
        ("choices", "ABCD", "a list of 4 texts"),
        ("question", " ", "a text that is not empty"),
        ("subject", None, "a text that is not empty"),
    ],
)
def test_a_bad_row_is_named_with_what_was_expected(column: str, value: object, expected: str) -> None:
    with pytest.raises(DataError, match=rf"task 'mmlu', row 1, column '{column}': expected {expected}, found "):
        list(MMLU.items([ROW, ROW | {column: value}]))


@given(st.lists(st.lists(st.floats(-50, 0), min_size=4, max_size=4), max_size=20))
def test_the_most_probable_label_is_the_first_maximum(vectors: list[list[float]]) -> None:
    answers = most_probable_label(_outputs(vectors), "mmlu")
    assert answers["answer"].to_list() == ["ABCD"[int(np.argmax(v))] for v in vectors]
    assert answers.schema == {"answer": pl.String, "rule": pl.String}
    assert set(answers["rule"]) <= {"argmax"}


@pytest.mark.parametrize(
    ("vector", "label"),
    [
        ([-1.0, -1.0, -1.0, -1.0], "A"),
        ([-2.0, -1.0, -1.0, -3.0], "B"),
        ([-math.inf, -math.inf, -9.0, -math.inf], "C"),  # a label of probability 0 is no fault
        ([-0.0, 0.0, -1.0, -1.0], "A"),
    ],
)
def test_ties_go_to_the_first_label(vector: list[float], label: str) -> None:
    assert most_probable_label(_outputs([vector]), "mmlu")["answer"].item() == label


@pytest.mark.parametrize(
    "vector",
    [
        [],
        [-1.0] * 3,
        [-1.0] * 5,
        [-1.0, None, -2.0, -3.0],
        [-1.0, math.nan, -2.0, -3.0],
        [-math.inf] * 4,
        [math.inf, -1.0, -1.0, -1.0],
        None,
    ],
    ids=["empty", "short", "long", "null", "NaN", "all -inf", "+inf", "no vector"],
)
def test_a_vector_that_decides_nothing_is_an_error_not_an_answer(vector: list[float | None]) -> None:
    with pytest.raises(DataError, match=r"'mmlu': 1 of the outputs.*'test-00001': expected 4 numbers"):
        most_probable_label(_outputs([[-1.0] * 4, vector]), "mmlu")


@pytest.mark.parametrize("num_options", [3, 4, 5])
def test_three_and_five_options_work_like_four(num_options: int) -> None:
    vector = [-2.0] * (num_options - 1) + [-1.0]
    last = most_probable_label(_outputs([vector], num_options), "other")["answer"].item()
    assert last == "ABCDE"[num_options - 1]
    assert spaced_labels(num_options)[-1] == f" {last}"
    assert question_block("Q", ["x"] * num_options).endswith(f"\n{last}. x")


def test_answers_come_in_the_order_of_the_outputs() -> None:
    items = list(MMLU.items([ROW] * 3))
    outputs = frames.from_records(Item, items).with_columns(
        text=pl.lit(""), label_logprobs=pl.Series([[-1.0, -2.0, -2.0, -2.0], [-2.0, -2.0, -2.0, -1.0], [-2.0, -1.0, -2.0, -2.0]])
    )
    assert MMLU.answers(outputs)["answer"].to_list() == ["A", "D", "B"]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (" B", "B"),
        ("B. because it is", "B"),
        ("(C)", "C"),
        ("**D**", "D"),
        ("The answer is B.", "B"),
        ("Answer: (B)", "B"),
        ("**Answer:** B", "B"),
        ("The answer is \\boxed{B}", "B"),
        ("Answer: A is tempting.\nThe answer is B.", "B"),  # the last statement
        ("<think>The answer is A.</think>The answer is B.", "B"),
        ("A good question. The answer is C.", "C"),
        ("The answer is E.", ""),  # no such option
        (" Navy", ""),
        (" CS", ""),
        ("Because it is", ""),
        ("a matter of taste", ""),
        ("The answer is a matter of taste", ""),
        ("", ""),
    ],
)
def test_labels_in_texts(text: str, label: str) -> None:
    assert read_label(text, 4).answer == label


def test_published_outputs_get_their_published_accuracy() -> None:
    data = os.environ.get("DATESWEEP_DATA")
    if not data:
        pytest.skip("DATESWEEP_DATA is not set")
    path = Path(data).parent / "outputs/mmlu/fedllm_llama2-7b_checkpoint-0.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    right = [read_label(row["raw_tail"], 4).answer == "ABCD"[row["answer"]] for row in rows]
    assert len(right) == 12_343
    assert round(sum(right) / len(right), 4) == 0.4692
