"""Prompts on the demo model's real tokenizer, and on templates that do the wrong thing with the date."""

import dataclasses
import datetime
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import dates, prompts, tasks
from pipeline.config import TemplateSpec
from pipeline.errors import PromptError
from pipeline.prompts import PromptBuilder
from pipeline.records import Item
from pipeline.tasks import Prompt

ITEM = Item(
    task="mmlu",
    item_id="test-00000",
    group="g",
    fields={"question": "Which is even?"},
    options=["one", "two", "three", "five"],
    target="B",
    references=[],
)
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def builder(demo_folder: Path) -> PromptBuilder:
    return PromptBuilder("demo", demo_folder, TemplateSpec())


@pytest.fixture
def with_template(demo_folder: Path, tmp_path: Path) -> Callable[[str], PromptBuilder]:
    def make(template: str, **spec: object) -> PromptBuilder:
        for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
            shutil.copy(demo_folder / name, tmp_path / name)
        (tmp_path / "chat_template.jinja").write_text(template)
        return PromptBuilder("odd", tmp_path, TemplateSpec.model_validate(spec))

    return make


def test_a_prompt_is_the_papers_text_in_the_models_own_template(builder: PromptBuilder) -> None:
    text = builder.item_prompt(tasks.get("mmlu"), ITEM).text("2024-03-05")
    assert text == (
        "<|im_start|>system\nCurrent date: 2024-03-05.<|im_end|>\n<|im_start|>user\nQuestion: Which is even?\n"
        "A. one\nB. two\nC. three\nD. five<|im_end|>\n<|im_start|>assistant\nAnswer:"
    )


def test_composed_ids_equal_transformers_own_rendering_and_tokenisation(builder: PromptBuilder) -> None:
    prompt = builder.item_prompt(tasks.get("mmlu"), ITEM)
    user = tasks.get("mmlu").prompt(ITEM).user
    turns = [
        {"role": "system", "content": "Current date: 2024-11-30."},
        {"role": "user", "content": user},
        {"role": "assistant", "content": "Answer:"},
    ]
    expected = builder.tokenizer.apply_chat_template(turns, continue_final_message=True, tokenize=True, return_dict=False)
    assert builder.encode(prompt.text("2024-11-30")) == list(expected)


def test_the_span_holds_the_date_and_nothing_else(builder: PromptBuilder) -> None:
    span = builder.span(builder.item_prompt(tasks.get("mmlu"), ITEM), "2024-03-05")
    assert builder.tokenizer.decode(span.token_ids[span.start : span.stop]).strip() == "2024-03-05"


@settings(max_examples=60, deadline=None)
@given(st.dates(datetime.date(2000, 1, 1), datetime.date(2049, 12, 31)), st.sampled_from(sorted(dates.DATE_FORMATS)))
def test_ids_differ_between_dates_only_inside_the_span(builder: PromptBuilder, day: datetime.date, name: str) -> None:
    write = dates.DATE_FORMATS[name]
    prompt = builder.item_prompt(tasks.get("mmlu"), ITEM)
    prompts.check_treatment(builder, prompt, [write(datetime.date(2024, 1, 1)), write(day)], "here")


def test_the_control_keeps_an_empty_system_message_so_that_the_template_adds_no_text_of_its_own(builder: PromptBuilder) -> None:
    control = builder.item_prompt(tasks.get("mmlu"), ITEM).control
    assert control.startswith("<|im_start|>system\n<|im_end|>\n<|im_start|>user\n")
    assert "SmolLM" not in control


