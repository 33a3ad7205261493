"""Look at what a sweep would ask, and at what there is to name in one."""

import datetime

from rich.console import Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pipeline import asked, checkpoints, conditions, config, dates, metrics, registry, settings, tasks, variants
from pipeline.config import CalendarSpec, ConditionsSpec, SweepSpec
from pipeline.errors import ConfigError, nearest
from pipeline.prompts import PromptBuilder
from pipeline.records import CONTROL, Item, Variant

KINDS = ("tasks", "models", "metrics", "formats", "conditions", "sweeps")


def show(spec: SweepSpec, item_id: str | None, date: str | None, condition: str | None) -> Group:
    """The exact prompt of an item of the first task for the first model: text with the date marked, token ids, date span, label tokens.

    Raises:
        ConfigError: no such item or condition, or a date that is none.
    """
    model, benchmark = spec.models[0], asked.load(spec.tasks[0], spec.data_root)
    task, item, variant = benchmark.task, _item(benchmark.items, item_id), _variant(spec, date, condition)
    builder, shots = PromptBuilder(model, checkpoints.folder(model, weights=False)), benchmark.task.shots(item, benchmark.examples)
    prompt, text = builder.item_prompt(task, item, variant, shots), variant.date_text
    span, wanted = builder.span(prompt, text), builder.labels(task, item)
    labels = dict(zip(wanted, builder.label_token_ids(prompt, text, wanted), strict=True))
    facts = Table(show_header=False, box=None)
    facts.add_row(
        "tokens", f"{len(span.token_ids)}, the date in {span.start}..{span.stop - 1}" if text else f"{len(span.token_ids)}, no date"
    )
    target = tasks.reordered(item, variant.option_order).target.strip()
    facts.add_row("right answer", escape(target.splitlines()[0] if target else ""))
    if labels:
        facts.add_row("label tokens", ", ".join(f"{label!r} = {token}" for label, token in labels.items()))
    title = f"{model.name} · {benchmark.name} · {item.item_id} · {variant.variant}"
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
            f"--item: given {item_id!r}; the task has {len(known)} items from {known[0]} to {known[-1]}{nearest(item_id, known)}"
        )
    return items[known.index(item_id)]


def _variant(spec: SweepSpec, date: str | None, condition: str | None) -> Variant:
    """The variant to show: by default the first of the sweep that has a date, else any date under any condition."""
    asked_for = variants.variants(spec.calendar, spec.conditions)
    usual = next((v for v in asked_for if v.date is not None), asked_for[0])
    name = condition or (CONTROL if date == CONTROL else usual.condition)
    kind, axes = _parsed(name)
    try:
        given = None if date in (None, CONTROL) else datetime.date.fromisoformat(str(date))
    except ValueError as error:
        raise ConfigError(f"--date: given {date!r} ({error}); allowed: a date like 2024-03-05, or {CONTROL}") from None
    day = given or usual.date or datetime.date(2024, 1, 1)
    calendar = CalendarSpec(dates=[] if kind == CONTROL else [day], formats=["iso" if kind == CONTROL else kind], control=kind == CONTROL)
    return variants.variants(calendar, axes)[0]


def _parsed(condition: str) -> tuple[str, ConditionsSpec]:
    """The date format, or `control`, and the axes that the name of a condition gives."""
    kind, *parts = condition.split(";")
    allowed = [CONTROL, *dates.DATE_FORMATS]
    if kind not in allowed:
        raise ConfigError(f"--condition: given {kind!r}; allowed first: {', '.join(allowed)}{nearest(kind, allowed)}")
    axes = {"placement": "placements", "wording": "wordings", "order": "option_orders", "location": "locations"}
    given = {axis: value for axis, _, value in (part.partition("=") for part in parts)}
    if unknown := [axis for axis in given if axis not in axes]:
        raise ConfigError(f"--condition: given {unknown[0]!r}; allowed: {', '.join(axes)}{nearest(unknown[0], axes)}")
    raw = {axes[axis]: [int(value) if axis == "order" and value.isdigit() else value] for axis, value in given.items()}
    return kind, settings.checked(ConditionsSpec, raw, "--condition")


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
        raise ConfigError(f"list: given {kind!r}; allowed: {', '.join(KINDS)}, all{nearest(kind, KINDS)}")
    makers = {"tasks": _tasks, "models": _models, "metrics": _metrics, "formats": _formats, "conditions": _conditions, "sweeps": _sweeps}
    return Group(*(make() for name, make in makers.items() if kind in (name, "all")))


def _tasks() -> Table:
    table = Table("task", "what it is", "styles", "metrics", "data", "licence", title="tasks", title_justify="left")
    for task in map(tasks.get, registry.names("tasks")):
        source, styles = task.source, ", ".join(task.styles)
        table.add_row(task.name, task.title, styles, ", ".join(task.metrics), source.package or source.dataset, source.licence)
    return table


def _models() -> Table:
    table = Table("model", "what it is", "licence", "file", title="models", title_justify="left")
    for name in config.model_names():
        path = config.configs_folder() / "models" / f"{name}.toml"
        about = config.summary(path)
        table.add_row(name, about["title"], about["licence"], str(path))
    return table


def _metrics() -> Table:
    table = Table("metric", "title", "signature", title="metrics", title_justify="left")
    for metric in map(metrics.get, registry.names("metrics")):
        table.add_row(metric.name, metric.title, metric.signature())
    return table


def _formats() -> Table:
    table = Table("format", "5 March 2024", title="date formats", title_justify="left")
    for name, write in dates.DATE_FORMATS.items():
        table.add_row(name, write(datetime.date(2024, 3, 5)))
    return table


def _conditions() -> Table:
    table = Table("axis", "value", "what it means", title="conditions beside the date, for [conditions] in a sweep", title_justify="left")
    axes = {"placements": conditions.PLACEMENTS, "wordings": conditions.WORDINGS, "locations": conditions.LOCATIONS}
    for axis, values in axes.items():
        for name, text in values.items():
            table.add_row(axis, name, text or "says nothing")
    table.add_row("option_orders", "0, 1, 2, ...", "0 shows the options as loaded, every other number in a seeded order of its own")
    return table


def _sweeps() -> Table:
    table = Table("sweep", "what it does", title="sweeps", title_justify="left")
    folder = config.configs_folder() / "sweeps"
    for path in sorted(folder.rglob("*.toml")):
        table.add_row(path.relative_to(folder).with_suffix("").as_posix(), config.summary(path)["title"])
    return table
