"""Prompts on the demo model's real tokenizer, and on templates that do the wrong thing with the
date.
"""

import dataclasses
import datetime
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pipeline import tasks
from pipeline.core import dates
from pipeline.core.errors import PromptError
from pipeline.core.records import Item, Variant
from pipeline.plan import stage as plan
from pipeline.prompts import render as prompts, variants
from pipeline.prompts.render import PromptBuilder
from pipeline.settings.schema import CalendarSpec, ConditionsSpec, ModelSpec, SweepSpec, TaskSpec

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


def test_a_prompt_is_the_papers_text_in_the_models_own_template(builder: PromptBuilder) -> None:
    text = builder.item_prompt(MMLU, ITEM, variant()).text("2024-03-05")
    assert text == (
        "<|im_start|>system\nCurrent date: "
        "2024-03-05.<|im_end|>\n<|im_start|>user\nQuestion: Which is even?\n"
        "A. one\nB. two\nC. three\nD. five<|im_end|>\n<|im_start|>assistant\nAnswer:"
    )


def test_composed_ids_equal_transformers_own_rendering_and_tokenisation(
    builder: PromptBuilder,
) -> None:
    prompt = builder.item_prompt(MMLU, ITEM, variant())
    user = tasks.get("mmlu").prompt(ITEM).user
    turns = [
        {"role": "system", "content": "Current date: 2024-11-30."},
        {"role": "user", "content": user},
        {"role": "assistant", "content": "Answer:"},
    ]
    expected = builder.tokenizer.apply_chat_template(
        turns, continue_final_message=True, tokenize=True, return_dict=False
    )
    assert builder.encode(prompt.text("2024-11-30")) == list(expected)


def test_the_span_holds_the_date_and_nothing_else(builder: PromptBuilder) -> None:
    span = builder.span(builder.item_prompt(MMLU, ITEM, variant()), "2024-03-05")
    assert builder.tokenizer.decode(span.token_ids[span.start : span.stop]).strip() == "2024-03-05"


@settings(max_examples=60, deadline=None)
@given(
    st.dates(datetime.date(2000, 1, 1), datetime.date(2049, 12, 31)),
    st.sampled_from(sorted(dates.DATE_FORMATS)),
)
def test_ids_differ_between_dates_only_inside_the_span(
    builder: PromptBuilder, day: datetime.date, name: str
) -> None:
    write = dates.DATE_FORMATS[name]
    prompt = builder.item_prompt(MMLU, ITEM, variant(name))
    prompts.check_treatment(builder, prompt, [write(datetime.date(2024, 1, 1)), write(day)], "here")


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


CLOCKED = "{{ 'Today: ' + strftime_now('%d %B %Y') + '\n' }}" + CHATML


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


def own_dates(builder: PromptBuilder, under: Variant | None = None) -> list[str]:
    return builder.own_dates(MMLU, ITEM, under or variant())


def test_a_template_without_a_date_has_none(builder: PromptBuilder) -> None:
    assert own_dates(builder) == own_dates(builder, CONTROL) == []


@pytest.mark.parametrize(
    "date",
    [
        "26 Jul 2024",
        "26 July 2024",
        "Jul 26 2024",
        "July 26, 2024",
        "29-04-2026",
        "29.04.2026",
        "2024/7/26",
        "26. July 2024",
    ],
)
def test_a_template_with_a_date_of_its_own_is_noticed(
    with_template: Callable[..., PromptBuilder], date: str
) -> None:
    template = f"{{{{ 'Today Date: {date}\n' }}}}" + CHATML
    assert own_dates(with_template(template, own_date="keep")) == [date]
    with pytest.raises(
        PromptError, match=f"writes a date of its own, {date}, beside the swept one.*`paper`"
    ):
        own_dates(with_template(template))


def test_a_template_that_reads_the_clock_in_whatever_form_is_noticed(
    with_template: Callable[..., PromptBuilder],
) -> None:
    assert own_dates(with_template(CLOCKED, own_date="keep")) == ["26 July 2024"]
    with pytest.raises(PromptError, match="the clock's time"):
        own_dates(with_template("{{ 'It is ' + strftime_now('%A') + '.\n' }}" + CHATML))


def test_a_date_that_a_template_writes_only_without_a_system_message_is_noticed(
    with_template: Callable[..., PromptBuilder],
) -> None:
    odd = with_template(
        "{{ 'Today is 2024-07-26.\n' if messages[0]['role'] != 'system' }}" + CHATML,
        control_system="omit",
    )
    assert own_dates(odd) == []
    with pytest.raises(PromptError, match="2024-07-26, in a prompt that is to have none"):
        own_dates(odd, CONTROL)
    with pytest.raises(PromptError, match="2024-07-26, beside the swept one"):
        own_dates(odd, variant(placements=["user_start"]))


def test_labels_are_the_single_tokens_that_follow_the_prompt(builder: PromptBuilder) -> None:
    prompt = builder.item_prompt(MMLU, ITEM, variant())
    assert builder.label_token_ids(prompt, "2024-03-05", [" A", " B", " C", " D"]) == (
        330,
        389,
        340,
        422,
    )


