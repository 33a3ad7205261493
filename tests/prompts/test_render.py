"""Prompts in the demo model's template, and in templates that do the wrong thing with the date."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import tasks
from pipeline.core.errors import PromptError
from pipeline.plan.stage import gather
from pipeline.prompts import PromptBuilder, own_dates
from pipeline.settings import SweepSpec, TaskSpec
from tests.prompts.conftest import (
    CHATML,
    CLOCKED,
    CONTROL,
    ITEM,
    MMLU,
    SLOTTED,
    model,
    shots,
    variant,
)


def test_a_prompt_is_the_papers_text_in_the_models_own_template(builder: PromptBuilder) -> None:
    text = builder.item_prompt(MMLU, ITEM, variant()).text("2024-03-05")
    assert text == (
        "<|im_start|>system\nCurrent date: "
        "2024-03-05.<|im_end|>\n<|im_start|>user\nQuestion: Which is even?\n"
        "A. one\nB. two\nC. three\nD. five<|im_end|>\n<|im_start|>assistant\nAnswer:"
    )


def test_the_control_keeps_an_empty_system_message_so_that_the_template_adds_no_text_of_its_own(
    builder: PromptBuilder,
) -> None:
    control = builder.item_prompt(MMLU, ITEM, CONTROL).text("")
    assert control.startswith("<|im_start|>system\n<|im_end|>\n<|im_start|>user\n")
    assert "SmolLM" not in control


def test_the_control_can_leave_the_system_message_out(
    with_template: Callable[..., PromptBuilder],
) -> None:
    odd = with_template(CHATML, control_system="omit")
    assert odd.item_prompt(MMLU, ITEM, CONTROL).text("").startswith("<|im_start|>user\n")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (
            CHATML.replace("for m in messages", "for m in messages if m['role'] != 'system'"),
            "drops or changes the date of role system",
        ),
        (
            CHATML.replace("+ m['content'] +", "+ m['content'] + m['content'] +"),
            "shows the date 2 times",
        ),
        (
            CHATML.replace("m['content']", "m['content'] | replace('Current date: ', '')"),
            "drops or changes the date of role system",
        ),
        (
            CHATML.replace(
                "for m in messages", "for m in messages[1:2] + messages[:1] + messages[2:]"
            ),
            "across the question",
        ),
        (
            CHATML.replace(
                "m['content'] +",
                "m['content'] ~ (m['content'] | replace('1987-10-26', '') | length) +",
            ),
            "changes more than the date",
        ),
        (
            "{{ raise_exception('System role not supported') if messages[0]['role'] == 'system' }}"
            + CHATML,
            "System role not supported",
        ),
        (CHATML + "{{ nothing.here }}", "nothing"),
    ],
    ids=["drops", "repeats", "loses the sentence", "moves", "length", "raises", "undefined"],
)
def test_a_template_that_mistreats_the_date_is_an_error_naming_model_task_and_item(
    with_template: Callable[[str], PromptBuilder], template: str, words: str
) -> None:
    with pytest.raises(PromptError, match="model odd, task mmlu, item test-00000") as caught:
        with_template(template).item_prompt(MMLU, ITEM, variant())
    assert words in str(caught.value)


def test_a_template_that_reads_the_clock_gets_the_pinned_one(
    with_template: Callable[..., PromptBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = with_template(CLOCKED, clock=datetime.date(2024, 7, 26))
    import transformers.utils.chat_template_utils as target

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Later":
            return cls(2031, 2, 3, tzinfo=tz)

    first = odd.item_prompt(MMLU, ITEM, variant())
    monkeypatch.setattr(target, "datetime", Later)
    assert odd.item_prompt(MMLU, ITEM, variant()) == first, "the wall clock must not reach a prompt"
    assert "Today: 26 July 2024" in first.before


@pytest.mark.parametrize("placement", ["system_start", "system_end", "user_start", "user_end"])
@pytest.mark.parametrize("name", ["mmlu", "humaneval"])
def test_the_date_stands_where_the_placement_says(
    builder: PromptBuilder, simulated_spec: SweepSpec, placement: str, name: str
) -> None:
    spec = simulated_spec.model_copy(
        update={"tasks": [TaskSpec(name=name, limit=2)], "allow_code_execution": True}
    )
    [benchmark] = gather(spec).benchmarks
    for item in benchmark.items:
        prompt, user = (
            builder.item_prompt(benchmark.task, item, variant(placements=[placement])),
            benchmark.task.prompt(item).user.strip(),
        )
        assert (user in prompt.before) == (placement == "user_end")
        assert (user in prompt.after) == (placement != "user_end")
        turn = prompt.before.rpartition("<|im_start|>")[2]
        assert turn.startswith("user" if placement.startswith("user") else "system")


def test_shots_are_turns_of_their_own_and_the_date_stays_where_it_was(
    builder: PromptBuilder,
) -> None:
    text = builder.item_prompt(tasks.get("mmlu", "five_shot"), ITEM, variant(), shots()).text(
        "2024-03-05"
    )
    options = "A. one\nB. two\nC. three\nD. five<|im_end|>\n<|im_start|>assistant\nAnswer:"
    worked = [
        f"<|im_start|>user\nQuestion: Which is odd {i}?\n{options} A<|im_end|>\n" for i in range(5)
    ]
    asked = f"<|im_start|>user\nQuestion: Which is even?\n{options}"
    assert text == "".join(
        ["<|im_start|>system\nCurrent date: 2024-03-05.<|im_end|>\n", *worked, asked]
    )


def test_another_order_of_options_is_shown_and_nothing_else_changes(builder: PromptBuilder) -> None:
    usual, other = (
        builder.item_prompt(MMLU, ITEM, variant(option_orders=[order])) for order in (0, 1)
    )
    assert usual != other
    shown = tasks.reordered(ITEM, 1)
    for letter, option in zip("ABCD", shown.options, strict=True):
        assert f"{letter}. {option}" in other.after
    assert sorted(usual.after) == sorted(other.after)


def test_native_mode_puts_the_date_into_the_templates_own_slot(
    with_template: Callable[..., PromptBuilder],
) -> None:
    for template, slot, date_format in (
        (SLOTTED, "date_string", "day_month_year"),
        (CLOCKED.replace("%d %B %Y", "%Y-%m-%d"), "clock", "iso"),
    ):
        odd = with_template(template, date_slot=slot, paper=CHATML)
        assert own_dates(odd, MMLU, ITEM, variant(date_format, placements=["template"])) == []
        native = odd.item_prompt(MMLU, ITEM, variant(date_format, placements=["template"]))
        assert native.before == "Today: "
        assert "Current date" not in native.after
        paper = odd.item_prompt(MMLU, ITEM, variant(date_format))
        assert paper.before.startswith("<|im_start|>system\nCurrent date: "), (
            "paper mode takes the model file's template, which has no date"
        )


def test_native_mode_refuses_a_format_that_the_template_does_not_write(
    with_template: Callable[..., PromptBuilder],
) -> None:
    odd = with_template(CLOCKED, date_slot="clock", paper=CHATML)
    with pytest.raises(PromptError, match="does not show the date written as iso"):
        odd.item_prompt(MMLU, ITEM, variant(placements=["template"]))


def test_native_mode_needs_a_slot(builder: PromptBuilder) -> None:
    with pytest.raises(PromptError, match="needs a template with a date of its own"):
        builder.item_prompt(MMLU, ITEM, variant(placements=["template"]))


def test_bare_labels_stand_at_the_start_of_the_assistants_turn(demo_folder: Path) -> None:
    bare = PromptBuilder(model().model_copy(update={"label_form": "bare"}), demo_folder)
    prompt = bare.item_prompt(tasks.get("mmlu", "five_shot"), ITEM, variant(), shots())
    assert "Answer:" not in prompt.after
    assert "<|im_start|>assistant\nA<|im_end|>" in prompt.after
    assert prompt.after.endswith("<|im_start|>assistant\n")
    assert bare.labels(MMLU, ITEM) == ["A", "B", "C", "D"]
