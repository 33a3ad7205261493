"""Multiple choice: prompts, rows of each benchmark, the answer from log-probabilities, and orders
of options.
"""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from pipeline import tasks
from pipeline.core import tables
from pipeline.core.errors import DataError
from pipeline.core.records import Item
from pipeline.tasks._choice import as_published, most_probable_label, question_block

MMLU = tasks.get("mmlu")
ROW = {
    "question": " What is 1 + 1? \n",
    "subject": "elementary_mathematics",
    "choices": [" 1", "2 ", "3", "None"],
    "answer": 1,
}


def _outputs(vectors: list[list[float | None]], num_options: int = 4) -> pl.DataFrame:
    columns = {
        "item_id": [f"test-{i:05d}" for i in range(len(vectors))],
        "options": [["x"] * num_options] * len(vectors),
        "label_logprobs": vectors,
    }
    return pl.DataFrame(
        columns,
        schema={
            "item_id": pl.String,
            "options": pl.List(pl.String),
            "label_logprobs": pl.List(pl.Float64),
        },
    )


def _item(options: list[str], item_id: str = "test-00000") -> Item:
    fields = {"question": "Which?"}
    return Item(
        task="mmlu",
        item_id=item_id,
        group="",
        fields=fields,
        options=options,
        target="A",
        references=[],
    )


def test_the_prompt_is_the_papers() -> None:
    [item] = MMLU.items([ROW])
    assert MMLU.prompt(item) == tasks.Prompt(
        system="", user="Question: What is 1 + 1?\nA. 1\nB. 2\nC. 3\nD. None", prefill="Answer:"
    )
    assert MMLU.labels(item) == [" A", " B", " C", " D"]
    assert item.target == "B"


def test_the_prompt_for_reasoning_is_the_papers() -> None:
    task = tasks.get("mmlu", "cot")
    [item] = task.items([ROW])
    instruction = (
        "Answer the following multiple-choice question. First, provide a step-by-step "
        "reasoning process, and then give the final answer "
        "exactly in this format: 'The answer is X.'"
    )
    user = f"{instruction}\nQuestion: What is 1 + 1?\nA. 1\nB. 2\nC. 3\nD. None"
    assert task.prompt(item) == tasks.Prompt(system="", user=user, prefill="")
    assert task.gold_output(item) == "The answer is B."
    assert task.labels(item) == []


def test_a_shot_is_a_turn_of_the_user_and_one_of_the_assistant() -> None:
    task = tasks.get("mmlu", "five_shot")
    [item] = task.items([ROW])
    prompt = task.prompt(item, [item] * 5)
    assert (
        prompt.shots == (("Question: What is 1 + 1?\nA. 1\nB. 2\nC. 3\nD. None", "Answer: B"),) * 5
    )
    assert (prompt.user, prompt.prefill) == (prompt.shots[0][0], "Answer:")


def test_mmlu_takes_the_dev_rows_of_the_items_subject() -> None:
    task = tasks.get("mmlu", "five_shot")
    [item] = task.items([ROW])
    rows = [
        ROW | {"subject": subject}
        for _ in range(5)
        for subject in ("astronomy", "elementary_mathematics")
    ]
    shots = task.shots(item, list(task.examples(rows, [item])))
    assert [shot.item_id for shot in shots] == [f"dev-{i:05d}" for i in (1, 3, 5, 7, 9)]


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
        (
            "choices",
            ["1", "2", "3", float("nan")],
            "a list of 4 texts",
        ),  # what a CSV reader makes of the option `None`
        ("choices", "ABCD", "a list of 4 texts"),
        ("question", " ", "a text that is not empty"),
        ("subject", None, "a text that is not empty"),
    ],
)
def test_a_bad_row_is_named_with_what_was_expected(
    column: str, value: object, expected: str
) -> None:
    with pytest.raises(
        DataError, match=rf"task 'mmlu', row 1, column '{column}': expected {expected}, found "
    ):
        list(MMLU.items([ROW, ROW | {column: value}]))


@given(st.lists(st.lists(st.floats(-50, 0), min_size=4, max_size=4), max_size=20))
def test_the_answer_is_the_most_probable_label(vectors: list[list[float]]) -> None:
    answers = most_probable_label(_outputs(vectors), "mmlu")
    best = [[letter for letter, p in zip("ABCD", v, strict=True) if p == max(v)] for v in vectors]
    assert all(answer in letters for answer, letters in zip(answers["answer"], best, strict=True))
    assert answers["rule"].to_list() == [
        "argmax" if len(letters) == 1 else "tie" for letters in best
    ]
    assert answers.schema == {"answer": pl.String, "rule": pl.String}


