"""Look at what a sweep would ask, and at what there is to name in one."""

import datetime
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pipeline import metrics, settings, tasks
from pipeline.core import conditions, dates, registry
from pipeline.core.errors import ConfigError, nearest
from pipeline.core.records import CONTROL, Item, Variant
from pipeline.data import checkpoints
from pipeline.plan import benchmarks
from pipeline.prompts import PromptBuilder, variants
from pipeline.settings import CalendarSpec, ConditionsSpec, SweepSpec

KINDS = ("tasks", "models", "metrics", "formats", "conditions", "sweeps")


def show(spec: SweepSpec, item_id: str | None, date: str | None, condition: str | None) -> Group:
    """The exact prompt of an item of the first task for the first model: text with the date marked,
    token ids, date span, label tokens.

    Raises:
        ConfigError: no such item or condition, a date that is none, or a date and a condition that
            contradict each other.
    """
    model, benchmark = spec.models[0], benchmarks.load(spec.tasks[0], spec.data_root)
    task = benchmark.task
    item = _item(benchmark.items, item_id)
    variant = _variant(spec, date, condition)
    builder = PromptBuilder(model, checkpoints.folder(model, weights=False))
    shots = benchmark.task.shots(item, benchmark.examples)
    prompt, text = builder.item_prompt(task, item, variant, shots), variant.date_text
    span, wanted = builder.span(prompt, text), builder.labels(task, item)
    labels = dict(zip(wanted, builder.label_token_ids(prompt, text, wanted), strict=True))
    facts = _named_table("", "", show_header=False, box=None)
    facts.add_row("variant", escape(variant.variant))
    facts.add_row(
        "tokens",
        f"{len(span.token_ids)}, the date in {span.start}..{span.stop - 1}"
        if text
        else f"{len(span.token_ids)}, no date",
    )
    target = tasks.reordered(item, variant.option_order).target.strip()
    facts.add_row("right answer", escape(target.splitlines()[0] if target else ""))
    if labels:
        facts.add_row(
            "label tokens", ", ".join(f"{label!r} = {token}" for label, token in labels.items())
        )
    title = f"{model.name} · {benchmark.name} · {item.item_id}"
    return Group(
        Panel(_marked(prompt.text(text), len(prompt.before), len(text)), title=escape(title)),
        facts,
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


def _variant(spec: SweepSpec, date: str | None, condition: str | None) -> Variant:
    """The variant to show: by default the first of the sweep that has a date, else any date under
    any condition.
    """
    asked_for = variants.variants(spec.calendar, spec.conditions)
    usual = next((v for v in asked_for if v.date is not None), asked_for[0])
    day = None if date in (None, CONTROL) else _day(str(date))
    if condition is not None:
        return _conditioned(condition, date, day or usual.date or datetime.date(2024, 1, 1))
    if date is None:
        return usual
    axes = ConditionsSpec(
        placements=[usual.placement or spec.conditions.placements[0]],
        wordings=[usual.wording],
        option_orders=[usual.option_order],
        locations=[usual.location],
    )
    year = day.year if day and usual.year is not None else None
    return _made(
        CONTROL if day is None else usual.date_format or spec.calendar.formats[0], day, year, axes
    )


def _day(date: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(date)
    except ValueError as error:
        raise ConfigError(
            f"--date: given {date!r} ({error}); allowed: a date like 2024-03-05, or {CONTROL}"
        ) from None


def _conditioned(condition: str, date: str | None, day: datetime.date) -> Variant:
    """The variant of `condition` on `day`, which is `date` where an option gave that.

    Raises:
        ConfigError: the two contradict each other.
    """
    kind, axes, year = _parsed(condition)
    if (kind == CONTROL) != (date == CONTROL) and date is not None:
        what = (
            "a control has no date" if kind == CONTROL else f"{CONTROL} means that there is no date"
        )
        raise ConfigError(
            f"--date: given {date!r} with --condition {condition!r}; {what}: leave one of "
            "them out, or make them agree"
        )
    if kind == CONTROL:
        return _made(kind, None, None, axes)
    if year is not None and date is not None and day.year != year:
        raise ConfigError(
            f"--date: given {date!r} with --condition {condition!r}; allowed: a date in "
            f"{year}, or no --date"
        )
    if year is not None and not dates.in_years([day], [year]):
        raise ConfigError(
            f"--condition: given {condition!r}; {year} has no February 29, the sweep's "
            "first date: give a --date"
        )
    return _made(kind, day, year, axes)


def _made(kind: str, day: datetime.date | None, year: int | None, axes: ConditionsSpec) -> Variant:
    """The one variant of a date format, or `control`, on `day` under `axes`."""
    days, years = [] if day is None else [day], None if year is None else [year]
    calendar = CalendarSpec(
        dates=days, years=years, formats=["iso" if day is None else kind], control=day is None
    )
    return variants.variants(calendar, axes)[0]


def _parsed(condition: str) -> tuple[str, ConditionsSpec, int | None]:
    """The date format, or `control`, and the axes and the year that the name of a condition gives.

    Raises:
        ConfigError: no such format, axis or value, an axis given twice, or one that a control has
            not.
    """
    kind, *parts = condition.split(";")
    allowed = [CONTROL, *dates.DATE_FORMATS]
    if kind not in allowed:
        raise ConfigError(
            f"--condition: given {kind!r}; allowed first: "
            f"{', '.join(allowed)}{nearest(kind, allowed)}"
        )
    keys = {
        "placement": "placements",
        "wording": "wordings",
        "order": "option_orders",
        "location": "locations",
        "year": "years",
    }
    known = [axis for axis in keys if kind != CONTROL or axis not in ("placement", "year")]
    given: dict[str, Any] = {}
    for axis, _, value in (part.partition("=") for part in parts):
        if axis not in known:
            raise ConfigError(
                f"--condition: given {axis!r}; allowed behind {kind}: "
                f"{', '.join(known)}{nearest(axis, known)}"
            )
        if axis in given:
            raise ConfigError(
                f"--condition: given {condition!r}; {axis} is given twice; allowed: once"
            )
        given[axis] = int(value) if axis in ("order", "year") and value.isdecimal() else value
    raw = {keys[axis]: [value] for axis, value in given.items()}
    years = settings.checked(
        CalendarSpec, {key: raw.pop(key) for key in ("years",) if key in raw}, "--condition"
    ).years
    return kind, settings.checked(ConditionsSpec, raw, "--condition"), years[0] if years else None


def _marked(text: str, start: int, length: int) -> Text:
    marked = Text(text)
    marked.stylize("bold reverse", start, start + length)
    return marked


def _ids(token_ids: list[int], start: int, stop: int) -> Text:
    text = Text()
    for i, token in enumerate(token_ids):
        text.append(f"{token} ", style="bold reverse" if start <= i < stop else "dim")
    return text


def listing(kind: str) -> Group:
    """Tables of what can be named in a sweep, for one of `KINDS` or for `all`.

    Raises:
        ConfigError: there is no such kind.
    """
    if kind not in (*KINDS, "all"):
        raise ConfigError(
            f"list: given {kind!r}; allowed: {', '.join(KINDS)}, all{nearest(kind, KINDS)}"
        )
    makers = {
        "tasks": _tasks,
        "models": _models,
        "metrics": _metrics,
        "formats": _formats,
        "conditions": _conditions,
        "sweeps": _sweeps,
    }
    return Group(*(make() for name, make in makers.items() if kind in (name, "all")))


def _tasks() -> Table:
    table = _named_table(
        "task", "what it is", "styles", "metrics", "data", "licence", title="tasks"
    )
    for task in map(tasks.get, registry.names("tasks")):
        source = task.source
        judged = dict.fromkeys(metric for style in task.styles.values() for metric in style.metrics)
        columns = [
            task.name,
            task.title,
            "\n".join(task.styles),
            "\n".join(judged),
            source.package or source.dataset,
            source.licence,
        ]
        table.add_row(*map(escape, columns))
    return table


def _named_table(name: str, *others: str, title: str | None = None, **options: Any) -> Table:
    """A table in which nothing is cut: the names in its first column stay whole, the rest is folded
    to fit the terminal.
    """
    table = Table(title=None if title is None else Text(title), title_justify="left", **options)
    table.add_column(name, no_wrap=True)
    for heading in others:
        table.add_column(heading, overflow="fold")
    return table


def _models() -> Table:
    table = _named_table("model", "what it is", "licence", title="models")
    for name in settings.model_names():
        about = settings.summary(settings.configs_folder() / "models" / f"{name}.toml")
        table.add_row(*map(escape, (name, about["title"], about["licence"])))
    return table


def _metrics() -> Table:
    table = _named_table("metric", "title", "signature", title="metrics")
    for metric in map(metrics.get, registry.names("metrics")):
        table.add_row(metric.name, metric.title, metric.signature())
    return table


def _formats() -> Table:
    table = _named_table("format", "5 March 2024", title="date formats")
    for name, write in dates.DATE_FORMATS.items():
        table.add_row(name, write(datetime.date(2024, 3, 5)))
    return table


def _conditions() -> Table:
    table = _named_table(
        "axis",
        "value",
        "what it means",
        title="conditions beside the date, for [conditions] in a sweep",
    )
    axes = {
        "placements": conditions.PLACEMENTS,
        "wordings": conditions.WORDINGS,
        "locations": conditions.LOCATIONS,
    }
    for axis, values in axes.items():
        for name, text in values.items():
            table.add_row(axis, name, text or "says nothing")
    table.add_row(
        "option_orders",
        "0, 1, 2, ...",
        "0 shows the options as loaded, every other number in a seeded order of its own",
    )
    return table


def _sweeps() -> Table:
    table = _named_table("sweep", "what it does", title="sweeps")
    folder = settings.configs_folder() / "sweeps"
    for path in sorted(folder.rglob("*.toml")):
        table.add_row(
            *map(
                escape,
                (
                    path.relative_to(folder).with_suffix("").as_posix(),
                    settings.summary(path)["title"],
                ),
            )
        )
    return table