@pytest.mark.parametrize("labels", [[" Anticonstitutionally"], [" A", " A"]])
def test_labels_that_are_no_single_tokens_of_their_own_are_an_error(
    builder: PromptBuilder, labels: list[str]
) -> None:
    with pytest.raises(PromptError, match="label"):
        builder.label_token_ids(builder.item_prompt(MMLU, ITEM, variant()), "2024-03-05", labels)


def test_two_bos_tokens_are_an_error(builder: PromptBuilder) -> None:
    builder.check_bos([1, 5, 1], "here")
    with pytest.raises(PromptError, match="two BOS"):
        builder.check_bos([1, 1, 5], "here")


def test_a_date_that_merges_with_its_surroundings_is_found(builder: PromptBuilder) -> None:
    # "a" next to the date text "b": one token for "ab", another split for "a" + "1", so ids outside
    # the span change.
    prompt = prompts.ItemPrompt(before="The c", after="")
    with pytest.raises(PromptError, match="differ outside the date span"):
        prompts.check_treatment(builder, prompt, ["at", " 1"], "here")


def test_every_dated_prompt_of_every_task_passes_the_treatment_check(
    builder: PromptBuilder, simulated_spec: SweepSpec
) -> None:
    for asked in plan.gather(simulated_spec).benchmarks:
        for item in asked.items[:3]:
            prompt = builder.item_prompt(asked.task, item, variant())
            outside, date = prompts.check_treatment(
                builder, prompt, ["2024-01-01", "2024-12-31"], item.item_id
            )
            assert outside + date == len(builder.encode(prompt.text("2024-03-05")))


@pytest.mark.parametrize("placement", ["system_start", "system_end", "user_start", "user_end"])
@pytest.mark.parametrize("name", ["mmlu", "humaneval"])
def test_the_date_stands_where_the_placement_says(
    builder: PromptBuilder, simulated_spec: SweepSpec, placement: str, name: str
) -> None:
    spec = simulated_spec.model_copy(
        update={"tasks": [TaskSpec(name=name, limit=2)], "allow_code_execution": True}
    )
    [asked] = plan.gather(spec).benchmarks
    for item in asked.items:
        prompt, user = (
            builder.item_prompt(asked.task, item, variant(placements=[placement])),
            asked.task.prompt(item).user.strip(),
        )
        assert (user in prompt.before) == (placement == "user_end")
        assert (user in prompt.after) == (placement != "user_end")
        turn = prompt.before.rpartition("<|im_start|>")[2]
        assert turn.startswith("user" if placement.startswith("user") else "system")


def shots() -> list[Item]:
    return [
        dataclasses.replace(
            ITEM, item_id=f"dev-{i:05d}", fields={"question": f"Which is odd {i}?"}, target="A"
        )
        for i in range(5)
    ]


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


SLOTTED = "{{ 'Today: ' + (date_string or '26 Jul 2024') + '\n' }}" + CHATML


def test_native_mode_puts_the_date_into_the_templates_own_slot(
    with_template: Callable[..., PromptBuilder],
) -> None:
    for template, slot, date_format in (
        (SLOTTED, "date_string", "day_month_year"),
        (CLOCKED.replace("%d %B %Y", "%Y-%m-%d"), "clock", "iso"),
    ):
        odd = with_template(template, date_slot=slot, paper=CHATML)
        assert own_dates(odd, variant(date_format, placements=["template"])) == []
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


def test_native_mode_refuses_a_template_with_a_second_date(
    with_template: Callable[..., PromptBuilder],
) -> None:
    odd = with_template(
        "{{ 'Made on 3 May 2023.\n' }}" + SLOTTED, date_slot="date_string", paper=CHATML
    )
    with pytest.raises(PromptError, match="3 May 2023"):
        own_dates(odd, variant("day_month_year", placements=["template"]))


def test_bare_labels_stand_at_the_start_of_the_assistants_turn(demo_folder: Path) -> None:
    bare = PromptBuilder(model().model_copy(update={"label_form": "bare"}), demo_folder)
    prompt = bare.item_prompt(tasks.get("mmlu", "five_shot"), ITEM, variant(), shots())
    assert "Answer:" not in prompt.after
    assert "<|im_start|>assistant\nA<|im_end|>" in prompt.after
    assert prompt.after.endswith("<|im_start|>assistant\n")
    assert bare.labels(MMLU, ITEM) == ["A", "B", "C", "D"]


def test_a_swept_date_that_the_question_or_the_template_also_shows_is_an_error(
    builder: PromptBuilder, with_template: Callable[..., PromptBuilder]
) -> None:
    asks = dataclasses.replace(ITEM, fields={"question": "What was on 2024-03-05?"})
    prompt = builder.item_prompt(MMLU, asks, variant())
    prompts.check_only_date(builder, prompt, ["2024-03-04"], "here")
    with pytest.raises(PromptError, match="'2024-03-05' also stands elsewhere"):
        prompts.check_only_date(builder, prompt, ["2024-03-04", "2024-03-05"], "here")
    constant = with_template("{{ 'Today Date: 26 Jul 2024\n' }}" + CHATML, own_date="keep")
    with pytest.raises(PromptError, match="'26 Jul 2024' also stands elsewhere"):
        prompts.check_only_date(
            constant, constant.item_prompt(MMLU, ITEM, variant()), ["26 Jul 2024"], "here"
        )
