import datetime
import itertools
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipeline.core import conditions, dates
from pipeline.core.records import CONTROL, Variant
from pipeline.prompts import variants
from pipeline.prompts.condition import Condition, parse
from pipeline.settings import CalendarSpec, ConditionsSpec, TemplateSpec
from pipeline.tasks import Prompt

CALENDAR = CalendarSpec(
    first=datetime.date(2024, 1, 1),
    last=datetime.date(2024, 1, 10),
    formats=["iso", "day_month_year"],
    placebo=2,
)
USUAL = ConditionsSpec()
PROMPT = Prompt(system="Be brief.", user="Hi", prefill="Answer:")


def of(day: str = "2024-03-05", **axes: list[object]) -> Variant:
    calendar = CalendarSpec(dates=[datetime.date.fromisoformat(day)], control=False)
    return variants.variants(calendar, ConditionsSpec.model_validate(axes))[0]


def control(**axes: list[object]) -> Variant:
    return variants.variants(CalendarSpec(dates=[]), ConditionsSpec.model_validate(axes))[0]


def texts(variant: Variant, prompt: Prompt = PROMPT, **template: object) -> list[tuple[str, str]]:
    return [
        (m["role"], m["content"])
        for m in variants.messages(prompt, variant, TemplateSpec.model_validate(template))
    ]


def test_there_is_one_variant_for_each_format_and_date_and_one_control() -> None:
    found = variants.variants(CALENDAR, USUAL)
    assert len(found) == len({v.variant for v in found}) == 2 * 10 + 1
    assert [v for v in found if v.date is None] == [found[0]]
    assert found[0].variant == CONTROL
    assert found[1].date_text == "2024-01-01"
    assert found[11].date_text == "01 Jan 2024"


def test_a_calendar_can_do_without_the_control() -> None:
    assert all(
        v.date for v in variants.variants(CALENDAR.model_copy(update={"control": False}), USUAL)
    )


axes = st.fixed_dictionaries(
    {
        "placements": st.lists(
            st.sampled_from(sorted(conditions.PLACEMENTS)), min_size=1, max_size=3, unique=True
        ),
        "wordings": st.lists(
            st.sampled_from(sorted(conditions.WORDINGS)), min_size=1, max_size=3, unique=True
        ),
        "option_orders": st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
        "locations": st.lists(
            st.sampled_from(sorted(conditions.LOCATIONS)), min_size=1, max_size=3, unique=True
        ),
    }
)


@given(
    axes,
    st.lists(st.sampled_from(sorted(dates.DATE_FORMATS)), min_size=1, max_size=2, unique=True),
    st.booleans(),
)
def test_the_axes_are_crossed_and_every_combination_has_a_name_of_its_own(
    given_axes: dict[str, list[object]], formats: list[str], several_years: bool
) -> None:
    spec = ConditionsSpec.model_validate(given_axes)
    days = [datetime.date(2024, 3, 5), datetime.date(2024, 3, 6)]
    calendar = CalendarSpec(
        dates=days, formats=formats, years=[2023, 2024] if several_years else None
    )
    found = variants.variants(calendar, spec)
    for variant in found:
        assert parse(variant.condition, "--condition").on(variant.date) == variant
    num_others = len(spec.wordings) * len(spec.option_orders) * len(spec.locations)
    num_dated = num_others * len(spec.placements) * len(formats) * len(calendar.days())
    assert len(found) == len({v.variant for v in found}) == num_dated + num_others
    for condition, group in itertools.groupby(
        sorted(found, key=lambda v: v.condition), key=lambda v: v.condition
    ):
        members = list(group)
        same = {
            (v.year, v.date_format, v.placement, v.wording, v.option_order, v.location)
            for v in members
        }
        assert len(same) == 1, f"variants of {condition} differ in more than the date"
        assert len({v.date for v in members}) == len(members)


@given(
    st.builds(
        Condition,
        date_format=st.sampled_from(sorted(dates.DATE_FORMATS)),
        placement=st.sampled_from(sorted(conditions.PLACEMENTS)),
        wording=st.sampled_from(sorted(conditions.WORDINGS)),
        order=st.integers(0, 10**6),
        location=st.sampled_from(sorted(conditions.LOCATIONS)),
        year=st.none() | st.integers(1, 9999),
    ),
    st.randoms(use_true_random=False),
)
def test_a_condition_is_read_from_its_name_in_any_order(
    condition: Condition, random: Random
) -> None:
    assert parse(condition.name, "--condition") == condition
    first, *axes = condition.name.split(";")
    random.shuffle(axes)
    assert parse(";".join([first, *axes]), "--condition") == condition


