"""GSM8K: grade-school word problems, answered by a worked solution (Cobbe et al. 2021, arXiv
2110.14168).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pipeline.core.records import Item
from pipeline.tasks import Answer, Prompt, Source, Style, Task, _numbers
from pipeline.tasks._rows import Row, checked

_INSTRUCTION = (
    "Solve the following math problem step by step. At the end, write your final answer in the "
    "exact format: 'Answer: <number>'."
)
"""Figure 8 of the paper (arXiv 2609.36931)."""


class GSM8K(Task):
    """Zero-shot GSM8K with step-by-step reasoning; numbers are compared by value."""

    name = "gsm8k"
    title = "GSM8K"
    version = 2
    source = Source(
        dataset="openai/gsm8k",
        config="main",
        split="test",
        url="https://huggingface.co/datasets/openai/gsm8k",
        licence="MIT",
    )
    styles: ClassVar[Mapping[str, Style]] = {
        "zero_shot": Style(kind="text", metrics=("accuracy",), max_tokens=512)
    }
    chance = 0.0
    paper_items = 1_319
    paper_subset = 132

    def items(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Items in the Hub's order; the target is the number behind `####`."""
        return (self._item(row) for row in checked(self.name, rows))

    def _item(self, row: Row) -> Item:
        return Item(
            task=self.name,
            item_id=row.item_id(self.source.split),
            group="",
            fields={"question": row.text("question").strip()},
            options=[],
            target=_gold(row),
            references=[],
        )

    def prompt(self, item: Item, shots: Sequence[Item] = ()) -> Prompt:
        """The instruction and, on the next line, the question."""
        return Prompt(system="", user=f"{_INSTRUCTION}\n{item.fields['question']}", prefill="")

    def extract(self, item: Item, text: str) -> Answer:
        """The final number of `text`, in canonical form (`1,250` and `1250.00` are `1250`)."""
        return _numbers.read_number(text)

    def gold_output(self, item: Item) -> str:
        """The answer line that the instruction asks for."""
        return f"Answer: {item.target}"


def _gold(row: Row) -> str:
    """The number behind the last `####`, in canonical form."""
    solution, marker, number = row.text("answer").rpartition("####")
    target = _numbers.canonical(number)
    if not marker or target is None:
        row.reject(
            "answer", "a solution that ends in '#### <number>'", solution[-40:] + marker + number
        )
    return target


TASK = GSM8K
