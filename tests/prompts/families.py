"""Families of models that share a chat template, and the prompts that they make.

The templates in `tests/prompts/templates` behave like the official ones and are not copies of them.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline import tasks
from pipeline.core.records import Item, Variant
from pipeline.prompts import ItemPrompt, PromptBuilder, variants
from pipeline.settings import CalendarSpec, ConditionsSpec, ModelSpec, configs_folder, model_file

TEMPLATES = Path(__file__).parent / "templates"
DAY = datetime.date(2024, 3, 5)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Models that share a chat template, and the prompts that it makes, up to where a prefill
    begins.
    """

    models: tuple[str, ...]
    tokens: tuple[str, ...]
    dated: str
    control: str
    shots: str
    """With worked examples: the first one, and `{pairs}` for the others."""
    pair: str
    """Another worked example."""
    bos: str | None = None
    opened: str = ""
    """What stands between the assistant's header and a prefill, and not where the model begins by
    itself."""
    trims: bool = False


FAMILIES = {
    "llama31": Family(
        models=("llama-3.1-8b-instruct", "llama-3.1-70b-instruct"),
        tokens=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        bos="<|begin_of_text|>",
        trims=True,
        dated=(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        control=(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        shots=(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n{shot}<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{answer}<|eot_id|>{pairs}"
            "<|start_header_id|>user<|end_header_id|>\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        pair=(
            "<|start_header_id|>user<|end_header_id|>\n\n{shot}<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{answer}<|eot_id|>"
        ),
    ),
    "gemma3": Family(
        models=("gemma-3-4b-it", "gemma-3-27b-it"),
        tokens=("<start_of_turn>", "<end_of_turn>"),
        bos="<bos>",
        trims=True,
        dated="<bos><start_of_turn>user\n{system}\n\n{user}<end_of_turn>\n<start_of_turn>model\n",
        control="<bos><start_of_turn>user\n{user}<end_of_turn>\n<start_of_turn>model\n",
        shots=(
            "<bos><start_of_turn>user\n{system}\n\n{shot}<end_of_turn>\n<start_of_turn>model\n{answer}<end_of_turn>\n{pairs}"
            "<start_of_turn>user\n{user}<end_of_turn>\n<start_of_turn>model\n"
        ),
        pair="<start_of_turn>user\n{shot}<end_of_turn>\n<start_of_turn>model\n{answer}<end_of_turn>\n",
    ),
    "qwen3": Family(
        models=("qwen3-4b",),
        tokens=("<|im_start|>", "<|im_end|>", "<think>", "</think>"),
        dated=(
            "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        ),
        control="<|im_start|>system\n<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        shots=(
            "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n{pairs}"
            "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        ),
        pair="<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n",
    ),
    "qwen3_next": Family(
        models=("qwen3-next-80b-a3b-instruct", "qwen3-4b-instruct-2507"),
        tokens=("<|im_start|>", "<|im_end|>"),
        dated="<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n",
        control="<|im_start|>system\n<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n",
        shots=(
            "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n{pairs}"
            "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
        ),
        pair="<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n",
    ),
    "phi4": Family(
        models=("phi-4",),
        tokens=("<|im_start|>", "<|im_sep|>", "<|im_end|>"),
        dated=(
            "<|im_start|>system<|im_sep|>{system}<|im_end|><|im_start|>user<|im_sep|>{user}<|im_end|><|im_start|>assistant<|im_sep|>"
        ),
        control="<|im_start|>system<|im_sep|><|im_end|><|im_start|>user<|im_sep|>{user}<|im_end|><|im_start|>assistant<|im_sep|>",
        shots=(
            "<|im_start|>system<|im_sep|>{system}<|im_end|><|im_start|>user<|im_sep|>{shot}<|im_end|>"
            "<|im_start|>assistant<|im_sep|>{answer}<|im_end|>{pairs}"
            "<|im_start|>user<|im_sep|>{user}<|im_end|><|im_start|>assistant<|im_sep|>"
        ),
        pair="<|im_start|>user<|im_sep|>{shot}<|im_end|><|im_start|>assistant<|im_sep|>{answer}<|im_end|>",
    ),
    "gpt_oss": Family(
        models=("gpt-oss-20b", "gpt-oss-120b"),
        tokens=("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"),
        opened="<|channel|>final<|message|>",
        dated="<|start|>system<|message|>{system}<|end|><|start|>user<|message|>{user}<|end|><|start|>assistant",
        control="<|start|>system<|message|><|end|><|start|>user<|message|>{user}<|end|><|start|>assistant",
        shots=(
            "<|start|>system<|message|>{system}<|end|><|start|>user<|message|>{shot}<|end|>"
            "<|start|>assistant<|channel|>final<|message|>{answer}<|end|>{pairs}"
            "<|start|>user<|message|>{user}<|end|><|start|>assistant"
        ),
        pair="<|start|>user<|message|>{shot}<|end|><|start|>assistant<|channel|>final<|message|>{answer}<|end|>",
    ),
}
FAMILY_OF = {model: family for family, entry in FAMILIES.items() for model in entry.models}
every_model = pytest.mark.parametrize("model", FAMILY_OF)


def an_item(task: str, target: str, options: list[str] | None = None, **fields: str) -> Item:
    return Item(
        task=task,
        item_id="made-up",
        group="",
        fields=fields,
        options=options or [],
        target=target,
        references=[],
    )


MCQA = an_item("mmlu", "B", ["one", "two", "three", "five"], question="Which is even?")
BLOCK = "Question: Which is even?\nA. one\nB. two\nC. three\nD. five"
SHOTS = tuple(
    an_item("mmlu", letter, ["zero", "one", "two", "three"], question=f"Which is {letter}?")
    for letter in "ACBDA"
)
SHOT_BLOCKS = [
    f"Question: Which is {letter}?\nA. zero\nB. one\nC. two\nD. three" for letter in "ACBDA"
]
HEAD = 'def twice(n):\n    """Double n."""\n'
PROGRAM = an_item(
    "humaneval",
    f"{HEAD}    return 2 * n\n",
    prompt=HEAD,
    test="def check(f):\n    assert f(2) == 4\n",
    entry_point="twice",
)

CASES: dict[str, tuple[str, str, Item, str, str, str]] = {
    # name: task, style, item, system text behind the date sentence, user's turn, prefill
    "zero-shot": ("mmlu", "zero_shot", MCQA, "", BLOCK, "Answer:"),
    "cot": (
        "mmlu",
        "cot",
        MCQA,
        "",
        "Answer the following multiple-choice question. First, provide a step-by-step "
        "reasoning process, and then give the final answer "
        f"exactly in this format: 'The answer is X.'\n{BLOCK}",
        "",
    ),
    "gsm8k": (
        "gsm8k",
        "zero_shot",
        an_item("gsm8k", "6", question="Ann has 4 pens and buys 2. How many has she?"),
        "",
        "Solve the following math problem step by step. At the end, write your final "
        "answer in the exact format: 'Answer: <number>'.\n"
        "Ann has 4 pens and buys 2. How many has she?",
        "",
    ),
    "humaneval": (
        "humaneval",
        "zero_shot",
        PROGRAM,
        "\nYou are an expert Python programmer. Implement the function so that it "
        "satisfies the docstring. "
        "Respond with a single Python code block containing the complete function, and "
        "nothing else.",
        f"Complete the following Python function:\n{HEAD}",
        "",
    ),
    "translation": (
        "wmt16_en_de",
        "zero_shot",
        an_item("wmt16_en_de", "Es regnet.", source="It rains."),
        "",
        "Translate the following English text to German.\nEnglish: It rains.",
        "German:",
    ),
}

Make = Callable[..., PromptBuilder]


def spec_of(model: str, **template: object) -> ModelSpec:
    """The model file `model`, with changes to its `[template]`."""
    spec = model_file(configs_folder() / "models" / f"{model}.toml")
    return spec.model_copy(update={"template": spec.template.model_copy(update=template)})


def on(day: datetime.date = DAY, date_format: str = "iso", **conditions: Any) -> Variant:
    """The variant of one date under one condition."""
    calendar = CalendarSpec(dates=[day], formats=[date_format], control=False)
    return variants.variants(calendar, ConditionsSpec.model_validate(conditions))[0]


def control() -> Variant:
    return variants.variants(CalendarSpec(dates=[]), ConditionsSpec())[0]


def asked(builder: PromptBuilder, variant: Variant, shots: tuple[Item, ...] = ()) -> ItemPrompt:
    """The multiple-choice item as `builder` asks it."""
    return builder.item_prompt(
        tasks.get("mmlu", "five_shot" if shots else "zero_shot"), MCQA, variant, shots
    )