def test_a_name_says_what_differs_from_the_usual() -> None:
    assert of().variant == "iso:2024-03-05"
    assert of().condition == "iso"
    odd = of(placements=["user_end"], wordings=["expert"], option_orders=[3], locations=["tokyo"])
    assert odd.variant == "iso:2024-03-05;placement=user_end;wording=expert;order=3;location=tokyo"
    assert odd.condition == "iso;placement=user_end;wording=expert;order=3;location=tokyo"
    assert control(wordings=["expert"]).condition == "control;wording=expert"


def test_placebo_copies_are_of_the_first_condition_with_dates() -> None:
    found = variants.variants(CALENDAR, ConditionsSpec(placements=["user_end", "system_end"]))
    assert variants.placebo_variants(CALENDAR, found) == [
        "iso:2024-01-01;placement=user_end",
        "iso:2024-01-06;placement=user_end",
    ]


def test_without_dates_controls_are_asked_again() -> None:
    calendar = CalendarSpec(dates=[], placebo=2)
    found = variants.variants(calendar, ConditionsSpec(wordings=["none", "helpful", "expert"]))
    assert variants.placebo_variants(calendar, found) == ["control", "control;wording=helpful"]


def test_the_date_sentence_comes_first_and_the_tasks_text_on_the_next_line() -> None:
    assert texts(of()) == [
        ("system", "Current date: 2024-03-05.\nBe brief."),
        ("user", "Hi"),
        ("assistant", "Answer:"),
    ]


@pytest.mark.parametrize(
    ("placement", "system", "user"),
    [
        ("system_start", "Current date: 2024-03-05.\nBe brief.", "Hi"),
        ("system_end", "Be brief.\nCurrent date: 2024-03-05.", "Hi"),
        ("user_start", "Be brief.", "Current date: 2024-03-05.\nHi"),
        ("user_end", "Be brief.", "Hi\nCurrent date: 2024-03-05."),
        ("template", "Be brief.", "Hi"),
    ],
)
def test_a_placement_moves_the_sentence_and_nothing_else(
    placement: str, system: str, user: str
) -> None:
    assert texts(of(placements=[placement])) == [
        ("system", system),
        ("user", user),
        ("assistant", "Answer:"),
    ]


def test_location_and_wording_stand_between_the_date_and_the_tasks_text() -> None:
    [system, *_] = texts(of(wordings=["helpful"], locations=["tokyo"]))
    expected = (
        "Current date: 2024-03-05.\nCurrent location: Tokyo, Japan.\nYou are a helpful "
        "assistant.\nBe brief."
    )
    assert system == ("system", expected)


@pytest.mark.parametrize(
    "axes", [{}, {"wordings": ["expert"]}, {"locations": ["lima"], "option_orders": [2]}]
)
def test_the_control_loses_the_sentence_and_nothing_else(axes: dict[str, list[object]]) -> None:
    dated, undated = texts(of(**axes)), texts(control(**axes))
    assert dated[0][1] == f"Current date: 2024-03-05.\n{undated[0][1]}"
    assert undated[1:] == dated[1:]


def test_shots_stand_between_the_system_text_and_the_item() -> None:
    prompt = Prompt(
        system="",
        user="Hi",
        prefill="Answer:",
        shots=(("One?", "Answer: A"), ("Two?", "Answer: B")),
    )
    assert [role for role, _ in texts(of(), prompt)] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert texts(of(placements=["user_start"]), prompt)[-2] == (
        "user",
        "Current date: 2024-03-05.\nHi",
    ), "the date is in the item's turn"


def test_the_system_text_takes_the_role_that_the_template_has_for_it() -> None:
    assert texts(of(), system_role="developer")[0] == (
        "developer",
        "Current date: 2024-03-05.\nBe brief.",
    )
    assert texts(of(), system_role="user") == [
        ("user", "Current date: 2024-03-05.\nBe brief.\n\nHi"),
        ("assistant", "Answer:"),
    ]


def test_an_empty_system_message_is_kept_or_left_out_as_the_model_file_says() -> None:
    bare = Prompt(system="", user="Hi", prefill="")
    assert texts(control(), bare) == [("system", ""), ("user", "Hi")]
    assert texts(control(), bare, control_system="omit") == [("user", "Hi")]
    assert texts(control(), bare, system_role="user") == [("user", "Hi")]
