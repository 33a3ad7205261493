"""Multiple-choice benchmarks: what they share, their prompts, and answers from log-probabilities.

Layout of the prompts: Figures 6 and 7 of the paper (arXiv 2609.36931), which does not state that of
worked examples. `_labels.py` reads labels out of texts. Works for any number of options up to 26.

Ties. Where several labels have the highest log-probability, to the bit, that one is the answer
whose option comes first in an order of the item's options drawn by a hash of its id, and the
answer's rule is `tie`. The first label shown would be simpler, and would turn every tie into a
preference for A; the first as published would turn it into one for the options that a data set
lists first. The hash prefers no place in either order, and being the item's own it gives the same
option on every date, for every model and in every order shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import polars as pl

from pipeline.core.errors import DataError
from pipeline.core.records import Item
from pipeline.tasks import LETTERS, Answer, Prompt, Style, Task, items_of, option_permutation
from pipeline.tasks._labels import read_label
from pipeline.tasks._rows import checked

ZERO_SHOT = Style(kind="label", metrics=("accuracy", "ece"), max_tokens=1)
FIVE_SHOT = Style(kind="label", metrics=("accuracy", "ece"), max_tokens=1, num_shots=5)
COT = Style(kind="text", metrics=("accuracy",), max_tokens=1024)
"""Twice the tokens of word problems: four options take longer, and a text cut off has no answer."""

_TIE_ORDER = -1
"""The order of options that decides ties; those that a sweep may show have numbers from 0."""
_PREFILL = "Answer:"
_COT_INSTRUCTION = (
    "Answer the following multiple-choice question. First, provide a step-by-step reasoning "
    "process, and then give the final answer exactly in this format: 'The answer is X.'"
)
"""Figure 7 of the paper."""


class MultipleChoice(Task):
    """A benchmark of questions with options; a subclass describes it and makes an item of a row.

    In `zero_shot` and `five_shot` the assistant's turn begins with `Answer:` and the next token
    decides; in `cot` the model reasons and the label is read from its text.
    """

    styles: ClassVar[Mapping[str, Style]] = {"zero_shot": ZERO_SHOT, "five_shot": FIVE_SHOT}
    has_options = True

    def examples(self, rows: Iterable[Mapping[str, Any]], items: Sequence[Item]) -> Iterator[Item]:
        """Items for worked examples, in the order of `rows`."""
        split = self.example_sources[0].split
        return (self.item(row, split) for row in checked(f"{self.name} (worked examples)", rows))

    def shots(self, item: Item, examples: Sequence[Item]) -> list[Item]:
        """The first `num_shots` of the `examples` that suit `item`.

        Raises:
            DataError: there are fewer.
        """
        shots = self.suitable(item, examples)[: self.num_shots]
        if len(shots) < self.num_shots:
            sources = [f"{s.dataset} ({s.config}, {s.split})" for s in self.example_sources]
            raise DataError(
                f"task {self.name!r}, style {self.style!r}: item {item.item_id!r} needs "
                f"{self.num_shots} worked examples, found {len(shots)}; they come from "
                f"{' or '.join(sources)}"
            )
        return shots

    def suitable(self, item: Item, examples: Sequence[Item]) -> list[Item]:
        """The `examples` that may stand before `item`, best first."""
        return list(examples)

    def prompt(self, item: Item, shots: Sequence[Item] = ()) -> Prompt:
        """The question block, behind one turn of user and assistant for each of `shots`.

        Raises:
            DataError: there are not as many shots as the style has.
        """
        if len(shots) != self.num_shots:
            raise DataError(
                f"task {self.name!r}, style {self.style!r}: a prompt has {self.num_shots} "
                f"worked examples, given {len(shots)}"
            )
        block = question_block(item)
        if self.kind == "text":
            return Prompt(system="", user=f"{_COT_INSTRUCTION}\n{block}", prefill="")
        turns = tuple((question_block(shot), f"{_PREFILL} {shot.target}") for shot in shots)
        return Prompt(system="", user=block, prefill=_PREFILL, shots=turns)

    def labels(self, item: Item) -> list[str]:
        """` A`, ` B`, ... behind a prompt that ends in `Answer:`; a bare `A` is another token."""
        num_labels = len(item.options) if self.kind == "label" else 0
        return [f" {letter}" for letter in LETTERS[:num_labels]]

    def answers(self, outputs: pl.DataFrame) -> pl.DataFrame:
        """The label that each output chose, most probable or stated, as it was published."""
        if self.kind == "label":
            return as_published(outputs, most_probable_label(outputs, self.name))
        return as_published(outputs, super().answers(outputs))

    def extract(self, item: Item, text: str) -> Answer:
        """The label that `text` states, in the order in which `item` has its options."""
        return read_label(text, len(item.options))

    def gold_output(self, item: Item) -> str:
        """The right label, in the sentence that the instruction asks for where the model writes."""
        return f"The answer is {item.target}." if self.kind == "text" else item.target


def make_item(
    task: str, item_id: str, *, group: str, question: str, options: Sequence[str], gold: int
) -> Item:
    """The item whose right option is number `gold`, from 0, without white space around its texts.

    Real rows are padded, and padding that only the right option has would give it away.
    """
    return Item(
        task=task,
        item_id=item_id,
        group=group,
        fields={"question": question.strip()},
        options=[option.strip() for option in options],
        target=LETTERS[gold],
        references=[],
    )


def question_block(item: Item) -> str:
    """`Question: ...` and one line `A. ...` for each option."""
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, item.options, strict=False)]
    return "\n".join([f"Question: {item.fields['question']}", *lines])


def most_probable_label(outputs: pl.DataFrame, task: str) -> pl.DataFrame:
    """Columns `answer` and `rule`: the label with the highest log-probability, as shown.

    The rule is `argmax`, or `tie` where several labels have it; see the module's docstring. A frame
    without the column `option_order` was shown as published.

    Raises:
        DataError: a vector has another length than the options, holds a null, NaN or +inf, or is
            -inf throughout. That is a fault of the engine or of a file, which must not pass for the
            model's answer.
    """
    logprobs = pl.col("label_logprobs")
    bad = outputs.filter(~_is_usable(logprobs).fill_null(value=False))
    if bad.height:
        raise _unusable(bad, task)
    first_best = logprobs.list.arg_max()
    last_best = logprobs.list.len() - 1 - logprobs.list.reverse().list.arg_max()
    answers = outputs.select(answer=pl.lit(LETTERS).str.slice(first_best, 1), rule=pl.lit("argmax"))
    is_tied = outputs.select(first_best != last_best).to_series()
    if not is_tied.any():
        return answers
    rows = is_tied.arg_true()
    labels = _untied(outputs.filter(is_tied), task)
    return answers.with_columns(
        answers["answer"].scatter(rows, labels), answers["rule"].scatter(rows, "tie")
    )


def _untied(tied: pl.DataFrame, task: str) -> pl.Series:
    """The label that the rule for ties picks in each row of `tied`.

    Only distinct combinations of an item, an order and the labels tied are looked at one by one.
    """
    is_best = (pl.element() == pl.element().max()).cast(pl.Int8).cast(pl.String)
    order = pl.col("option_order") if "option_order" in tied.columns else pl.lit(0, pl.Int64)
    best = pl.col("label_logprobs").list.eval(is_best).list.join("")
    ties = tied.select("item_id", "options", order=order, best=best)
    key = ["item_id", "order", "best"]
    kinds = ties.unique(subset=key, maintain_order=True)
    labels = [_first_of_tied(task, *kind) for kind in kinds.iter_rows()]
    chosen = kinds.select(*key, chosen=pl.Series(labels, dtype=pl.String))
    return ties.join(chosen, on=key, how="left", maintain_order="left")["chosen"]


def _first_of_tied(task: str, item_id: str, options: list[str], order: int, best: str) -> str:
    """Of the labels that have a 1 in `best`, that of the first option in the order for ties."""
    item = Item(
        task=task, item_id=item_id, group="", fields={}, options=options, target="", references=[]
    )
    shown, ranked = option_permutation(item, order), option_permutation(item, _TIE_ORDER)
    tied = [position for position, mark in enumerate(best) if mark == "1"]
    return LETTERS[min(tied, key=lambda position: ranked.index(shown[position]))]


def _is_usable(logprobs: pl.Expr) -> pl.Expr:
    """Whether each vector has a number for every option, of which one at least is finite."""
    element, length = pl.element(), logprobs.list.len()
    is_faulty = element.is_null() | element.is_nan() | (element == float("inf"))
    return (
        (length == pl.col("options").list.len())
        & (length > 0)
        & ~logprobs.list.eval(is_faulty).list.any()
        & logprobs.list.eval(element.is_finite()).list.any()
    )


def _unusable(bad: pl.DataFrame, task: str) -> DataError:
    first = bad.row(0, named=True)
    return DataError(
        f"task {task!r}: {bad.height} of the outputs have label_logprobs that decide nothing, "
        f"first item {first['item_id']!r}: expected {len(first['options'])} numbers (natural-log "
        f"probabilities, one at least finite), found {first['label_logprobs']}; "
        "generate these shards anew"
    )


def as_published(outputs: pl.DataFrame, shown: pl.DataFrame) -> pl.DataFrame:
    """The `shown` answers of `outputs`, each label as its option has it in the published order.

    Rows stay columns: only distinct pairs of an item and an order other than 0 are looked at one by
    one. A frame without the column `option_order` was shown as published.
    """
    if "option_order" not in outputs.columns or not (outputs["option_order"] != 0).any():
        return shown
    key = ["item_id", "option_order"]
    pairs = outputs.filter(pl.col("option_order") != 0).unique(subset=key, maintain_order=True)
    rows = [
        (item.item_id, order, label, LETTERS[option])
        for item, order in zip(items_of(pairs), pairs["option_order"], strict=True)
        for label, option in zip(LETTERS, option_permutation(item, order), strict=False)
    ]
    columns = {name: outputs.schema[name] for name in key}
    columns |= {"answer": pl.String(), "published": pl.String()}
    published = pl.DataFrame(rows, schema=columns, orient="row")
    answers = outputs.select(key).hstack(shown.select("answer", "rule"))
    joined = answers.join(published, on=[*key, "answer"], how="left", maintain_order="left")
    return joined.select(answer=pl.coalesce("published", "answer"), rule="rule")
