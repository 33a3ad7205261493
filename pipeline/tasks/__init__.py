"""A task is one benchmark: its items, its prompt, how an answer is read, and its metrics.

In: rows as the Hub has them, outputs of a model. Out: items, prompts, answers.

To add one, write `pipeline/tasks/<name>.py` with one `Task` subclass and `TASK = ThatClass`. The
contract tests (`tests/tasks/test_contract.py`) then run over it: the gold output scores full marks,
a wrong one less, item ids are unique and stable. A task never reads files, as `pipeline/data` does,
and knows nothing of dates, as `pipeline/prompts` does.

A benchmark may be asked in several styles (zero-shot, with five examples, with step-by-step
reasoning); a `Task` object is a benchmark in one style, `tasks.get("mmlu", "cot")`.
"""

import abc
import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, ClassVar, Literal, cast

import polars as pl

from pipeline.core import registry, tables
from pipeline.core.errors import ConfigError, nearest
from pipeline.core.records import Item
from pipeline.tasks._rows import Row, checked

LETTERS = ascii_uppercase
"""The labels of multiple-choice items, first option first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a task's rows come from."""

    dataset: str
    """Hub id, e.g. `cais/mmlu`; also the folder in a local mirror."""
    config: str
    split: str
    url: str
    """A page that describes the data."""
    licence: str
    package: str | None = None
    """A Python package that ships the rows, which are then read from nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The wording of one item, before the date sentence and the chat template."""

    system: str
    """What follows the date sentence in the system message; may be empty."""
    user: str
    prefill: str
    """How the assistant's turn begins, without a trailing space; may be empty."""
    shots: tuple[tuple[str, str], ...] = ()
    """Worked examples before the item, each a user's turn and the assistant's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a task read out of an output."""

    answer: str
    """Empty when there is none."""
    rule: str
    """Name of the extraction rule that fired; `none` when no rule did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """One way of asking a benchmark."""

    kind: Literal["label", "text"]
    """`label`: the most probable next token among the labels answers. `text`: the model writes."""
    metrics: tuple[str, ...]
    """Names in `pipeline/metrics`; the first is the headline."""
    max_tokens: int
    """Longest output in tokens; a sweep may set another."""
    num_shots: int = 0
    """Worked examples before each item."""


NO_ANSWER = Answer(answer="", rule="none")


class Task(abc.ABC):
    """One benchmark in one style.

    Class attributes describe the benchmark; methods work on one item at a time.
    """

    name: ClassVar[str]
    """The module's name."""
    title: ClassVar[str]
    version: ClassVar[int]
    """Raised whenever prompts change, so that old completions are not taken for new ones."""
    extraction_version: ClassVar[int] = 1
    """Raised whenever an output is read in another way: completions are kept, and scored anew."""
    source: ClassVar[Source]
    chance: ClassVar[float]
    """Score of random guessing, 0 to 100."""
    styles: ClassVar[Mapping[str, Style]]
    """Style name -> how the items are asked; `zero_shot` is there for every benchmark."""
    example_sources: ClassVar[tuple[Source, ...]] = ()
    """Where worked examples come from: the first of these that is to be had."""
    paper_items: ClassVar[int | None] = None
    """Items that the paper states (arXiv 2609.36931); None where it has no such set."""
    paper_subset: ClassVar[int | None] = None
    """Items of the subset that the steps of the paper's reported deltas suggest, if any."""
    has_options: ClassVar[bool] = False
    """Whether items are multiple-choice, whose options may be shown in another order."""
    executes_code: ClassVar[bool] = False
    """Whether scoring runs programs that the model wrote."""

    def __init__(self, style: str = "zero_shot") -> None:
        """The benchmark in one of its `styles`.

        Raises:
            ConfigError: it does not offer that style.
        """
        if style not in self.styles:
            known = ", ".join(self.styles)
            raise ConfigError(
                f"task {self.name}: style {style!r} is not offered; allowed: "
                f"{known}{nearest(style, self.styles)}"
            )
        self.style = style
        self.kind = self.styles[style].kind
        self.metrics = self.styles[style].metrics
        self.max_tokens = self.styles[style].max_tokens
        self.num_shots = self.styles[style].num_shots

    def items(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Items for the Hub's `rows`, in their order.

        Raises:
            DataError: a row lacks a column or holds a value that the schema does not allow.
        """
        return (self.item(row, self.source.split) for row in checked(self.name, rows))

    @abc.abstractmethod
    def item(self, row: Row, split: str) -> Item:
        """The item for a `row` of `split`."""

    @abc.abstractmethod
    def prompt(self, item: Item, shots: Sequence[Item] = ()) -> Prompt:
        """The wording of `item` behind the worked examples `shots`, for every date and model."""

    def examples(self, rows: Iterable[Mapping[str, Any]], items: Sequence[Item]) -> Iterator[Item]:
        """Items for worked examples out of the `rows` of one of `example_sources`.

        Where those overlap with `items`, all that the benchmark has, a task leaves the common out.
        """
        raise NotImplementedError(f"task {self.name} has no worked examples")

    def shots(self, item: Item, examples: Sequence[Item]) -> list[Item]:
        """The `num_shots` of `examples` that stand before `item`, for every date and model.

        Raises:
            DataError: there are fewer.
        """
        return []

    @abc.abstractmethod
    def extract(self, item: Item, text: str) -> Answer:
        """The answer in a generated `text`, or `NO_ANSWER`. Never raises for a text of any kind."""

    @abc.abstractmethod
    def gold_output(self, item: Item) -> str:
        """An output that must get full marks: a perfect model's text, or the right label."""

    def labels(self, item: Item) -> list[str]:
        """The texts whose next-token probability decides, first option first; none for `text`."""
        return []

    def answers(self, outputs: pl.DataFrame) -> pl.DataFrame:
        """Columns `answer` and `rule` for `outputs`, row by row in the same order.

        `outputs` has the columns of an `Item` (as `tables.schema` writes them), `option_order`,
        `text` and `label_logprobs`. Tasks that can answer for whole columns at once, or whose
        options may be shown in another order, override this.
        """
        pairs = zip(items_of(outputs), outputs["text"], strict=True)
        answers = [self.extract(item, text) for item, text in pairs]
        return pl.DataFrame(
            {"answer": [a.answer for a in answers], "rule": [a.rule for a in answers]},
            schema={"answer": pl.String, "rule": pl.String},
        )


def items_of(frame: pl.DataFrame) -> Iterator[Item]:
    """The `Item` of each row of a frame that has an item's columns."""
    return tables.to_records(Item, frame)


def option_permutation(item: Item, option_order: int) -> list[int]:
    """For each position, the option of `item` shown there in the order number `option_order`.

    Number 0 is the order as loaded; the others come from a hash of the item's id, so they are the
    same for every date, model and machine.
    """
    options = list(range(len(item.options)))
    if option_order:
        key = f"{option_order}:{item.task}:{item.item_id}"
        options.sort(key=lambda option: hashlib.sha256(f"{key}:{option}".encode()).digest())
    return options


def reordered(item: Item, option_order: int) -> Item:
    """`item` as the order number `option_order` shows it: options and target changed."""
    if not option_order or not item.options:
        return item
    order = option_permutation(item, option_order)
    target = LETTERS[order.index(LETTERS.index(item.target))]
    return dataclasses.replace(item, options=[item.options[i] for i in order], target=target)


@functools.cache
def get(name: str, style: str = "zero_shot") -> Task:
    """The task `name` in `style`.

    Raises:
        ConfigError: there is no such task, or it does not offer the style.
    """
    return cast(Task, registry.module("tasks", name).TASK(style))
