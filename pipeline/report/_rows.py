"""Rows of the analysis tables as the cells of the page's tables."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from pipeline.analyses import SERIES_KEY, deltas
from pipeline.report._shown import Tables
from pipeline.report.wording import (
    AXIS_TITLES,
    Names,
    Row,
    clipped,
    count,
    day,
    held,
    number,
    p_phrase,
    percent,
)

MAX_GAUGE = 4.0
"""A delta further out, in multiples of the 95th percentile of chance, is drawn at the end of its
gauge."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    note: str = ""
    """Shown smaller, below the text."""
    kind: str = ""
    """Class of the cell: `more`, `within`, `none`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A delta beside what chance gives, in percent of the gauge's width.

    The band of chance is equally long in all rows.
    """

    delta: float
    chance: float
    chance_95: float
    is_more: bool


PageRow = dict[str, str | Cell | Gauge | None]
"""A row of a table of the page, by the names that the template has for its columns."""


def delta_rows(rows: pl.DataFrame, names: Names) -> Iterator[PageRow]:
    """The table of worst and best dates."""
    end = _gauge_end(rows)
    for row in rows.iter_rows(named=True):
        asked = f"{count(row['num_items'], 'item')}, {count(row['num_dates'], 'date')}"
        sd = "" if row["sd"] is None else f"sd {number(row['sd'])}"
        share, most = row["no_answer_percent"], row["no_answer_percent_max"]
        largest = f"max {percent(most)}" if share and most > share else ""
        yield {
            "model": names.model(row),
            "task": Cell(names.series(row), asked),
            "worst": Cell(number(row["worst"]), day(row["worst_date"])),
            "best": Cell(number(row["best"]), day(row["best_date"])),
            "delta": number(row["delta"]),
            "chance": _chance(row),
            "gauge": _gauge(row, end),
            "verdict": Cell(row["verdict"], p_phrase(row["p_value_holm"]), verdict_kind(row)),
            "control": number(row["control"]),
            "mean": Cell(number(row["mean"]), sd),
            "placebo": percent(row["placebo_flip_percent"]),
            "no_answer": Cell(percent(share), largest),
        }


def verdict_kind(row: Row) -> str:
    """Class of what says the verdict of a row of the table `deltas`."""
    return {deltas.MORE: "more", deltas.WITHIN: "within"}.get(row["verdict"], "none")


def _chance(row: Row) -> Cell:
    chance_95 = row["chance_delta_95"]
    note = "" if chance_95 is None else f"95%: {number(chance_95)}"
    return Cell(number(row["chance_delta"]), note)


def _gauge_end(rows: pl.DataFrame) -> float:
    """Right end of the gauges, in multiples of the 95th percentile of chance.

    It is just beyond the largest delta, up to a bound.
    """
    tested = rows.filter(pl.col("chance_delta_95") > 0)
    ratios = (tested["delta"] / tested["chance_delta_95"]).to_list()
    return min(max(ratios), MAX_GAUGE) * 1.05 if ratios else 1.0


def _gauge(row: Row, end: float) -> Gauge | None:
    """The delta as a picture; None where chance gives nothing to compare with."""
    if not row["chance_delta_95"]:
        return None
    full = end * row["chance_delta_95"] / 100
    names = ("delta", "chance_delta", "chance_delta_95")
    delta, chance, chance_95 = (min(100.0, round(row[name] / full, 2)) for name in names)
    is_more = row["verdict"] == deltas.MORE
    return Gauge(delta=delta, chance=chance, chance_95=chance_95, is_more=is_more)


def unread_rows(rows: pl.DataFrame, names: Names) -> Iterator[PageRow]:
    """The table of answers that were not scored as usual."""
    for row in rows.iter_rows(named=True):
        number_of = {name: row[f"num_{name}"] for name in ("no_answer", "timeout", "failed")}
        yield {
            "model": names.model(row),
            "task": names.scored(row),
            "answers": f"{row['num_items']:,}",
            **{
                status: Cell(percent(100 * answers / row["num_items"]), f"{answers:,}")
                for status, answers in number_of.items()
            },
        }


def spread_rows(rows: pl.DataFrame, names: Names) -> Iterator[PageRow]:
    """The table of what the score does when one thing is varied."""
    for row in rows.iter_rows(named=True):
        worst, best = ((row[f"{end}_value"] or "").replace("_", " ") for end in ("worst", "best"))
        over = f"over {count(row['num_dates'], 'date')}" if row["num_dates"] else ""
        yield {
            "model": names.model(row),
            "task": names.scored(row),
            "axis": Cell(AXIS_TITLES[row["axis"]], held(row["held"])),
            "num_values": Cell(f"{row['num_values']:,}", over),
            "mean": number(row["mean"]),
            "sd": number(row["sd"]),
            "cv": percent(row["cv_percent"], 2),
            "worst": Cell(number(row["worst"]), worst),
            "best": Cell(number(row["best"]), best),
            "delta": number(row["delta"]),
            "chance": _chance(row),
            "placebo": percent(row["placebo_flip_percent"]),
        }


def score_rows(tables: Tables, names: Names) -> Iterator[PageRow]:
    """The scores of a sweep without dates, one for each series and condition."""
    key = [*SERIES_KEY, "condition"]
    flip_rates = tables["flip_rates"].rows_by_key(key, named=True, unique=True)
    for row in tables["by_date"].filter(replicate=0).iter_rows(named=True):
        rates = flip_rates.get(tuple(row[name] for name in key), {})
        yield {
            "model": names.model(row),
            "task": Cell(names.scored(row), count(row["num_items"], "item")),
            "condition": names.condition(row),
            "score": number(row["score"]),
            "no_answer": percent(100 * row["num_no_answer"] / row["num_items"]),
            "placebo": percent(rates.get("placebo_flip_percent")),
        }


def rate_rows(rows: pl.DataFrame, names: Names) -> Iterator[PageRow]:
    """The table of flip rates."""
    for row in rows.iter_rows(named=True):
        low, high = (number(row[f"flipping_percent_{end}"], 1) for end in ("low", "high"))
        items = f"{row['num_flipping']:,} of {row['num_items']:,}, 95%: {low} to {high}"
        at_most = percent(row["placebo_flip_percent_high"])
        pairs = f"{row['num_placebo_pairs']:,} pairs, 95%: at most {at_most}"
        note = pairs if row["num_placebo_pairs"] else "not asked"
        yield {
            "model": names.model(row),
            "task": names.task(row),
            "flipping": Cell(percent(row["flipping_percent"]), items),
            "pairs": percent(row["pair_flip_percent"]),
            "placebo": Cell(percent(row["placebo_flip_percent"]), note),
            "outputs": percent(row["pair_output_percent"]),
            "placebo_outputs": percent(row["placebo_output_percent"]),
        }


def flip_rows(rows: pl.DataFrame, names: Names) -> Iterator[PageRow]:
    """The table of items that flip."""
    for row in rows.iter_rows(named=True):
        right = Cell("graded")
        if row["num_right"] is not None:
            of_dates = f"{row['num_right']:,} of {row['num_dates']:,}"
            right = Cell(of_dates, percent(row["right_percent"]))
        answers = count(row["num_answers"], "distinct answer")
        yield {
            "model": names.model(row),
            "task": names.task(row),
            "item": Cell(row["item_id"], row["group"] or ""),
            "right": right,
            "target": clipped(row["target"]),
            "common": Cell(clipped(row["common_answer"]), answers),
            "a": Cell(clipped(row["answer_a"]), day(row["date_a"])),
            "b": Cell(clipped(row["answer_b"]), day(row["date_b"])),
        }
