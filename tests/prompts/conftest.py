"""An item, templates that do the wrong thing with the date, and builders of prompts with them."""

import dataclasses
import datetime
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import tasks
from pipeline.core.records import Item, Variant
from pipeline.prompts import PromptBuilder, variants
from pipeline.settings import CalendarSpec, ConditionsSpec, ModelSpec

ITEM = Item(
    task="mmlu",
    item_id="test-00000",
    group="g",
    fields={"question": "Which is even?"},
    options=["one", "two", "three", "five"],
    target="B",
    references=[],
)


def variant(date_format: str = "iso", **axes: list[object]) -> Variant:
    calendar = CalendarSpec(dates=[datetime.date(2024, 3, 5)], formats=[date_format], control=False)
    return variants.variants(calendar, ConditionsSpec.model_validate(axes))[0]


CONTROL = variants.variants(CalendarSpec(dates=[]), ConditionsSpec())[0]
MMLU = tasks.get("mmlu")


def model(**template: object) -> ModelSpec:
    return ModelSpec.model_validate(
        {
            "name": "odd",
            "title": "t",
            "licence": "l",
            "weights": {"path": "."},
            "template": template,
        }
    )


CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
    "'<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


CLOCKED = "{{ 'Today: ' + strftime_now('%d %B %Y') + '\n' }}" + CHATML


SLOTTED = "{{ 'Today: ' + (date_string or '26 Jul 2024') + '\n' }}" + CHATML


def shots() -> list[Item]:
    return [
        dataclasses.replace(
            ITEM, item_id=f"dev-{i:05d}", fields={"question": f"Which is odd {i}?"}, target="A"
        )
        for i in range(5)
    ]


@pytest.fixture(scope="module")
def builder(demo_folder: Path) -> PromptBuilder:
    return PromptBuilder(model(), demo_folder)


@pytest.fixture
def with_template(demo_folder: Path, tmp_path: Path) -> Callable[[str], PromptBuilder]:
    def make(template: str, **spec: object) -> PromptBuilder:
        for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
            shutil.copy(demo_folder / name, tmp_path / name)
        (tmp_path / "chat_template.jinja").write_text(template)
        return PromptBuilder(model(**spec), tmp_path)

    return make
