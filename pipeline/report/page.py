"""The page: what each part of `template.html` shows, worked out from the tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.analyses import AXES, COUNTS, SERIES_KEY, deltas
from pipeline.report import charts, conditions, wording
from pipeline.report._cells import Cell, Row, count
from pipeline.report.provenance import Provenance

MAX_FLIPS_SHOWN = 40
"""Rows of the flip table on the page; the CSV has all."""

MAX_GAUGE = 4.0
"""A delta further out, in multiples of the 95th percentile of chance, is drawn at the end of its
gauge."""

MAX_PANELS = 24
"""Charts on the page, of the first conditions; `by_date.csv` has the numbers of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A delta beside what chance gives, in percent of the gauge's width.

    The band of chance is equally long in all rows.
    """

    delta: float
    chance: float
    chance_95: float
    is_more: bool


def html(tables: Mapping[str, pl.DataFrame], provenance: Provenance) -> str:
    """The text of the report.

    Every value is escaped by the template; only the charts go in as they are.
    """
    import jinja2

    folder = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=folder,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("template.html").render(**_context(tables, provenance))


def _context(tables: Mapping[str, pl.DataFrame], provenance: Provenance) -> dict[str, Any]:
    """Everything that the template names."""
    found, by_date = tables["deltas"], tables["by_date"]
    names = wording.Names(
        pl.concat([found.select(*SERIES_KEY, *AXES), by_date.select(*SERIES_KEY, *AXES)])
    )
    colours = _colours(by_date, names)
    panel_keys = _panel_keys(by_date)
    beside = conditions.beside_the_date(tables)
    return {
        "provenance": provenance,
        **_opening(tables, names),
        "deltas": [_delta_row(row, names, _longest(found)) for row in found.iter_rows(named=True)],
        "has_no_answer": (found["no_answer_percent"] > 0).any(),
        "colours": colours,
        "panels": [_panel(by_date, one, names, colours) for one in panel_keys[:MAX_PANELS]],
        "num_panels": len(panel_keys),
        "has_control": by_date["date"].null_count() > 0,
        "has_placebo": by_date.filter(pl.col("replicate") > 0).height > 0,
        "unread": [_unread_row(row, names) for row in _unread(by_date).iter_rows(named=True)],
        "conditions": [conditions.spread_row(row, names) for row in beside.iter_rows(named=True)],
        "has_chance": beside.height > 0 and beside["chance_delta"].null_count() < beside.height,
        "flip_rates": [_rate_row(row, names) for row in _dated_rates(tables).iter_rows(named=True)],
        "flips": [_flip_row(row, names) for row in _shown_flips(tables).iter_rows(named=True)],
        "num_flips": tables.get("flips", pl.DataFrame()).height,
        "csv_names": sorted(tables),
    }


def _opening(tables: Mapping[str, pl.DataFrame], names: wording.Names) -> dict[str, Any]:
    """The first screen: the lead, a card for each model, and for a sweep without dates the scores
    in place of the deltas.
    """
    if not conditions.is_undated(tables["by_date"]):
        return {
            "lead": _lead(tables["deltas"]),
            "headlines": list(_headlines(tables["deltas"], names)),
            "scores": [],
            "num_scores": 0,
        }
    scores = list(conditions.score_rows(tables, names))
    return {
        "lead": conditions.lead(tables["by_date"]),
        "headlines": list(conditions.cards(conditions.beside_the_date(tables), names)),
        "scores": scores[: conditions.MAX_SCORES_SHOWN],
        "num_scores": len(scores),
    }


def _lead(found: pl.DataFrame) -> str:
    """What was swept and how many deltas are more than chance, in one sentence or two."""
    num_dates = max(found["num_dates"].to_list(), default=0)
    num_conditions = found["condition"].n_unique()
    swept = (
        f"{count(found['model'].n_unique(), 'model')}, "
        f"{count(found['task'].n_unique(), 'task')}, {count(num_dates, 'date')}"
    )
    swept += f" under {num_conditions} conditions." if num_conditions > 1 else "."
    num_tested = found["p_value"].drop_nulls().len()
    if not num_tested:
        return f"{swept} No delta could be tested."
    num_more = (found["verdict"] == deltas.MORE).sum()
    if num_tested == 1:
        return (
            f"{swept} The delta between worst and best date is "
            f"{'more than' if num_more else 'within what'} chance gives."
        )
    share, verb = (
        ("None", "is") if num_more == 0 else (f"{num_more}", "is" if num_more == 1 else "are")
    )
    return f"{swept} {share} of {num_tested} worst-to-best deltas {verb} more than chance gives."


def _headlines(found: pl.DataFrame, names: wording.Names) -> Iterator[dict[str, str]]:
    """For each model, its largest delta in words, of those that are more than chance if there are
    any, and how many are.
    """
    for _, mine in found.group_by("model", "engine", maintain_order=True):
        is_more = pl.col("verdict") == deltas.MORE
        row = mine.sort(
            is_more, "delta", descending=True, nulls_last=True, maintain_order=True
        ).row(0, named=True)
        num_tested = mine["p_value"].drop_nulls().len()
        num_more = int((mine["verdict"] == deltas.MORE).sum())
        yield {
            "model": names.model(row),
            "sentence": wording.delta_sentence(row, names.series(row)),
            "conclusion": wording.conclusion(row),
            "noise": wording.noise_floor(row),
            "kind": _kind(row),
            "verdict": row["verdict"],
            "tally": _tally(num_tested, num_more),
        }


def _tally(num_tested: int, num_more: int) -> str:
    if num_tested < 2:
        return ""
    if num_more == 0:
        return f"None of its {num_tested} deltas is more than chance; this is the largest."
    return (
        f"{num_more} of its {num_tested} deltas {'is' if num_more == 1 else 'are'} more than "
        "chance; this is the largest of them."
    )


def _kind(row: Row) -> str:
    return {deltas.MORE: "more", deltas.WITHIN: "within"}.get(row["verdict"], "none")


def _longest(found: pl.DataFrame) -> float:
    """Right end of the gauges, in multiples of the 95th percentile of chance: just beyond the
    largest delta, up to a bound.
    """
    tested = found.filter(pl.col("chance_delta_95") > 0)
    ratios = (tested["delta"] / tested["chance_delta_95"]).to_list()
    return min(max(ratios, default=1.0), MAX_GAUGE) * 1.05 if ratios else 1.0


def _delta_row(row: Row, names: wording.Names, longest: float) -> dict[str, Any]:
    """One row of the delta table."""
    text = wording.number
    return {
        "model": names.model(row),
        "task": Cell(
            text=names.series(row),
            note=f"{count(row['num_items'], 'item')}, {count(row['num_dates'], 'date')}",
        ),
        "worst": Cell(text=text(row["worst"]), note=wording.day(row["worst_date"])),
        "best": Cell(text=text(row["best"]), note=wording.day(row["best_date"])),
        "delta": text(row["delta"]),
        "chance": Cell(
            text=text(row["chance_delta"]),
            note="" if row["chance_delta_95"] is None else f"95%: {text(row['chance_delta_95'])}",
        ),
        "gauge": _gauge(row, longest),
        "verdict": Cell(
            text=row["verdict"], note=wording.p_phrase(row["p_value_holm"]), kind=_kind(row)
        ),
        "control": text(row["control"]),
        "mean": Cell(
            text=text(row["mean"]), note="" if row["sd"] is None else f"sd {text(row['sd'])}"
        ),
        "placebo": wording.percent(row["placebo_flip_percent"]),
        "no_answer": _no_answer(row),
    }


def _no_answer(row: Row) -> Cell:
    """How many answers on the dates are missing, and the most on one of them."""
    share, most = row["no_answer_percent"], row["no_answer_percent_max"]
    return Cell(
        text=wording.percent(share),
        note=f"max {wording.percent(most)}" if share and most > share else "",
    )


def _gauge(row: Row, longest: float) -> Gauge | None:
    """The delta as a picture; None where chance gives nothing to compare with."""
    if not row["chance_delta_95"]:
        return None
    full = longest * row["chance_delta_95"] / 100
    delta, chance, chance_95 = (
        min(100.0, round(row[name] / full, 2))
        for name in ("delta", "chance_delta", "chance_delta_95")
    )
    return Gauge(
        delta=delta, chance=chance, chance_95=chance_95, is_more=row["verdict"] == deltas.MORE
    )


def _colours(by_date: pl.DataFrame, names: wording.Names) -> dict[str, str]:
    """Label of each model -> colour."""
    pairs = by_date.select("model", "engine").unique().sort("model", "engine").iter_rows(named=True)
    return {
        names.model(row): charts.COLOURS[i % len(charts.COLOURS)] for i, row in enumerate(pairs)
    }


def _panel_keys(by_date: pl.DataFrame) -> list[dict[str, Any]]:
    """What each chart shows: a task, style, metric and condition that has dates."""
    key = ["task", "style", "metric", "condition", *AXES]
    return (
        by_date.drop_nulls("date")
        .select(key)
        .unique()
        .sort("task", "style", "metric", *AXES)
        .to_dicts()
    )


def _panel(
    by_date: pl.DataFrame, one: Row, names: wording.Names, colours: Mapping[str, str]
) -> dict[str, str]:
    """A title and a chart; the control is that of the condition."""
    mine = [pl.col(name) == one[name] for name in ("task", "style", "metric")]
    same_prompt = pl.all_horizontal(
        pl.col(name) == one[name] for name in ("wording", "option_order", "location")
    )
    series = by_date.filter(
        *mine, (pl.col("condition") == one["condition"]) | (pl.col("date").is_null() & same_prompt)
    )
    labels = [names.model(row) for row in series.select("model", "engine").iter_rows(named=True)]
    panel = series.with_columns(label=pl.Series(labels, dtype=pl.String))
    title = names.series(one)
    svg = charts.score_chart(
        panel, colours, wording.score_axis(one["metric"]), f"{title} by date. {_spoken(panel)}"
    )
    return {"title": title, "svg": svg}


def _spoken(panel: pl.DataFrame) -> str:
    """The ranges of a chart in words."""
    sweep = panel.filter(pl.col("date").is_not_null() & (pl.col("replicate") == 0)).sort(
        "label", "date"
    )
    ranges = sweep.group_by("label", maintain_order=True).agg(
        low=pl.col("score").min(), high=pl.col("score").max()
    )
    return " ".join(
        f"{label}: {wording.number(low)} to {wording.number(high)}."
        for label, low, high in ranges.iter_rows()
    )


def _unread(by_date: pl.DataFrame) -> pl.DataFrame:
    """Number of answers by status, for each series in which some answer was not scored as usual."""
    counts = by_date.group_by(SERIES_KEY).agg(pl.col(COUNTS).sum()).sort(SERIES_KEY)
    return counts.filter(pl.col("num_scored") < pl.col("num_items"))


def _unread_row(row: Row, names: wording.Names) -> dict[str, Any]:
    """One row of the table of answers that were not scored as usual."""
    shares = {
        name.removeprefix("num_"): Cell(
            text=wording.percent(100 * row[name] / row["num_items"]), note=f"{row[name]:,}"
        )
        for name in ("num_no_answer", "num_timeout", "num_failed")
    }
    return {
        "model": names.model(row),
        "task": names.scored(row),
        "answers": f"{row['num_items']:,}",
        **shares,
    }


def _dated_rates(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The flip rates of conditions that have dates.

    A control's noise floor stands beside its score.
    """
    found = tables.get("flip_rates", pl.DataFrame())
    return found.filter(pl.col("num_dates") > 0) if found.height else found


