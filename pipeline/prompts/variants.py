"""The ways in which every item is asked: dates, controls, placebo copies, and all that is varied
beside the date; and their messages.
"""

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
    """What the names in a sweep stand for in its prompts, so that a changed text is another sweep."""
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


def placebo_variants(calendar: CalendarSpec, asked: list[Variant]) -> list[str]:
    """Names of those of `asked` that get a second copy: `placebo` dates of the first condition, or
    controls where none has a date.
    """
    dated = [v for v in asked if v.date is not None]
    first = [v for v in dated if v.condition == dated[0].condition] or asked
    count = min(calendar.placebo, len(first))
    return [first[i * len(first) // count].variant for i in range(count)]


def messages(prompt: Prompt, variant: Variant, template: TemplateSpec) -> list[Message]:
    """Chat messages of `prompt` under `variant`.

    A control, and a date in the template's own slot, have no date sentence.
    """
    sentence = (
        date_sentence(variant.date_text)
        if variant.date is not None and variant.placement != "template"
        else ""
    )
    at = {
        place: sentence if variant.placement == place else ""
        for place in ("system_start", "system_end", "user_start", "user_end")
    }
    place = location_sentence(variant.location) if variant.location != "none" else ""
    system = _lines(
        at["system_start"], place, WORDINGS[variant.wording], prompt.system, at["system_end"]
    )
    user = _lines(at["user_start"], prompt.user, at["user_end"])
    turns = [
        {"role": role, "content": text}
        for shot in prompt.shots
        for role, text in zip(("user", "assistant"), shot, strict=True)
    ]
    turns.append({"role": "user", "content": user})
    if prompt.prefill:
        turns.append({"role": "assistant", "content": prompt.prefill})
    return _with_system(turns, system, template)


def _with_system(turns: list[Message], system: str, template: TemplateSpec) -> list[Message]:
    """`turns` behind the system text, in the role that the template has for it."""
    if not system and (template.control_system == "omit" or template.system_role == "user"):
        return turns
    if template.system_role == "user":
        return [{"role": "user", "content": f"{system}\n\n{turns[0]['content']}"}, *turns[1:]]
    return [{"role": template.system_role, "content": system}, *turns]


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
