"""GSM8K: grade-school word problems and their worked solutions (Cobbe et al., arXiv 2110.14168)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pipeline.core.records import Item
from pipeline.tasks import Answer, Prompt, Source, Style, Task
from pipeline.tasks._numbers import canonical, read_number
from pipeline.tasks._rows import Row

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

    def item(self, row: Row, split: str) -> Item:
        """The question of `row`; the target is the number behind the last `####`."""
        question = row.text("question").strip()
        solution, marker, number = row.text("answer").rpartition("####")
        target = canonical(number)
        if not marker or target is None:
            given = solution[-40:] + marker + number
            raise row.fault("answer", "a solution that ends in '#### <number>'", given)
        return Item(
            task=self.name,
            item_id=row.item_id(split),
            group="",
            fields={"question": question},
            options=[],
            target=target,
            references=[],
        )

    def prompt(self, item: Item, shots: Sequence[Item] = ()) -> Prompt:
        """The instruction and, on the next line, the question."""
        return Prompt(system="", user=f"{_INSTRUCTION}\n{item.fields['question']}", prefill="")

    def extract(self, item: Item, text: str) -> Answer:
        """The final number of `text`, in canonical form (`1,250` and `1250.00` are `1250`)."""
        return read_number(text)

    def gold_output(self, item: Item) -> str:
        """The answer line that the instruction asks for."""
        return f"Answer: {item.target}"


TASK = GSM8K
