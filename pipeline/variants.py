"""The conditions of a sweep: its dates, the control, the placebo; and the messages of an item under a date."""

from pipeline import dates
from pipeline.config import CalendarSpec, TemplateSpec
from pipeline.records import CONTROL, Variant
from pipeline.tasks import Prompt

Message = dict[str, str]


def date_sentence(date_text: str) -> str:
    """The sentence that carries the date, as in the paper's prompts (Figures 6 to 10)."""
    return f"Current date: {date_text}."


def variants(calendar: CalendarSpec) -> list[Variant]:
    """Every condition of a calendar: the control first, where wanted, then each date in each format."""
    dated = [
        Variant(variant=f"{name}:{day}", date=day, date_format=name, date_text=dates.DATE_FORMATS[name](day))
        for name in calendar.formats
        for day in calendar.days()
    ]
    control = Variant(variant=CONTROL, date=None, date_format="", date_text="")
    return [control, *dated] if calendar.control else dated


def placebo_variants(calendar: CalendarSpec) -> list[str]:
    """Names of the variants that are asked a second time: `placebo` dates spread over the calendar, in its first format."""
    return [f"{calendar.formats[0]}:{day}" for day in dates.spread(calendar.days(), calendar.placebo)]


def messages(prompt: Prompt, date_text: str, template: TemplateSpec) -> list[Message]:
    """Chat messages of `prompt`: the date sentence comes first in the system message, or is left out where `date_text` is empty."""
    sentence = [date_sentence(date_text)] if date_text else []
    system = "\n".join([*sentence, *([prompt.system] if prompt.system else [])])
    turns = [] if not system and template.control_system == "omit" else [{"role": "system", "content": system}]
    turns.append({"role": "user", "content": prompt.user})
    if prompt.prefill:
        turns.append({"role": "assistant", "content": prompt.prefill})
    return turns
