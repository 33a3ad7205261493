"""Look at what a sweep would ask, and at what there is to name in one."""

import datetime

from rich.console import Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pipeline import checkpoints, config, dates, metrics, plan, registry, tasks
from pipeline.config import SweepSpec
from pipeline.errors import ConfigError, nearest
from pipeline.prompts import PromptBuilder
from pipeline.records import CONTROL, Item

KINDS = ("tasks", "models", "metrics", "formats", "sweeps")


def show(spec: SweepSpec, task_name: str, item_id: str | None, date: str | None, date_format: str | None) -> Group:
    """The exact prompt of an item under a date: text with the date marked, token ids, date span, label tokens.

    Raises:
        ConfigError: no such item or date format, or a date that is none.
    """
    model, task = spec.models[0], tasks.get(task_name)
    item = _item(plan.load(spec.tasks[0], spec.data_root), item_id)
    builder = PromptBuilder(model.name, checkpoints.folder(model, weights=False), model.template)
    prompt, text = builder.item_prompt(task, item), _date_text(spec, date, date_format or spec.calendar.formats[0])
    span = builder.span(prompt, text)
    labels = dict(zip(task.labels(item), builder.label_token_ids(prompt, text, task.labels(item)), strict=True))
    facts = Table(show_header=False, box=None)
    facts.add_row(
        "tokens", f"{len(span.token_ids)}, the date in {span.start}..{span.stop - 1}" if text else f"{len(span.token_ids)}, no date"
    )
    facts.add_row("right answer", escape(item.target.strip().splitlines()[0] if item.target.strip() else ""))
    if labels:
        facts.add_row("label tokens", ", ".join(f"{label!r} = {token}" for label, token in labels.items()))
    title = f"{model.name} · {task.name} · {item.item_id} · {text or CONTROL}"
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


def _date_text(spec: SweepSpec, date: str | None, date_format: str) -> str:
    if date_format not in dates.DATE_FORMATS:
        known = ", ".join(dates.DATE_FORMATS)
        raise ConfigError(f"--format: given {date_format!r}; allowed: {known}{nearest(date_format, dates.DATE_FORMATS)}")
    if date == CONTROL:
        return ""
    try:
        day = spec.calendar.days()[0] if date is None else datetime.date.fromisoformat(date)
    except ValueError as error:
        raise ConfigError(f"--date: given {date!r} ({error}); allowed: a date like 2024-03-05, or {CONTROL}") from None
    return dates.DATE_FORMATS[date_format](day)


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
    makers = {"tasks": _tasks, "models": _models, "metrics": _metrics, "formats": _formats, "sweeps": _sweeps}
    return Group(*(make() for name, make in makers.items() if kind in (name, "all")))


def _tasks() -> Table:
    table = Table("task", "what it is", "answer", "metrics", "data", "licence", title="tasks", title_justify="left")
    for task in map(tasks.get, registry.names("tasks")):
        source = task.source
        table.add_row(task.name, task.title, task.kind, ", ".join(task.metrics), source.package or source.dataset, source.licence)
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


def _sweeps() -> Table:
    table = Table("sweep", "what it does", title="sweeps", title_justify="left")
    folder = config.configs_folder() / "sweeps"
    for path in sorted(folder.rglob("*.toml")):
        table.add_row(path.relative_to(folder).with_suffix("").as_posix(), config.summary(path)["title"])
    return table