def _tied(places: str, orders: list[int] | None = None, num_items: int = 1) -> pl.DataFrame:
    """Answers, as shown, of items in whose vectors the labels at `places` have the highest
    log-probability.
    """
    vectors = [[-1.0 if letter in places else -2.0 for letter in "ABCD"]] * num_items
    outputs = _outputs(vectors)
    if orders is not None:
        outputs = outputs.with_columns(option_order=pl.Series(orders, dtype=pl.Int64))
    return most_probable_label(outputs, "mmlu")


@pytest.mark.parametrize(
    ("vector", "label", "rule"),
    [
        (
            [-math.inf, -math.inf, -9.0, -math.inf],
            "C",
            "argmax",
        ),  # a label of probability 0 is no fault
        ([-1.0, -1.0 - 2**-40, -3.0, -3.0], "A", "argmax"),
        ([-1.0, -1.0, -1.0, -1.0], None, "tie"),
        ([-1.0, -2.0, -2.0, -2.0], "A", "argmax"),  # equals below the best decide nothing
        ([-3.0, -0.0, 0.0, -1.0], None, "tie"),
    ],
)
def test_the_rule_tells_a_tie_of_the_best_labels(
    vector: list[float], label: str | None, rule: str
) -> None:
    answer, found = most_probable_label(_outputs([vector]), "mmlu").row(0)
    assert found == rule
    assert label is None or answer == label


def test_a_tie_goes_to_a_label_that_is_tied() -> None:
    for places in ("AB", "BD", "ACD", "CD"):
        assert set(_tied(places, num_items=50)["answer"]) <= set(places)


def test_ties_favour_no_place_in_the_order_shown_nor_in_that_published() -> None:
    num_items, orders = 2_000, [order for order in (0, 3) for _ in range(1_000)]
    answers = _tied("ABCD", orders, num_items)["answer"]
    for half in (answers[:1_000], answers[1_000:]):
        share = np.array([(half == letter).mean() for letter in "ABCD"])
        assert np.abs(share - 0.25).max() < 0.06  # more than four standard errors


@pytest.mark.parametrize("options", [(0, 1), (1, 3), (0, 2, 3)])
def test_the_same_options_tied_give_the_same_answer_in_every_order(
    options: tuple[int, ...],
) -> None:
    published = []
    for order in range(6):
        shown = tasks.option_permutation(_item(["x"] * 4), order)
        outputs = _outputs(
            [[-1.0 if option in options else -2.0 for option in shown]]
        ).with_columns(option_order=pl.lit(order, pl.Int64))
        published.append(shown["ABCD".index(most_probable_label(outputs, "mmlu")["answer"].item())])
    assert len(set(published)) == 1
    assert published[0] in options


def test_rows_with_and_without_a_tie_stay_in_their_order() -> None:
    vectors = [
        [-1.0, -9.0, -9.0, -9.0],
        [-9.0, -9.0, -1.0, -1.0],
        [-9.0, -1.0, -9.0, -9.0],
        [-1.0] * 4,
    ]
    found = most_probable_label(_outputs(vectors), "mmlu")
    assert found["rule"].to_list() == ["argmax", "tie", "argmax", "tie"]
    assert found["answer"][0] == "A" and found["answer"][1] in "CD" and found["answer"][2] == "B"


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
def test_a_vector_that_decides_nothing_is_an_error_not_an_answer(
    vector: list[float | None],
) -> None:
    with pytest.raises(
        DataError, match=r"'mmlu': 1 of the outputs.*'test-00001': expected 4 numbers"
    ):
        most_probable_label(_outputs([[-1.0] * 4, vector]), "mmlu")


@pytest.mark.parametrize("num_options", [3, 4, 5])
def test_three_and_five_options_work_like_four(num_options: int) -> None:
    vector = [-2.0] * (num_options - 1) + [-1.0]
    last = most_probable_label(_outputs([vector], num_options), "other")["answer"].item()
    assert last == "ABCDE"[num_options - 1]
    item = _item(["x"] * num_options)
    assert MMLU.labels(item)[-1] == f" {last}"
    assert question_block(item).endswith(f"\n{last}. x")


