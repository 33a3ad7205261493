"""The exact prompt that a sweep would ask."""

import datetime
from dataclasses import replace

from rich.console import Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pipeline import tasks
from pipeline.core import dates
from pipeline.core.errors import ConfigError, nearest
from pipeline.core.records import CONTROL, Item, Variant
from pipeline.data import checkpoints
from pipeline.plan import benchmarks
from pipeline.prompts import PromptBuilder
from pipeline.prompts.condition import Condition, parse
from pipeline.prompts.variants import variants
from pipeline.settings import SweepSpec


def show(spec: SweepSpec, item_id: str | None, date: str | None, condition: str | None) -> Group:
    """The prompt of an item of the first task for the first model.

    Its text with the date marked, its token ids, the span of the date, the label tokens.

    Raises:
        ConfigError: no such item or condition, a date that is none, or a date and a condition that
            contradict each other.
    """
    model, benchmark = spec.models[0], benchmarks.load(spec.tasks[0], spec.data_root)
    task = benchmark.task
    item = _item(benchmark.items, item_id)
    variant = _variant(spec, date, condition)
    builder = PromptBuilder(model, checkpoints.folder(model, weights=False))
    prompt = builder.item_prompt(task, item, variant, task.shots(item, benchmark.examples))
    text = variant.date_text
    span = builder.tokenizer.span(prompt.before, text, prompt.after)
    labels = builder.labels(task, item)
    tokens = builder.tokenizer.label_token_ids(prompt.text(text), labels)
    label_ids = zip(labels, tokens, strict=True)
    dated = f"the date in {span.start}..{span.stop - 1}" if text else "no date"
    target = tasks.reordered(item, variant.option_order).target.strip()
    facts = {
        "variant": variant.variant,
        "tokens": f"{len(span.token_ids)}, {dated}",
        "right answer": target.splitlines()[0] if target else "",
        "label tokens": ", ".join(f"{label!r} = {token}" for label, token in label_ids),
    }
    return Group(
        Panel(
            _marked(prompt.text(text), len(prompt.before), len(text)),
            title=escape(f"{model.name} · {benchmark.name} · {item.item_id}"),
        ),
        _table(facts),
        _ids(span.token_ids, span.start, span.stop),
    )


def _item(items: list[Item], item_id: str | None) -> Item:
    if item_id is None:
        return items[0]
    known = [i.item_id for i in items]
    if item_id not in known:
        raise ConfigError(
            f"--item: given {item_id!r}; the task has {len(known)} items from {known[0]} "
            f"to {known[-1]}{nearest(item_id, known)}"
        )
    return items[known.index(item_id)]


def _variant(spec: SweepSpec, date: str | None, name: str | None) -> Variant:
    """The variant of a condition on a date, each by default that of the sweep's first with a date.

    Raises:
        ConfigError: no such condition, a date that is none, or the two contradict each other.
    """
    swept = variants(spec.calendar, spec.conditions)
    usual = next((v for v in swept if v.date is not None), swept[0])
    day = None if date in (None, CONTROL) else _day(str(date))
    if name is not None:
        condition = parse(name, "--condition")
        _check_agree(date, name, condition)
        return _on(condition, day or usual.date or datetime.date(2024, 1, 1), name)
    if date is None:
        return usual
    condition = Condition(wording=usual.wording, order=usual.option_order, location=usual.location)
    if day is None:
        return condition.on(None)
    return replace(
        condition,
        date_format=usual.date_format or spec.calendar.formats[0],
        placement=usual.placement or spec.conditions.placements[0],
        year=None if usual.year is None else day.year,
    ).on(day)


def _day(date: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(date)
    except ValueError as error:
        raise ConfigError(
            f"--date: given {date!r} ({error}); allowed: a date like 2024-03-05, or {CONTROL}"
        ) from None


def _check_agree(date: str | None, name: str, condition: Condition) -> None:
    if date is None:
        return
    given = f"--date: given {date!r} with --condition {name!r}"
    is_control = not condition.date_format
    if is_control != (date == CONTROL):
        fault = "a control has no date" if is_control else f"{CONTROL} means that there is no date"
        raise ConfigError(f"{given}; {fault}: leave one of them out, or make them agree")
    if condition.year is not None and _day(date).year != condition.year:
        raise ConfigError(f"{given}; allowed: a date in {condition.year}, or no --date")


def _on(condition: Condition, day: datetime.date, name: str) -> Variant:
    """The variant of `condition` on `day`, which is moved to the year that it names."""
    if not condition.date_format:
        return condition.on(None)
    days = [day] if condition.year is None else dates.in_years([day], [condition.year])
    if not days:
        raise ConfigError(
            f"--condition: given {name!r}; {condition.year} has no February 29, the sweep's "
            "first date: give a --date"
        )
    return condition.on(days[0])


def _marked(text: str, start: int, length: int) -> Text:
    marked = Text(text)
    marked.stylize("bold reverse", start, start + length)
    return marked


def _table(facts: dict[str, str]) -> Table:
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value or name != "label tokens":
            table.add_row(name, escape(value))
    return table


def _ids(token_ids: list[int], start: int, stop: int) -> Text:
    text = Text()
    for i, token in enumerate(token_ids):
        text.append(f"{token} ", style="bold reverse" if start <= i < stop else "dim")
    return text