def test_the_control_can_leave_the_system_message_out(with_template: Callable[..., PromptBuilder]) -> None:
    odd = with_template(CHATML, control_system="omit")
    assert odd.item_prompt(tasks.get("mmlu"), ITEM).control.startswith("<|im_start|>user\n")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (CHATML.replace("for m in messages", "for m in messages if m['role'] != 'system'"), "drops the system text"),
        (CHATML.replace("+ m['content'] +", "+ m['content'] + m['content'] +"), "shows the date 2 times"),
        (CHATML.replace("m['content']", "m['content'] | replace('Current date: ', '')"), "changes its sentence"),
        (CHATML.replace("for m in messages", "for m in messages[1:2] + messages[:1] + messages[2:]"), "behind the question"),
        (
            CHATML.replace("m['content'] +", "m['content'] ~ (m['content'] | replace('1987-10-26', '') | length) +"),
            "changes more than the date",
        ),
        ("{{ raise_exception('System role not supported') if messages[0]['role'] == 'system' }}" + CHATML, "System role not supported"),
        (CHATML + "{{ nothing.here }}", "nothing"),
    ],
    ids=["drops", "repeats", "loses the sentence", "moves", "length", "raises", "undefined"],
)
def test_a_template_that_mistreats_the_date_is_an_error_naming_model_task_and_item(
    with_template: Callable[[str], PromptBuilder], template: str, words: str
) -> None:
    with pytest.raises(PromptError, match="model odd, task mmlu, item test-00000") as caught:
        with_template(template).item_prompt(tasks.get("mmlu"), ITEM)
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

    first = odd.item_prompt(tasks.get("mmlu"), ITEM)
    monkeypatch.setattr(target, "datetime", Later)
    assert odd.item_prompt(tasks.get("mmlu"), ITEM) == first, "the wall clock must not reach a prompt"
    assert "Today: 26 July 2024" in first.before


def test_a_template_with_a_date_of_its_own_is_noticed(builder: PromptBuilder, with_template: Callable[..., PromptBuilder]) -> None:
    assert with_template(CLOCKED).own_dates() == ["26 July 2024"]
    assert with_template("{{ 'Today Date: 26 Jul 2024\n' }}" + CHATML).own_dates() == ["26 Jul 2024"]
    assert builder.own_dates() == []


def test_labels_are_the_single_tokens_that_follow_the_prompt(builder: PromptBuilder) -> None:
    prompt = builder.item_prompt(tasks.get("mmlu"), ITEM)
    assert builder.label_token_ids(prompt, "2024-03-05", [" A", " B", " C", " D"]) == (330, 389, 340, 422)


@pytest.mark.parametrize("labels", [[" Anticonstitutionally"], [" A", " A"]])
def test_labels_that_are_no_single_tokens_of_their_own_are_an_error(builder: PromptBuilder, labels: list[str]) -> None:
    with pytest.raises(PromptError, match="label"):
        builder.label_token_ids(builder.item_prompt(tasks.get("mmlu"), ITEM), "2024-03-05", labels)


def test_two_bos_tokens_are_an_error(builder: PromptBuilder) -> None:
    builder.check_bos([1, 5, 1], "here")
    with pytest.raises(PromptError, match="two BOS"):
        builder.check_bos([1, 1, 5], "here")


def test_a_date_that_merges_with_its_surroundings_is_found(builder: PromptBuilder) -> None:
    # "a" next to the date text "b": one token for "ab", another split for "a" + "1", so ids outside the span change.
    prompt = prompts.ItemPrompt(before="The c", after="", control="")
    with pytest.raises(PromptError, match="differ outside the date span"):
        prompts.check_treatment(builder, prompt, ["at", " 1"], "here")


def test_every_dated_prompt_of_every_task_passes_the_treatment_check(builder: PromptBuilder, simulated_spec: object) -> None:
    from pipeline import plan

    for spec in simulated_spec.tasks:  # type: ignore[attr-defined]
        for item in plan.load(spec, simulated_spec.data_root)[:3]:  # type: ignore[attr-defined]
            prompt = builder.item_prompt(tasks.get(item.task), item)
            assert isinstance(tasks.get(item.task).prompt(item), Prompt)
            outside, date = prompts.check_treatment(builder, prompt, ["2024-01-01", "2024-12-31"], item.item_id)
            assert outside + date == len(builder.encode(prompt.text("2024-03-05")))


def test_a_swept_date_that_the_question_or_the_template_also_shows_is_an_error(
    builder: PromptBuilder, with_template: Callable[..., PromptBuilder]
) -> None:
    asks = dataclasses.replace(ITEM, fields={"question": "What was on 2024-03-05?"})
    prompt = builder.item_prompt(tasks.get("mmlu"), asks)
    prompts.check_only_date(builder, prompt, ["2024-03-04"], "here")
    with pytest.raises(PromptError, match="'2024-03-05' also stands elsewhere"):
        prompts.check_only_date(builder, prompt, ["2024-03-04", "2024-03-05"], "here")
    constant = with_template("{{ 'Today Date: 26 Jul 2024\n' }}" + CHATML)
    with pytest.raises(PromptError, match="'26 Jul 2024' also stands elsewhere"):
        prompts.check_only_date(constant, constant.item_prompt(tasks.get("mmlu"), ITEM), ["26 Jul 2024"], "here")
