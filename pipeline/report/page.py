"""The page: what each part of `template.html` shows, worked out from the tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.analyses import AXES, SERIES_KEY
from pipeline.report import _rows, _shown, wording
from pipeline.report._opening import cards, lead
from pipeline.report._shown import Tables
from pipeline.report.charts import COLOURS, score_chart
from pipeline.report.provenance import Provenance
from pipeline.report.wording import Names, Row

MAX_PANELS = 24
"""Charts on the page, of the first conditions; `by_date.csv` has the numbers of all."""
MAX_SCORES_SHOWN = 200
"""Rows of the score table on the page; the CSV has all."""


def html(tables: Tables, provenance: Provenance) -> str:
    """The text of the report.

    Every value is escaped by the template; only the charts go in as they are.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.get_template("template.html")
    return template.render(context(tables, provenance))


def context(tables: Tables, provenance: Provenance) -> dict[str, Any]:
    """Everything that the template names."""
    deltas, by_date = tables["deltas"], tables["by_date"]
    keys = [frame.select(*SERIES_KEY, *AXES) for frame in (deltas, by_date)]
    names = Names(pl.concat(keys))
    colours = _colours(by_date, names)
    panels = panel_keys(by_date)
    spreads = _shown.beside_the_date(tables)
    scores = list(_rows.score_rows(tables, names)) if _shown.is_undated(tables) else []
    return {
        "provenance": provenance,
        "lead": lead(tables),
        "headlines": list(cards(tables, names)),
        "scores": scores[:MAX_SCORES_SHOWN],
        "num_scores": len(scores),
        "deltas": list(_rows.delta_rows(deltas, names)),
        "has_no_answer": (deltas["no_answer_percent"] > 0).any(),
        "colours": colours,
        "panels": [panel(by_date, key, names, colours) for key in panels[:MAX_PANELS]],
        "num_panels": len(panels),
        "has_control": by_date["date"].has_nulls(),
        "has_placebo": (by_date["replicate"] > 0).any(),
        "unread": list(_rows.unread_rows(_shown.unread(tables), names)),
        "conditions": list(_rows.spread_rows(spreads, names)),
        "has_chance": spreads["chance_delta"].count() > 0,
        "flip_rates": list(_rows.rate_rows(_shown.dated_rates(tables), names)),
        "flips": list(_rows.flip_rows(_shown.flips(tables), names)),
        "num_flips": tables["flips"].height,
        "csv_names": sorted(tables),
    }


def _colours(by_date: pl.DataFrame, names: Names) -> dict[str, str]:
    """Label of each model -> colour."""
    models = by_date.select("model", "engine").unique().sort("model", "engine")
    labels = [names.model(row) for row in models.iter_rows(named=True)]
    return {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}


def panel_keys(by_date: pl.DataFrame) -> list[dict[str, Any]]:
    """What each chart shows: a task, style, metric and condition that has dates."""
    series = ["task", "style", "metric"]
    keys = by_date.drop_nulls("date").select(*series, "condition", *AXES)
    return keys.unique().sort(*series, *AXES).to_dicts()


def panel(
    by_date: pl.DataFrame, key: Row, names: Names, colours: Mapping[str, str]
) -> dict[str, str]:
    """A title and a chart of one of `panel_keys`; the control is that of the condition."""
    is_series, is_prompt = (
        pl.all_horizontal(pl.col(name) == key[name] for name in columns)
        for columns in (("task", "style", "metric"), ("wording", "option_order", "location"))
    )
    is_control = pl.col("date").is_null() & is_prompt
    rows = by_date.filter(is_series, (pl.col("condition") == key["condition"]) | is_control)
    labels = [names.model(row) for row in rows.iter_rows(named=True)]
    labelled = rows.with_columns(label=pl.Series(labels, dtype=pl.String))
    title, unit = names.series(key), wording.score_axis(key["metric"])
    spoken = f"{title} by date. {_spoken(labelled)}"
    return {"title": title, "svg": score_chart(labelled, colours, unit, spoken)}


def _spoken(rows: pl.DataFrame) -> str:
    """The ranges of a chart in words."""
    asked = rows.drop_nulls("date").filter(replicate=0).sort("label", "date")
    by_label = asked.group_by("label", maintain_order=True)
    ranges = by_label.agg(low=pl.col("score").min(), high=pl.col("score").max())
    return " ".join(
        f"{label}: {wording.number(low)} to {wording.number(high)}."
        for label, low, high in ranges.iter_rows()
    )
