import datetime

from pipeline import variants
from pipeline.config import CalendarSpec, TemplateSpec
from pipeline.records import CONTROL
from pipeline.tasks import Prompt

CALENDAR = CalendarSpec(first=datetime.date(2024, 1, 1), last=datetime.date(2024, 1, 10), formats=["iso", "day_month_year"], placebo=2)


def test_there_is_one_variant_for_each_format_and_date_and_one_control() -> None:
    found = variants.variants(CALENDAR)
    assert len(found) == len({v.variant for v in found}) == 2 * 10 + 1
    assert [v for v in found if v.date is None] == [found[0]]
    assert found[0].variant == CONTROL
    assert found[1].date_text == "2024-01-01"
    assert found[11].date_text == "01 Jan 2024"


def test_a_calendar_can_do_without_the_control() -> None:
    assert all(v.date for v in variants.variants(CALENDAR.model_copy(update={"control": False})))


def test_placebo_dates_are_variants_of_the_sweep() -> None:
    names = [v.variant for v in variants.variants(CALENDAR)]
    assert variants.placebo_variants(CALENDAR) == ["iso:2024-01-01", "iso:2024-01-06"]
    assert set(variants.placebo_variants(CALENDAR)) <= set(names)


def test_the_date_sentence_comes_first_and_the_tasks_text_on_the_next_line() -> None:
    [system, user] = variants.messages(Prompt(system="Be brief.", user="Hi", prefill=""), "2024-03-05", TemplateSpec())
    assert system == {"role": "system", "content": "Current date: 2024-03-05.\nBe brief."}
    assert user == {"role": "user", "content": "Hi"}


def test_the_control_loses_the_sentence_and_nothing_else() -> None:
    prompt = Prompt(system="Be brief.", user="Hi", prefill="Answer:")
    dated, control = (variants.messages(prompt, text, TemplateSpec()) for text in ("2024-03-05", ""))
    assert control[0]["content"] == "Be brief."
    assert control[1:] == dated[1:]
