"""Multiple-choice items: the block a prompt shows, the labels, and the answer from log-probabilities or from text.

Wording of the block: Figure 6 of the paper (arXiv 2609.36931). Works for any number of options up to 26.
"""

import re
from collections.abc import Sequence
from string import ascii_uppercase

import polars as pl

from pipeline.errors import DataError
from pipeline.tasks import NO_ANSWER, Answer
from pipeline.tasks._reasoning import visible

LETTERS = ascii_uppercase
"""The labels, first option first."""
_STATED = re.compile(r"(?i:\banswer\b(?:\s+is|\s*:)?[\s:*_$(\[{\\'\"]*(?:boxed\{|text\{|option\s+)*)([A-Z])\b(?!['’])")
"""`The answer is B`, `Answer: (B)`, `**Answer:** B`, `the answer is \\boxed{B}`."""
_LEADING = re.compile(r"\A[\s*_(\[\"'`]*([A-Z])(?:[\s*_)\].:,\"'`]|\Z)")
"""The label with which a text begins, as in `B. because ...`; a capital, so that the word `a` is none."""


def question_block(question: str, options: Sequence[str]) -> str:
    """`Question: ...` and one line `A. ...` for each option."""
    return "\n".join([f"Question: {question}", *(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))])


def spaced_labels(num_options: int) -> list[str]:
    """The texts ` A`, ` B`, ...: what follows a prompt that ends in `Answer:`. A bare `A` would be another token."""
    return [f" {letter}" for letter in LETTERS[:num_options]]


def read_label(text: str, num_options: int) -> Answer:
    """The label that a generated `text` states: the last `answer is X`, or else the one it begins with; `NO_ANSWER` if neither."""
    allowed, text = LETTERS[:num_options], visible(text)
    stated = [letter for letter in _STATED.findall(text) if letter in allowed]
    if stated:
        return Answer(answer=stated[-1], rule="stated")
    leading = _LEADING.match(text)
    return Answer(answer=leading[1], rule="leading") if leading and leading[1] in allowed else NO_ANSWER


def most_probable_label(outputs: pl.DataFrame, task: str) -> pl.DataFrame:
    """Columns `answer` and `rule`: the label with the highest log-probability, the first of equal ones, for whole columns at once.

    Raises:
        DataError: a vector has another length than the options, holds a null, NaN or +inf, or is -inf throughout. That is a fault of
            the engine or of a file, which must not pass for the model's answer.
    """
    logprobs = pl.col("label_logprobs")
    bad = outputs.filter(~_is_usable(logprobs).fill_null(value=False))
    if bad.height:
        raise _unusable(bad, task)
    letter = pl.lit(LETTERS).str.slice(logprobs.list.arg_max(), 1)
    return outputs.select(answer=letter, rule=pl.lit("argmax"))


def _is_usable(logprobs: pl.Expr) -> pl.Expr:
    """Whether each vector has a number for every option, of which one at least is finite."""
    element = pl.element()
    complete = (logprobs.list.len() == pl.col("options").list.len()) & (logprobs.list.len() > 0)
    faulty = logprobs.list.eval(element.is_null() | element.is_nan() | (element == float("inf"))).list.any()
    return complete & ~faulty & logprobs.list.eval(element.is_finite()).list.any()


def _unusable(bad: pl.DataFrame, task: str) -> DataError:
    first = bad.row(0, named=True)
    return DataError(
        f"task {task!r}: {bad.height} of the outputs have label_logprobs that decide nothing, first item {first['item_id']!r}: expected "
        f"{len(first['options'])} numbers (natural-log probabilities, one at least finite), found {first['label_logprobs']}; "
        "generate these shards anew"
    )
