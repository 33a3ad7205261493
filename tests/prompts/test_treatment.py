"""The proof that the date is there and nothing else moves; dates that a template writes itself."""

import dataclasses
import datetime
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from pipeline.core import dates
from pipeline.core.errors import PromptError
from pipeline.core.records import Variant
from pipeline.plan.stage import gather
from pipeline.prompts import (
    ItemPrompt,
    PromptBuilder,
    check_bos,
    check_only_date,
    check_treatment,
    own_dates,
)
from pipeline.settings import SweepSpec
from tests.prompts.conftest import CHATML, CLOCKED, CONTROL, ITEM, MMLU, SLOTTED, variant


@settings(max_examples=60)
@given(
    st.dates(datetime.date(2000, 1, 1), datetime.date(2049, 12, 31)),
    st.sampled_from(sorted(dates.DATE_FORMATS)),
)
def test_ids_differ_between_dates_only_inside_the_span(
    builder: PromptBuilder, day: datetime.date, name: str
) -> None:
    write = dates.DATE_FORMATS[name]
    prompt = builder.item_prompt(MMLU, ITEM, variant(name))
    check_treatment(
        builder.tokenizer, prompt, [write(datetime.date(2024, 1, 1)), write(day)], "here"
    )


def own(builder: PromptBuilder, under: Variant | None = None) -> list[str]:
    return own_dates(builder, MMLU, ITEM, under or variant())


def test_a_template_without_a_date_has_none(builder: PromptBuilder) -> None:
    assert own(builder) == own(builder, CONTROL) == []


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
    assert own(with_template(template, own_date="keep")) == [date]
    with pytest.raises(
        PromptError, match=f"writes a date of its own, {date}, beside the swept one.*`paper`"
    ):
        own(with_template(template))


def test_a_template_that_reads_the_clock_in_whatever_form_is_noticed(
    with_template: Callable[..., PromptBuilder],
) -> None:
    assert own(with_template(CLOCKED, own_date="keep")) == ["26 July 2024"]
    with pytest.raises(PromptError, match="the clock's time"):
        own(with_template("{{ 'It is ' + strftime_now('%A') + '.\n' }}" + CHATML))


def test_a_date_that_a_template_writes_only_without_a_system_message_is_noticed(
    with_template: Callable[..., PromptBuilder],
) -> None:
    odd = with_template(
        "{{ 'Today is 2024-07-26.\n' if messages[0]['role'] != 'system' }}" + CHATML,
        control_system="omit",
    )
    assert own(odd) == []
    with pytest.raises(PromptError, match="2024-07-26, in a prompt that is to have none"):
        own(odd, CONTROL)
    with pytest.raises(PromptError, match="2024-07-26, beside the swept one"):
        own(odd, variant(placements=["user_start"]))


def test_two_bos_tokens_are_an_error(builder: PromptBuilder) -> None:
    check_bos(builder.tokenizer, [1, 5, 1], "here")
    with pytest.raises(PromptError, match="two BOS"):
        check_bos(builder.tokenizer, [1, 1, 5], "here")


def test_a_date_that_merges_with_its_surroundings_is_found(builder: PromptBuilder) -> None:
    # "a" next to the date text "b": one token for "ab", another split for "a" + "1", so ids outside
    # the span change.
    prompt = ItemPrompt(before="The c", after="")
    with pytest.raises(PromptError, match="differ outside the date span"):
        check_treatment(builder.tokenizer, prompt, ["at", " 1"], "here")


def test_every_dated_prompt_of_every_task_passes_the_treatment_check(
    builder: PromptBuilder, simulated_spec: SweepSpec
) -> None:
    for benchmark in gather(simulated_spec).benchmarks:
        for item in benchmark.items[:3]:
            prompt = builder.item_prompt(benchmark.task, item, variant())
            dates = ["2024-01-01", "2024-12-31"]
            check_treatment(builder.tokenizer, prompt, dates, item.item_id)


def test_native_mode_refuses_a_template_with_a_second_date(
    with_template: Callable[..., PromptBuilder],
) -> None:
    odd = with_template(
        "{{ 'Made on 3 May 2023.\n' }}" + SLOTTED, date_slot="date_string", paper=CHATML
    )
    with pytest.raises(PromptError, match="3 May 2023"):
        own(odd, variant("day_month_year", placements=["template"]))


def test_a_swept_date_that_the_question_or_the_template_also_shows_is_an_error(
    builder: PromptBuilder, with_template: Callable[..., PromptBuilder]
) -> None:
    asks = dataclasses.replace(ITEM, fields={"question": "What was on 2024-03-05?"})
    prompt = builder.item_prompt(MMLU, asks, variant())
    check_only_date(builder.model, prompt, ["2024-03-04"], "here")
    with pytest.raises(PromptError, match="'2024-03-05' also stands elsewhere"):
        check_only_date(builder.model, prompt, ["2024-03-04", "2024-03-05"], "here")
    constant = with_template("{{ 'Today Date: 26 Jul 2024\n' }}" + CHATML, own_date="keep")
    with pytest.raises(PromptError, match="'26 Jul 2024' also stands elsewhere"):
        check_only_date(
            constant.model, constant.item_prompt(MMLU, ITEM, variant()), ["26 Jul 2024"], "here"
        )
