"""Which label is read out of a text.

Every row is a shape that models write, or its neighbour that must not be taken for a label.
"""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pipeline import tasks
from pipeline.tasks._labels import read_label


@pytest.mark.parametrize(
    ("text", "label", "rule"),
    [
        # as the instruction asks
        ("The answer is B.", "B", "stated"),
        ("Two and two make four.\n\nThe answer is B.", "B", "stated"),
        ("The answer is B.\r\n", "B", "stated"),
        ("The answer is B.<|eot_id|>", "B", "stated"),
        # other words
        ("The correct answer is C", "C", "stated"),
        ("The answer is: D", "D", "stated"),
        ("The answer is therefore B", "B", "stated"),
        ("The answer is clearly B.", "B", "stated"),
        ("The answer, therefore, is B.", "B", "stated"),
        ("The answer to the question is B.", "B", "stated"),
        ("The answer would be option D.", "D", "stated"),
        ("The answer is the letter B", "B", "stated"),
        ("The correct option is C.", "C", "stated"),
        ("The best choice is: C", "C", "stated"),
        ("Answer: B", "B", "stated"),
        ("Final answer: (B)", "B", "stated"),
        ("Answer - B", "B", "stated"),
        ("Answer → B", "B", "stated"),
        ("Correct option: [D]", "D", "stated"),
        ("ANSWER: D", "D", "stated"),
        # marks and markup
        ("**Answer:** B", "B", "stated"),
        ("**Answer: B**", "B", "stated"),
        ("The answer is **B**.", "B", "stated"),
        ("The answer is **(B)**", "B", "stated"),
        ("The answer is _B_.", "B", "stated"),
        ("The answer is `B`.", "B", "stated"),
        ('The answer is "B".', "B", "stated"),
        ("The answer is 'B'.", "B", "stated"),
        ("The answer is “B”.", "B", "stated"),
        ("The answer is <B>.", "B", "stated"),
        ("The answer is\n\nB.", "B", "stated"),
        ("**Final Answer**\n\nB", "B", "stated"),
        ("### Answer\nB. Paris", "B", "stated"),
        # LaTeX
        ("\\boxed{B}", "B", "boxed"),
        ("Hence $\\boxed{\\text{(C)}}$.", "C", "boxed"),
        ("The answer is \\boxed{B}", "B", "stated"),
        ("The answer is $\\boxed{\\mathrm{D}}$", "D", "stated"),
        ("The answer is \\(B\\).", "B", "stated"),
        ("The answer is \\textbf{B}.", "B", "stated"),
        # the option's text behind the label
        ("The answer is B. Paris", "B", "stated"),
        ("The answer is B) Paris.", "B", "stated"),
        ("The answer is B: Paris", "B", "stated"),
        ("The answer is **B. Paris**.", "B", "stated"),
        ("The answer is:\n\n**C. Paris**", "C", "stated"),
        ("The answer is (B) The light of the Sun", "B", "stated"),
        ("The answer is B. ~A", "B", "stated"),
        ("The answer is C. B", "C", "stated"),
        # small letters
        ("the answer is b.", "B", "stated"),
        ("the answer is a.", "A", "stated"),
        ("the answer is a", "A", "stated"),
        ("The answer is (c)", "C", "stated"),
        ("answer: d", "D", "stated"),
        ("b", "B", "last_line"),
        ("b) because", "B", "leading"),
        # several statements
        ("Answer: A is tempting.\nThe answer is B.", "B", "stated"),
        ("The answer is A. Wait, no. The answer is actually C.", "C", "stated"),
        ("\\boxed{A}. No: the answer is B.", "B", "stated"),
        ("The answer is B. Answer C is wrong, since it is too hot.", "B", "stated"),
        ("The answer is B.\nAnswer C is wrong.", "B", "stated"),
        ("The answer is B.\nOption A is correct only in winter.", "B", "stated"),
        ("The answer is B. I replied in the format 'The answer is X.'", "B", "stated"),
        # A as an article and as a label
        ("A good question. The answer is C.", "C", "stated"),
        ("Answer: A", "A", "stated"),
        ("Answer: A, a plant cell", "A", "stated"),
        ("The answer is A because it is warm", "A", "stated"),
        ("The answer is A warm day", "A", "stated"),  # a capital in mid-sentence is no article
        ("A is right", "A", "confirmed"),
        # one label beside words that name another
        ("The answer is A, because B is too hot", "A", "stated"),
        ("The answer is B and not A.", "B", "stated"),
        ("The answer is B, not A.", "B", "stated"),
        ("The answer is B, A is wrong.", "B", "stated"),
        ("The answer is B and C is too hot.", "B", "stated"),
        ("The answer is C, and A and B are wrong.", "C", "stated"),
        ("The answer is C, as A and B are wrong.", "C", "stated"),
        ("The answer is D: A and B", "D", "stated"),  # the option's text
        ("The answer is D. Both A and B are right.", "D", "stated"),
        ("The answer is B, a warm day or A", "B", "stated"),
        ("Answer: B, A warm day", "B", "stated"),
        ("The answer is B, I think.", "B", "stated"),
        ("So the answer is A or B. As it is cold, B is the correct answer.", "B", "confirmed"),
        ("The answer is A or B.\nThe answer is B.", "B", "stated"),
        ("Between A and B, B is the correct answer.", "B", "confirmed"),
        # without a statement
        (" B", "B", "last_line"),
        ("**D**", "D", "last_line"),
        ("(C)", "C", "last_line"),
        ("It is warm.\n\n**B**", "B", "last_line"),
        ("A. It is warm: no.\nB. It is cold: yes.\n\nB", "B", "last_line"),
        ("B. because it is", "B", "leading"),
        ("Therefore, B is the correct answer.", "B", "confirmed"),
        ("Option A is wrong. Option B is correct.", "B", "confirmed"),
        # reasoning blocks
        ("<think>The answer is A.</think>The answer is B.", "B", "stated"),
        ("The answer is A.</think>\n\nB", "B", "last_line"),
        ("analysisThe answer is A?assistantfinalThe answer is B.", "B", "stated"),
    ],
)
def test_the_label_and_the_rule(text: str, label: str, rule: str) -> None:
    assert read_label(text, 4) == tasks.Answer(answer=label, rule=rule)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Because it is",
        "The answer is X.",  # the instruction's own
        "The answer is E.",  # no such option
        "The answer is 4.",
        "The answer is Paris.",
        "The answer is not B.",
        "The answer cannot be B.",
        " Navy",
        " CS",
        "a matter of taste",
        "The answer is a matter of taste",
        "the answer is b vitamins",
        "A triangle has three sides",
        "Answer: A plant cell",
        "Statement A is correct, and so is the other.",
        "The answer is B. F. Skinner.",
        "The answer is ~A.",
        "The answer is B-cells.",
        "The answer is C++.",
        "The answer is A/B.",
        "The answer is A or B",  # hedges
        "The answer is (A) and (B)",
        "The answer is A, B",
        "The answer is A, B, and C.",
        "The answer is A / B.",
        "The answer is (A)/(B).",
        "The answer is A & B",
        "The answer is A and/or B",
        "The answer is A or\nB",
        "The answer is **A** or **B**.",
        "The answer is (a) or (b).",
        "The answer is option A or option B.",
        "The answer is \\(A\\) or \\(B\\).",
        "\\boxed{A, B}",
        "\\boxed{A} or \\boxed{\\text{B}}",
        "A or B is correct.",
        "Neither A nor B is correct.",
        "A and B",
        "A, B",
        "The answer is C'est la vie.",
        "A. It is warm: no.\nB. It is cold: yes.\nHence it is cold.",  # a list of the options
        "- A) It is warm.\n- B) It is cold.",
        "<think>The answer is A.",
        "To answer, consider the Sun",
    ],
)
def test_texts_without_a_label_are_no_answer(text: str) -> None:
    assert read_label(text, 4) == tasks.NO_ANSWER


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The answer is I.", "I"),
        ("Answer: I", "I"),
        ("The answer is I, since it is warm", "I"),
        ("I. because it is warm", "I"),
        ("I think so", ""),
        ("I'd say it is warm", ""),
        ("The answer is I think the third", ""),
        ("Answer: I believe it is warm", ""),
        ("The answer is I believe. The answer is C.", "C"),
        ("The answer is C, I think", "C"),
        ("The answer is C or I", ""),
        ("The answer is e.g. the Sun", ""),
        ("i.e. the Sun", ""),
        ("The answer is J.", "J"),
        ("The answer is K.", ""),
    ],
)
def test_with_ten_options_the_pronoun_is_no_label(text: str, label: str) -> None:
    assert read_label(text, 10).answer == label


