"""MMLU: multiple choice over 57 subjects, answered by the most probable label (Hendrycks et al. 2021, arXiv 2009.03300)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from pipeline.records import Item
from pipeline.tasks import Answer, Prompt, Source, Task, _choice
from pipeline.tasks._rows import Row, checked

_NUM_OPTIONS = 4


class MMLU(Task):
    """Zero-shot MMLU: the assistant's turn begins with `Answer:` and the next token decides."""

    name = "mmlu"
    title = "MMLU"
    version = 1
    source = Source(dataset="cais/mmlu", config="all", split="test", url="https://huggingface.co/datasets/cais/mmlu", licence="MIT")
    kind = "label"
    metrics = ("accuracy", "ece")
    max_tokens = 1
    chance = 100 / _NUM_OPTIONS

    def items(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Items in the Hub's order, with white space around questions and options removed.

        963 questions and 41 options of the test split are padded, and padding that only the right option has would give it away.
        """
        return (self._item(row) for row in checked(self.name, rows))

    def _item(self, row: Row) -> Item:
        return Item(
            task=self.name,
            item_id=row.item_id(self.source.split),
            group=row.text("subject"),
            fields={"question": row.text("question").strip()},
            options=[option.strip() for option in row.texts("choices", count=_NUM_OPTIONS)],
            # By place, not by text: in 4 test rows the right option has a twin.
            target=_choice.LETTERS[row.integer("answer", low=0, high=_NUM_OPTIONS - 1)],
            references=[],
        )

    def prompt(self, item: Item) -> Prompt:
        """The question block; the assistant's turn begins with `Answer:` (Figure 6 of the paper)."""
        return Prompt(system="", user=_choice.question_block(item.fields["question"], item.options), prefill="Answer:")

    def labels(self, item: Item) -> list[str]:
        """` A` to ` D`."""
        return _choice.spaced_labels(len(item.options))

    def answers(self, outputs: pl.DataFrame) -> pl.DataFrame:
        """The most probable label of every output."""
        return _choice.most_probable_label(outputs, self.name)

    def extract(self, item: Item, text: str) -> Answer:
        """The label that `text` states, for outputs that were generated elsewhere; the sweep itself reads log-probabilities."""
        return _choice.read_label(text, len(item.options))

    def gold_output(self, item: Item) -> str:
        """The right label."""
        return item.target


TASK = MMLU()
