"""A task is one benchmark: its rows, its prompt, how an answer is read out of an output, and the metrics that judge it.

To add one, write `pipeline/tasks/<name>.py` with one `Task` subclass and `TASK = ThatClass()`. The contract tests
(`tests/test_tasks.py`) then run over it: the gold output scores full marks, a wrong one less, item ids are unique and stable.
A task sees rows as the Hub has them and never reads files; `sources.py` does. It knows nothing of dates; `variants.py` does.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import polars as pl

from pipeline import frames, registry
from pipeline.records import Item


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
    """Name of a Python package that ships the rows, which are then read from it and nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The wording of one item, before the date sentence and the chat template."""

    system: str
    """What follows the date sentence in the system message; may be empty."""
    user: str
    prefill: str
    """How the assistant's turn begins, without a trailing space; empty where the model starts by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a task read out of an output."""

    answer: str
    """Empty when there is none."""
    rule: str
    """Name of the extraction rule that fired; `none` when no rule did."""


NO_ANSWER = Answer(answer="", rule="none")


class Task(abc.ABC):
    """One benchmark. Class attributes describe it; methods work on one item at a time."""

    name: ClassVar[str]
    """The module's name."""
    title: ClassVar[str]
    version: ClassVar[int]
    """Raised whenever prompts or extraction change, so old completions or scores are not taken for new ones."""
    source: ClassVar[Source]
    kind: ClassVar[Literal["label", "text"]]
    """`label`: the answer is the label with the highest next-token probability. `text`: the model writes."""
    metrics: ClassVar[tuple[str, ...]]
    """Names in `pipeline/metrics`; the first is the headline."""
    max_tokens: ClassVar[int]
    """Longest output in tokens; a model file or sweep may set another."""
    chance: ClassVar[float]
    """Score of random guessing, 0 to 100."""
    styles: ClassVar[tuple[str, ...]] = ("zero_shot",)
    executes_code: ClassVar[bool] = False
    """Whether scoring runs programs that the model wrote."""

    @abc.abstractmethod
    def items(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Items for the Hub's `rows`, in their order.

        Raises:
            DataError: a row lacks a column or holds a value that the schema does not allow.
        """

    @abc.abstractmethod
    def prompt(self, item: Item) -> Prompt:
        """The wording of `item`; equal for every date and model."""

    @abc.abstractmethod
    def extract(self, item: Item, text: str) -> Answer:
        """The answer in a generated `text`, or `NO_ANSWER`. Never raises for a text of any kind."""

    @abc.abstractmethod
    def gold_output(self, item: Item) -> str:
        """An output that must get full marks: the text a perfect model writes, or the right label of a `label` task."""

    def labels(self, item: Item) -> list[str]:
        """The texts whose next-token probability decides a `label` item, first option first; empty for `text` tasks."""
        return []

    def answers(self, outputs: pl.DataFrame) -> pl.DataFrame:
        """Columns `answer` and `rule` for `outputs`, row by row in the same order.

        `outputs` has the columns of an `Item` (as `frames.schema` writes them), `text` and `label_logprobs`. Tasks that can answer for
        whole columns at once override this.
        """
        found = [self.extract(item, text) for item, text in zip(items_of(outputs), outputs["text"], strict=True)]
        return pl.DataFrame(
            {"answer": [a.answer for a in found], "rule": [a.rule for a in found]}, schema={"answer": pl.String, "rule": pl.String}
        )


def items_of(frame: pl.DataFrame) -> Iterator[Item]:
    """The `Item` of each row of a frame that has an item's columns."""
    return frames.to_records(Item, frame)


def get(name: str) -> Task:
    """The task `name`.

    Raises:
        ConfigError: there is no such task.
    """
    return cast(Task, registry.module("tasks", name).TASK)