def test_answers_come_in_the_order_of_the_outputs() -> None:
    items = list(MMLU.items([ROW] * 3))
    outputs = tables.from_records(Item, items).with_columns(
        text=pl.lit(""),
        label_logprobs=pl.Series(
            [[-1.0, -2.0, -2.0, -2.0], [-2.0, -2.0, -2.0, -1.0], [-2.0, -1.0, -2.0, -2.0]]
        ),
    )
    assert MMLU.answers(outputs)["answer"].to_list() == ["A", "D", "B"]


OPTIONS = ["p", "q", "r", "s"]


def _shown(items: list[Item], orders: list[int], labels: list[str]) -> pl.DataFrame:
    """What a model's choice of `labels` becomes when `items` were shown in `orders`."""
    outputs = tables.from_records(Item, items).with_columns(
        option_order=pl.Series(orders, dtype=pl.Int64)
    )
    return as_published(outputs, pl.DataFrame({"answer": labels, "rule": ["argmax"] * len(labels)}))


def test_labels_of_several_orders_and_items_are_mapped_row_by_row() -> None:
    items = [_item(OPTIONS, f"test-{i:05d}") for i in range(50)] * 4
    orders = [order for order in (3, 0, 1, 2) for _ in range(50)]
    labels = ["ABCD"[i % 4] for i in range(200)]
    expected = [
        "ABCD"[tasks.option_permutation(item, order)["ABCD".index(label)]]
        for item, order, label in zip(items, orders, labels, strict=True)
    ]
    assert _shown(items, orders, labels)["answer"].to_list() == expected
    assert expected != labels


def test_no_answer_stays_none_in_every_order() -> None:
    item = _item(OPTIONS)
    assert _shown([item, item], [1, 2], ["", ""])["answer"].to_list() == ["", ""]


def test_outputs_without_a_column_for_the_order_were_shown_as_published() -> None:
    outputs = tables.from_records(Item, [_item(OPTIONS)])
    shown = pl.DataFrame({"answer": ["C"], "rule": ["argmax"]})
    assert as_published(outputs, shown).equals(shown)


def test_a_text_is_read_in_the_order_shown() -> None:
    task, item = tasks.get("mmlu", "cot"), _item(OPTIONS)
    outputs = tables.from_records(Item, [item, item]).with_columns(
        option_order=pl.Series([0, 7], dtype=pl.Int64),
        text=pl.lit("The answer is B."),
        label_logprobs=pl.lit(None, pl.List(pl.Float64)),
    )
    assert task.answers(outputs)["answer"].to_list() == [
        "B",
        "ABCD"[tasks.option_permutation(item, 7)[1]],
    ]


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_every_place_of_an_order_shows_every_option_equally_often(order: int) -> None:
    first = [
        tasks.option_permutation(_item(OPTIONS, f"test-{i:05d}"), order)[0] for i in range(2_000)
    ]
    assert (
        np.abs(np.bincount(first, minlength=4) / 2_000 - 0.25).max() < 0.04
    )  # four standard errors


ARC = tasks.get("arc_challenge")
ARC_ROW: dict[str, Any] = {
    "id": "row_1",
    "question": "Which is red?",
    "choices": {"text": ["sky", "grass", "blood", "snow"], "label": ["1", "2", "3", "4"]},
    "answerKey": "3",
}


@pytest.mark.parametrize(
    ("labels", "key", "target"),
    [
        ("ABCD", "D", "D"),
        ("1234", "2", "B"),
        ("ABC", "C", "C"),
        ("123", "1", "A"),
        ("ABCDE", "E", "E"),
        ("12345", "5", "E"),
        ("DCBA", "D", "A"),  # by place, whatever the labels are
    ],
)
def test_an_arc_key_is_found_among_the_rows_own_labels(labels: str, key: str, target: str) -> None:
    texts = [f"option {label}" for label in labels]
    [item] = ARC.items(
        [ARC_ROW | {"choices": {"text": texts, "label": list(labels)}, "answerKey": key}]
    )
    assert (item.target, item.options) == (target, texts)
    assert ARC.labels(item) == [f" {letter}" for letter in "ABCDE"[: len(labels)]]


