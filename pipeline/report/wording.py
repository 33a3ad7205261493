"""The words and numbers that the report and the terminal share: names, formats, sentences."""

import datetime
from collections.abc import Mapping
from typing import Any

import polars as pl

from pipeline import metrics, tasks
from pipeline.analyses import AXES, SERIES_KEY
from pipeline.analyses.deltas import MORE, NO_SCORE, TOO_FEW
from pipeline.core import dates
from pipeline.core.errors import ConfigError

DASH = "–"
"""Shown where there is no value."""

Row = Mapping[str, Any]
"""A row of an analysis table, by column."""


def count(value: int, noun: str) -> str:
    """As in `1 date` or `1,200 dates`."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def number(value: float | None, digits: int = 2) -> str:
    """`value` with a fixed number of digits; a dash for None."""
    return DASH if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A percentage with a fixed number of digits; a dash for None."""
    return DASH if value is None else f"{value:.{digits}f}%"


def p_value(value: float | None) -> str:
    """Three digits, or `<0.001`."""
    return DASH if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def p_phrase(value: float | None) -> str:
    """As in `p = 0.010` or `p < 0.001`, which does not break at a line's end; empty for None."""
    if value is None:
        return ""
    return f"p = {p_value(value)}".replace("= <", "< ").replace(" ", "\u00a0")


def day(value: datetime.date | None) -> str:
    """ISO date; a dash for None."""
    return DASH if value is None else value.isoformat()


def day_in_words(value: datetime.date) -> str:
    """As in `5 Mar 2024`, which does not break at the end of a line."""
    return f"{value.day}\u00a0{dates.MONTHS[value.month - 1][:3]}\u00a0{value.year}"


def clipped(text: str | None, length: int = 80) -> str:
    """`text` on one line of at most `length` characters; says so if it was longer or empty."""
    if text is None:
        return DASH
    line = " ".join(text.split())
    if len(line) > length:
        return line[: length - 1] + "…"
    return line or "(no answer)"


def task_title(name: str) -> str:
    """A task's title; its name where this version has no such task."""
    try:
        return tasks.get(name).title
    except ConfigError:
        return name


def metric_title(name: str) -> str:
    """A metric's title; its name where this version has no such metric."""
    try:
        return metrics.get(name).title
    except ConfigError:
        return name


def score_axis(name: str) -> str:
    """What an axis of a metric's scores says."""
    try:
        metric = metrics.get(name)
    except ConfigError:
        return name
    return f"{metric.title}, {metric.scale}"


AXIS_TITLES = {
    "date": "date",
    "date_format": "date format",
    "placement": "place of the date",
    "wording": "system wording",
    "option_order": "order of the options",
    "location": "user's location",
    "year": "year",
}
"""What an axis is called where it is what varies."""

_AXIS_WORDS = {
    "placement": "placement ",
    "wording": "wording ",
    "option_order": "order ",
    "location": "location ",
}
"""What stands before the value of an axis that does not speak for itself."""


def axis_value(axis: str, value: object) -> str:
    """As in `wording helpful`, `order 3`, `iso` or `2024-03-05`."""
    return f"{_AXIS_WORDS.get(axis, '')}{str(value).replace('_', ' ')}"


def held(condition: str) -> str:
    """What stays the same, in words: `no date, wording helpful` for `control;wording=helpful`.

    `condition` is of the column `held` of the table `conditions`.
    """
    first, *others = condition.split(";")
    named = {"control": "no date", "dated": "with a date"}.get(first, first)
    return ", ".join([named, *others]).replace("=", " ").replace("_", " ")


