"""The ways in which every item is asked, dates, controls and placebo copies, and their messages."""

import itertools
from dataclasses import replace

from pipeline.core.conditions import WORDINGS, location_sentence
from pipeline.core.records import Variant
from pipeline.prompts.condition import Condition
from pipeline.settings import CalendarSpec, ConditionsSpec, TemplateSpec
from pipeline.tasks import Prompt

Message = dict[str, str]


def date_sentence(date_text: str) -> str:
    """The sentence that carries the date, as in the paper's prompts (Figures 6 to 10)."""
    return f"Current date: {date_text}."


def texts(conditions: ConditionsSpec) -> dict[str, str]:
    """What the names in a sweep stand for, so that a changed text is another sweep."""
    wordings = {f"wording {name}": WORDINGS[name] for name in conditions.wordings}
    locations = {
        f"location {name}": location_sentence(name)
        for name in conditions.locations
        if name != "none"
    }
    return {"date": date_sentence("<date>"), **wordings, **locations}


def variants(calendar: CalendarSpec, conditions: ConditionsSpec) -> list[Variant]:
    """Every combination of the axes of a sweep, the controls first, where it wants them."""
    axes = itertools.product(conditions.wordings, conditions.option_orders, conditions.locations)
    undated = [Condition(wording=w, order=order, location=where) for w, order, where in axes]
    dated = [
        replace(
            condition,
            date_format=date_format,
            placement=placement,
            year=day.year if calendar.years else None,
        ).on(day)
        for date_format, placement, condition, day in itertools.product(
            calendar.formats, conditions.placements, undated, calendar.days()
        )
    ]
    return [*(condition.on(None) for condition in undated if calendar.control), *dated]


def placebo_variants(calendar: CalendarSpec, swept: list[Variant]) -> list[str]:
    """Names of those of `swept` that get a second copy: `placebo` dates of the first condition.

    Or controls where none has a date.
    """
    dated = [v for v in swept if v.date is not None]
    first = [v for v in dated if v.condition == dated[0].condition] or swept
    count = min(calendar.placebo, len(first))
    return [first[i * len(first) // count].variant for i in range(count)]


def messages(prompt: Prompt, variant: Variant, template: TemplateSpec) -> list[Message]:
    """Chat messages of `prompt` under `variant`.

    A control, and a date in the template's own slot, have no date sentence.
    """
    at = dict.fromkeys(("system_start", "system_end", "user_start", "user_end"), "")
    if variant.placement in at:
        at[variant.placement] = date_sentence(variant.date_text)
    location = location_sentence(variant.location) if variant.location != "none" else ""
    wording = WORDINGS[variant.wording]
    system = _lines(at["system_start"], location, wording, prompt.system, at["system_end"])
    user = _lines(at["user_start"], prompt.user, at["user_end"])
    turns = [
        _message(role, text)
        for shot in prompt.shots
        for role, text in zip(("user", "assistant"), shot, strict=True)
    ]
    turns.append(_message("user", user))
    if prompt.prefill:
        turns.append(_message("assistant", prompt.prefill))
    is_in_user_turn = template.system_role == "user"
    if not system and (template.control_system == "omit" or is_in_user_turn):
        return turns
    if is_in_user_turn:
        return [_message("user", f"{system}\n\n{turns[0]['content']}"), *turns[1:]]
    return [_message(template.system_role, system), *turns]


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
