"""Tables of what there is to name in a sweep."""

import datetime
from collections.abc import Iterable, Iterator

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pipeline import metrics, settings, tasks
from pipeline.core import conditions, dates, registry
from pipeline.core.errors import ConfigError, nearest


def tables(kind: str) -> Group:
    """Tables of what can be named in a sweep, for one of `KINDS` or for `all`.

    Raises:
        ConfigError: there is no such kind.
    """
    if kind not in (*KINDS, "all"):
        raise ConfigError(
            f"list: given {kind!r}; allowed: {', '.join(KINDS)}, all{nearest(kind, KINDS)}"
        )
    return Group(*(_table(name) for name in KINDS if kind in (name, "all")))


def _table(kind: str) -> Table:
    """A table in which nothing is cut: names stay whole, the rest is folded to fit."""
    title, (name, *others), rows = KINDS[kind]
    table = Table(title=Text(title), title_justify="left")
    table.add_column(name, no_wrap=True)
    for heading in others:
        table.add_column(heading, overflow="fold")
    for row in rows():
        table.add_row(*map(escape, row))
    return table


def _tasks() -> Iterator[list[str]]:
    for task in map(tasks.get, registry.names("tasks")):
        source, styles = task.source, task.styles
        names = dict.fromkeys(name for style in styles.values() for name in style.metrics)
        data = source.package or source.dataset
        yield [task.name, task.title, "\n".join(styles), "\n".join(names), data, source.licence]


def _models() -> Iterator[list[str]]:
    for name in settings.model_names():
        yield [name, *settings.summary(settings.model_path(name)).values()]


def _metrics() -> Iterator[list[str]]:
    for metric in map(metrics.get, registry.names("metrics")):
        yield [metric.name, metric.title, metric.signature()]


def _formats() -> Iterator[list[str]]:
    for name, write in dates.DATE_FORMATS.items():
        yield [name, write(datetime.date(2024, 3, 5))]


def _conditions() -> Iterator[list[str]]:
    axes = {
        "placements": conditions.PLACEMENTS,
        "wordings": conditions.WORDINGS,
        "locations": conditions.LOCATIONS,
    }
    for axis, values in axes.items():
        for name, text in values.items():
            yield [axis, name, text or "says nothing"]
    meaning = "0 shows the options as loaded, every other number in a seeded order of its own"
    yield ["option_orders", "0, 1, 2, ...", meaning]


def _sweeps() -> Iterable[list[str]]:
    folder = settings.configs_folder() / "sweeps"
    for name in settings.sweep_names():
        yield [name, settings.summary(folder / f"{name}.toml")["title"]]


KINDS = {
    "tasks": ("tasks", ["task", "what it is", "styles", "metrics", "data", "licence"], _tasks),
    "models": ("models", ["model", "what it is", "licence"], _models),
    "metrics": ("metrics", ["metric", "title", "signature"], _metrics),
    "formats": ("date formats", ["format", "5 March 2024"], _formats),
    "conditions": (
        "conditions beside the date, for [conditions] in a sweep",
        ["axis", "value", "what it means"],
        _conditions,
    ),
    "sweeps": ("sweeps", ["sweep", "what it does"], _sweeps),
}
"""Kind -> the table's title, its headings, and what yields its rows."""