class Names:
    """Names for the rows of a run's tables, no longer than telling them apart needs."""

    def __init__(self, frame: pl.DataFrame) -> None:
        """`frame` has `SERIES_KEY` and `AXES`, for all rows that are to be named.

        Controls count only where nothing has a date.
        """
        dated = frame.filter(pl.col("date_format") != "")
        named = dated if dated.height else frame
        metrics_of = named.group_by("task", "style").agg(pl.col("metric").n_unique())
        self._num_metrics = {(task, style): number for task, style, number in metrics_of.rows()}
        self._several = {name for name in (*SERIES_KEY, *AXES) if named[name].n_unique() > 1}

    def model(self, row: Row) -> str:
        """The model, and its engine setting where the run has several."""
        model = str(row["model"])
        return f"{model} ({row['engine']})" if "engine" in self._several else model

    def task(self, row: Row) -> str:
        """The task, and its style and condition where the run has several."""
        return ", ".join([task_title(row["task"]), *self._style(row), *self._axes(row)])

    def scored(self, row: Row) -> str:
        """The task, the metric, and the style where the run has several."""
        scored = f"{task_title(row['task'])} {metric_title(row['metric'])}"
        return ", ".join([scored, *self._style(row)])

    def series(self, row: Row) -> str:
        """The task, the metric, and the style and condition where the run has several."""
        return ", ".join([self.scored(row), *self._axes(row)])

    def short(self, row: Row, *, with_condition: bool = True) -> str:
        """The task's own name, and the metric where the task has several."""
        has_metrics = self._num_metrics[row["task"], row["style"]] > 1
        scored = f"{row['task']} {row['metric']}" if has_metrics else str(row["task"])
        return ", ".join([scored, *self._style(row), *(self._axes(row) if with_condition else [])])

    def condition(self, row: Row) -> str:
        """The values of the axes that have several; empty where none has."""
        return ", ".join(self._axes(row))

    def _style(self, row: Row) -> list[str]:
        return [str(row["style"]).replace("_", " ")] if "style" in self._several else []

    def _axes(self, row: Row) -> list[str]:
        shown = [axis for axis in AXES if axis in self._several and row[axis] not in (None, "")]
        return [axis_value(axis, row[axis]) for axis in shown]


def delta_sentence(row: Row, name: str) -> str:
    """What a row of the table `deltas` says, in full sentences; `name` says what was scored."""
    if row["verdict"] == NO_SCORE:
        return f"{name}: nothing could be scored."
    if row["verdict"] == TOO_FEW:
        best = f"{number(row['best'])} on {day_in_words(row['best_date'])}"
        return f"{name}: {best}, the only date. A delta needs two."
    if row["delta"] == 0:
        best = f"{number(row['best'])} on every one of {row['num_dates']} dates"
        return f"{name}: {best}. The date changes nothing here."
    return (
        f"{name}: {number(row['worst'])} on the worst date ({day_in_words(row['worst_date'])}), "
        f"{number(row['best'])} on the best ({day_in_words(row['best_date'])}), a delta of "
        f"{number(row['delta'])} points. {_chance_sentence(row)}"
    )


def _chance_sentence(row: Row) -> str:
    median, most = number(row["chance_delta"]), number(row["chance_delta_95"])
    return f"Chance alone gives about {median}, and 95 times in 100 at most {most}."


def conclusion(row: Row) -> str:
    """What the verdict of a row of the table `deltas` means, with its corrected p-value."""
    if row["p_value_holm"] is None:
        return "There is nothing to test."
    tail = f"({p_phrase(row['p_value_holm'])}, corrected for the rows tested)"
    if row["verdict"] == MORE:
        return f"That is more than chance: some dates move many items together {tail}."
    return f"That is within chance: it does not show that any date is better than another {tail}."


def noise_floor(row: Row) -> str:
    """What a row of the table `deltas` or `conditions` says about the engine's own noise."""
    share = row["placebo_flip_percent"]
    what = "date" if row.get("axis", "date") == "date" else "prompt"
    if share is None:
        return f"The engine's own noise was not measured: no {what} was asked twice."
    if share == 0:
        return f"The same {what} asked again gave the same outcomes."
    return (
        f"The same {what} asked again flips {percent(share)} of outcomes: so much is the "
        "engine's own noise."
    )


def spread_sentence(row: Row, name: str) -> str:
    """What a row of the table `conditions` says, in full sentences; `name` says what was scored."""
    axis = row["axis"]
    if row["delta"] is None:
        return f"{name}: nothing could be scored."
    ends = ", ".join(
        f"{number(row[end])} with {axis_value(axis, row[f'{end}_value'])}"
        for end in ("worst", "best")
    )
    said = (
        f"{name}: {ends}, a delta of {number(row['delta'])} points over {row['num_values']} "
        f"values of the {AXIS_TITLES[axis]}."
    )
    return said if row["chance_delta"] is None else f"{said} {_chance_sentence(row)}"
