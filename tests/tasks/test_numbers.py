"""Which number is read out of a worked solution.

Every row is a way in which a published harness is known to go wrong, or its neighbour.
"""

import json
import os
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st

from pipeline import tasks
from pipeline.core.errors import DataError
from pipeline.tasks._numbers import canonical, read_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("72 clips, altogether.", "72"),
        ("the answer is $1,250.", "1250"),
        ("the result is -$5.", "-5"),
        ("The answer is 18.00", "18"),
        ("12 (i.e. 3 x 4).", "12"),
        ("is 5. And that is it...", "5"),
        ("is 5. Cost: $.", "5"),
        ("Total = 1 250", "1250"),
        ("5 apples.\n\nQuestion: Tom has 9 pears. How many?\nAnswer: 9", "5"),
        ("5 apples. Question: Tom has 9", "5"),
        ("range is 5-7", "7"),
    ],
)
def test_outputs_that_published_rules_misread(text: str, number: str) -> None:
    assert read_number(text).answer == number


@pytest.mark.parametrize(
    ("text", "number", "rule"),
    [
        ("Answer: 18", "18", "answer"),
        ("**Answer:** $18", "18", "answer"),
        ("**Final Answer: 18 dollars**", "18", "answer"),
        ("Answer:\n\n18", "18", "answer"),
        ("Answer = 18", "18", "answer"),
        ("So she pays 9.\nA: 18", "18", "answer"),
        ("Answer: `18`", "18", "answer"),
        ("Answer: \\( 18 \\)", "18", "answer"),
        ("Answer: 18 eggs in 2 days", "18", "answer"),
        ("Answer: 3 x 4 = 12 apples", "12", "answer"),
        ("Answer: 12 = 3 x 4", "12", "answer"),
        ("Answer: 10 - 3 = 7", "7", "answer"),
        ("Answer: 18 (since 9 * 2 = 18)", "18", "answer"),
        ("Answer: 12–15", "15", "answer"),  # of a range the last number, as in the table above
        ("Answer: 5-7", "7", "answer"),
        ("Answer: $1,000-$1,250 in 3 days", "1250", "answer"),
        ("Answer: 5-7\nThat took 3 days.", "7", "answer"),
        ("The answer is 5-7.", "7", "answer_is"),
        ("\\boxed{5-7}", "7", "boxed"),
        ("Answer: 5-7 = -2", "-2", "answer"),  # a difference
        ("Answer: 18 – 20 were red", "18", "answer"),  # a dash between spaces
        ("Answer: 1/2", "0.5", "answer"),
        ("Answer: \\frac{14}{2}", "7", "answer"),
        ("Answer: 25%", "25", "answer"),
        ("Answer: <18>", "18", "answer"),  # with the brackets of the instruction
        ("**Answer: $18.00**", "18", "answer"),
        ("'Answer: 18'", "18", "answer"),
        ("Answer:\r\n18\r\n", "18", "answer"),
        ("Answer: 18<|eot_id|>", "18", "answer"),
        ("Answer: -$1,250.50", "-1250.5", "answer"),
        ("Answer: x = 18", "18", "answer"),
        ("Answer: \\text{18 apples}", "18", "answer"),
        ("Answer: 18\n\n(Rounded from 17.9)", "18", "answer"),
        ("Answer:\n\\[ \\boxed{18} \\]", "18", "boxed"),
        ("The answer is therefore 18.", "18", "answer_is"),
        ("The answer to the problem is 42.", "42", "answer_is"),
        ("The answer, then, is 42. It took 3 steps.", "42", "answer_is"),
        ("The final answer is: $$18$$", "18", "answer_is"),
        ("#### 2,125", "2125", "hashes"),
        ("#### $-3", "-3", "hashes"),
        ("The answer is \\boxed{\\$1{,}250}.", "1250", "boxed"),
        ("\\[ \\boxed{9\\,500 \\text{ dollars}} \\]", "9500", "boxed"),
        ("\\boxed{\\frac{1}{4}}", "0.25", "boxed"),
        ("#### Step 1: 3 eggs\nThat gives 18 dollars.", "18", "last_number"),
        ("#### 1. Eggs\n16\n#### 2. Rest: 5\n**18**", "18", "last_number"),
        ("To answer this we need all 3 steps, which gives 18", "18", "last_number"),
        ("She has (3 + 4) = 7", "7", "last_number"),
        ("(5)", "5", "last_number"),
    ],
)
def test_the_statement_of_the_answer_decides(text: str, number: str, rule: str) -> None:
    assert read_number(text) == tasks.Answer(answer=number, rule=rule)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Answer: 4\nWait, that is wrong.\nAnswer: 5", "5"),  # the last statement, not the first
        ("#### 4\n#### 5", "5"),
        (
            "Answer: 7\nI wrote it in the format 'Answer: <number>'.",
            "7",
        ),  # a statement without a number is none
        ("<think>The answer is 9.</think>So it is 4.", "4"),
        ("The answer is 9.</think>Answer: 4", "4"),  # opened by the chat template
        ("analysisIs the answer 9?assistantfinalAnswer: 4", "4"),
        (
            "<|channel|>analysis<|message|>9?<|end|><|start|>assistant"
            "<|channel|>final<|message|>Answer: 4<|return|>",
            "4",
        ),
        (
            "Question: Tom has 3 pears and buys 4. How many?\nAnswer: 7",
            "7",
        ),  # the question restated, not invented
        ("Answer: 7\n\nQ: Ann has 5 figs.\nA: 5", "7"),
        ("Answer: 7\nUser: And 8?", "7"),
    ],
)
def test_only_the_final_statement_on_the_given_question_counts(text: str, number: str) -> None:
    assert read_number(text).answer == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        ", . $ - %",
        "<think>Answer: 9",
        "x2 and H2O",
        "\\boxed{}",
        "Answer: <number>",
        "...",
    ],
)
def test_no_number_is_no_answer(text: str) -> None:
    assert read_number(text) == tasks.NO_ANSWER


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-3", "-3"),
        ("-$3", "-3"),
        ("$-3", "-3"),
        ("\u22123", "-3"),
        ("-0.0", "0"),
        ("007", "7"),
        ("1,450,000", "1450000"),
        ("1\u202f250", "1250"),
        ("1\u2009250.50", "1250.5"),
        ("1\u00a0250", "1250"),
        ("1'250", "1250"),
        (".5", "0.5"),
        ("€ 12.30", "12.3"),
        ("1" * 40 + ".10", "1" * 40 + ".1"),
    ],
)
def test_numbers_become_canonical(text: str, number: str) -> None:
    assert canonical(text) == number
    assert read_number(f"Answer: {text}.").answer == number