def test_arc_options_are_shown_under_letters() -> None:
    [item] = ARC.items([ARC_ROW])
    assert ARC.prompt(item).user == "Question: Which is red?\nA. sky\nB. grass\nC. blood\nD. snow"
    assert item.item_id == "row_1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"answerKey": "C"},
            r"column 'answerKey': expected one of the row's labels \(1, 2, 3, 4\), found 'C'",
        ),
        ({"choices": [{"text": "sky", "label": "1"}]}, "column 'choices': expected a mapping"),
        (
            {"choices": {"text": ["sky"], "label": ["1"]}},
            "column 'label': expected a list of two or more texts",
        ),
        (
            {"choices": {"text": ["sky", "grass", "blood"], "label": ["1", "2", "3", "4"]}},
            "column 'text': expected a list of 4 texts",
        ),
    ],
)
def test_a_bad_arc_row_is_named_with_what_was_expected(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=rf"task 'arc_challenge', row 0, {message}"):
        list(ARC.items([ARC_ROW | change]))


def test_arc_takes_the_first_rows_of_its_train_split() -> None:
    task = tasks.get("arc_challenge", "five_shot")
    [item] = task.items([ARC_ROW])
    examples = list(task.examples([ARC_ROW | {"id": f"train_{i}"} for i in range(8)], [item]))
    assert [shot.item_id for shot in task.shots(item, examples)] == [f"train_{i}" for i in range(5)]
    assert [source.split for source in task.example_sources] == ["train", "validation"]


GPQA = tasks.get("gpqa_diamond")


def _record(number: int, **change: str) -> dict[str, str]:
    """A made-up row; white space around the right answer alone would give it away."""
    answers = {
        "Correct Answer": " right\n",
        "Incorrect Answer 1": "wrong",
        "Incorrect Answer 2": "false",
        "Incorrect Answer 3": "amiss",
    }
    return {
        "Record ID": f"rec{number:04d}",
        "Question": f"Which is right, {number}?\n",
        "High-level domain": "Physics",
        **answers,
        **change,
    }


def test_the_right_gpqa_option_is_the_target_wherever_it_stands() -> None:
    for item in GPQA.items([_record(i) for i in range(50)]):
        assert item.options["ABCD".index(item.target)] == "right"
        assert sorted(item.options) == ["amiss", "false", "right", "wrong"]


def test_the_right_gpqa_option_stands_in_every_place_equally_often() -> None:
    counts = pl.Series(
        [item.target for item in GPQA.items([_record(i) for i in range(2_000)])]
    ).value_counts()["count"]
    assert counts.min() > 420  # four standard errors around 500
    assert counts.max() < 580


def test_gpqa_options_depend_on_the_record_alone() -> None:
    rows = [_record(i) for i in range(20)]
    options = {item.item_id: item.options for item in GPQA.items(rows)}
    assert options == {item.item_id: item.options for item in GPQA.items(rows[::-1])}
    assert options == {item.item_id: item.options for item in tasks.get("gpqa_main").items(rows)}
    assert list(options) == [f"rec{i:04d}" for i in range(20)]


def test_gpqa_texts_are_stripped() -> None:
    [item] = GPQA.items([_record(1, **{"Incorrect Answer 2": "false \n"})])
    assert GPQA.prompt(item).user.startswith("Question: Which is right, 1?\nA. ")
    assert all(text == text.strip() for text in item.options)


def test_a_gpqa_row_without_a_record_id_is_an_error() -> None:
    with pytest.raises(
        DataError,
        match="task 'gpqa_diamond', row 1, column 'Record ID': expected a text that is not empty",
    ):
        list(GPQA.items([_record(0), _record(1, **{"Record ID": " "})]))


@pytest.mark.parametrize("name", ["gpqa_diamond", "gpqa_main"])
def test_gpqa_shots_are_of_the_larger_set_only_and_do_not_depend_on_its_order(name: str) -> None:
    task = tasks.get(name, "five_shot")
    larger = [_record(i) for i in range(60)]
    items = list(task.items(larger[:40]))
    shots = task.shots(items[0], list(task.examples(larger, items)))
    assert {shot.item_id for shot in shots} <= {f"rec{i:04d}" for i in range(40, 60)}
    assert shots == task.shots(items[39], list(task.examples(larger[::-1], items)))
    assert [shot.item_id for shot in shots] != [
        f"rec{i:04d}" for i in range(40, 45)
    ]  # drawn, not the first