@given(st.integers(2, 26), st.integers(0, 25), st.text())
def test_a_reasoning_block_never_decides(num_options: int, choice: int, thought: str) -> None:
    letter = tasks.LETTERS[choice % num_options]
    assert (
        read_label(f"<think>{thought}</think>\nThe answer is {letter}.", num_options).answer
        == letter
    )


PIECES = st.sampled_from(
    [
        "The answer is ",
        "Answer:",
        "\\boxed{",
        "\\text{",
        "}",
        "A",
        "B",
        "E",
        "I",
        "a",
        "b",
        ".",
        ")",
        "**",
        "\n",
        " ",
        "(",
        "is",
        " correct",
        "~",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=15).map("".join)), st.integers(2, 26))
def test_any_text_gives_an_allowed_label_or_none(text: str, num_options: int) -> None:
    answer = read_label(text, num_options)
    assert answer == tasks.NO_ANSWER or answer.answer in list(tasks.LETTERS[:num_options])


@pytest.mark.parametrize(
    "text",
    [
        "answer:" * 20_000,
        "answer is the option " * 20_000,
        "answer is" + "\n" * 100_000,
        "\\boxed{" * 20_000,
        "\n" * 100_000,
        "*" * 100_000,
        "A. " * 50_000,
        "(\n" * 50_000,
        "B is the " * 20_000,
        "A, " * 50_000,
        "A ," + "(\n" * 50_000,
    ],
    ids=lambda text: repr(text[:12]),
)
@pytest.mark.timeout(20)
def test_degenerate_outputs_are_read_in_time(text: str) -> None:
    assert isinstance(read_label(text, 4).answer, str)


def test_published_outputs_get_their_published_accuracy() -> None:
    data = os.environ.get("DATESWEEP_DATA")
    if not data:
        pytest.skip("DATESWEEP_DATA is not set")
    path = Path(data).parent / "outputs/mmlu/fedllm_llama2-7b_checkpoint-0.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    right = [read_label(row["raw_tail"], 4).answer == "ABCD"[row["answer"]] for row in rows]
    assert len(right) == 12_343
    assert round(sum(right) / len(right), 4) == 0.4692