@pytest.mark.parametrize("text", ["", "3 apples", "3-4", "1e5", "12,34", "--3", "three", "1.2.3"])
def test_what_is_no_single_number_is_none(text: str) -> None:
    assert canonical(text) is None


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9
    ),
    st.sampled_from(["{}", "{:,}", "{:f}0"]),
)
def test_every_way_to_write_a_number_has_one_form(value: Decimal, style: str) -> None:
    written = style.format(value)
    form = canonical(written)
    assert form is not None
    assert Decimal(form) == value
    assert canonical(form) == form
    assert read_number(f"It was 7, then 8.\nAnswer: {written}").answer == form


@given(st.integers(-(10**6), 10**6), st.text())
def test_a_reasoning_block_never_decides(number: int, thought: str) -> None:
    assert read_number(f"<think>{thought}</think>\nAnswer: {number}").answer == str(number)


PIECES = st.sampled_from(
    [
        "Answer:",
        "####",
        "\\boxed{",
        "}",
        "=",
        "/",
        "-",
        "$",
        "1",
        "0",
        "1,250",
        ".",
        "(",
        ")",
        "\n",
        " ",
        "Question:",
        "A:",
        "\\frac{",
        "x",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=15).map("".join)))
def test_any_text_gives_a_canonical_number_or_none(text: str) -> None:
    answer = read_number(text)
    assert (answer == tasks.NO_ANSWER) or canonical(answer.answer) == answer.answer


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 20_000,
        "####" * 50_000,
        "Answer:" * 20_000,
        "(" * 100_000,
        "\n" * 100_000,
        "9" * 100_000,
        "1/" * 50_000,
    ],
)
@pytest.mark.timeout(20)
def test_degenerate_outputs_are_read_in_time(text: str) -> None:
    assert isinstance(read_number(text).answer, str)


@pytest.mark.parametrize("answer", ["no marker 5", "#### ", "#### five", "5 ####"])
def test_a_row_without_a_gold_number_is_an_error(answer: str) -> None:
    with pytest.raises(DataError, match=r"task 'gsm8k', row 0, column 'answer'.*#### <number>"):
        list(tasks.get("gsm8k").items([{"question": "How many?", "answer": answer}]))


@pytest.fixture(scope="module")
def published() -> tuple[list[str], list[dict[str, object]]]:
    """Targets of the test split, and the solutions of four models with verdicts of people."""
    data = os.environ.get("DATESWEEP_DATA")
    if not data:
        pytest.skip("DATESWEEP_DATA is not set")
    rows = pl.read_parquet(Path(data) / "openai/gsm8k/main/test.parquet").to_dicts()
    outputs = Path(data).parent / "outputs/gsm8k/openai_example_model_solutions.jsonl"
    solutions = [json.loads(line) for line in outputs.read_text(encoding="utf-8").splitlines()]
    assert [r["question"] for r in rows] == [s["question"] for s in solutions]
    return [item.target for item in tasks.get("gsm8k").items(rows)], solutions


@pytest.mark.parametrize(
    ("model", "num_correct"),
    [
        ("6b_finetuning", 286),
        ("6b_verification", 515),
        ("175b_finetuning", 458),
        ("175b_verification", 742),
    ],
)
def test_verdicts_agree_with_those_of_people(
    published: tuple[list[str], list[dict]], model: str, num_correct: int
) -> None:
    targets, solutions = published
    ours = [
        read_number(s[model]["solution"]).answer == target
        for s, target in zip(solutions, targets, strict=True)
    ]
    assert ours == [s[model]["is_correct"] for s in solutions]
    assert sum(ours) == num_correct
    assert len(ours) == 1319