def _rate_row(row: Row, names: wording.Names) -> dict[str, Any]:
    """One row of the flip-rate table."""
    low, high = (wording.number(row[f"flipping_percent_{end}"], 1) for end in ("low", "high"))
    some = row["num_placebo_pairs"] > 0
    return {
        "model": names.model(row),
        "task": names.task(row),
        "flipping": Cell(
            text=wording.percent(row["flipping_percent"]),
            note=f"{row['num_flipping']:,} of {row['num_items']:,}, 95%: {low} to {high}",
        ),
        "pairs": wording.percent(row["pair_flip_percent"]),
        "placebo": Cell(
            text=wording.percent(row["placebo_flip_percent"]),
            note=f"{row['num_placebo_pairs']:,} pairs, 95%: at most "
            f"{wording.percent(row['placebo_flip_percent_high'])}"
            if some
            else "not asked",
        ),
        "outputs": wording.percent(row["pair_output_percent"]),
        "placebo_outputs": wording.percent(row["placebo_output_percent"]),
    }


def _shown_flips(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Up to `MAX_FLIPS_SHOWN` rows, as many from each run, those nearest to half right first."""
    flips = tables.get("flips", pl.DataFrame())
    if flips.height == 0:
        return flips
    key = [*SERIES_KEY, *AXES]
    per_run = max(1, MAX_FLIPS_SHOWN // flips.select(key).n_unique())
    undecided = (pl.col("right_percent") - 50).abs()
    return (
        flips.sort(*key, undecided, "item_id", nulls_last=True)
        .group_by(key, maintain_order=True)
        .head(per_run)
        .head(MAX_FLIPS_SHOWN)
    )


def _flip_row(row: Row, names: wording.Names) -> dict[str, Any]:
    """One row of the flip table."""
    is_graded = row["num_right"] is None
    right = Cell(
        text="graded" if is_graded else f"{row['num_right']:,} of {row['num_dates']:,}",
        note="" if is_graded else wording.percent(row["right_percent"]),
    )
    return {
        "model": names.model(row),
        "task": names.task(row),
        "item": Cell(text=row["item_id"], note=row["group"] or ""),
        "right": right,
        "target": wording.clipped(row["target"]),
        "common": Cell(
            text=wording.clipped(row["common_answer"]),
            note=count(row["num_answers"], "distinct answer"),
        ),
        "a": Cell(text=wording.clipped(row["answer_a"]), note=wording.day(row["date_a"])),
        "b": Cell(text=wording.clipped(row["answer_b"]), note=wording.day(row["date_b"])),
    }
