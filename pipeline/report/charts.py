"""Score-by-date charts as SVG text, ready to stand inside a page.

Altair describes a chart and vl-convert draws it, without a browser or the network. Both are slow to
import, so functions import them.
"""

import datetime
import re
from collections.abc import Mapping
from html import escape
from typing import Any

import polars as pl

COLOURS = (
    *("#1f5fb4", "#d9600a", "#2a8a3e", "#c5283d", "#7a4fb5"),
    *("#7b4b3a", "#cf4f9f", "#5b6470", "#8a8a12", "#0e8ea3"),
)
"""Each stands out from white by 3 to 1 or more, as WCAG 2.2 asks of graphics (success criterion
1.4.11)."""

MAX_MARKED_DATES = 60
"""With more dates, marks would hide the line, and the lines of several models each other: each
model then gets a strip of its own."""

_WIDTH, _HEIGHT, _STRIP_HEIGHT = 520, 210, 58
_LONG_SPAN_DAYS = 100
"""From here on the axis names months instead of days."""
_INK, _LINE, _GRID = "#3b4250", "#9aa3b2", "#e4e7ec"


def score_chart(panel: pl.DataFrame, colours: Mapping[str, str], unit: str, label: str) -> str:
    """An SVG of scores over dates.

    Lines are models, dashed levels controls, hollow marks placebo copies.

    Args:
        panel: `label` (of the model), `date` (null for the control), `replicate`, `score`, of one
            condition; a null score leaves a gap.
        colours: colour of each label.
        unit: title of the score axis.
        label: what the chart shows, for readers who do not see it.
    """
    import vl_convert

    labels, days = sorted(set(panel["label"])), _dates(panel)
    if len(labels) > 1 and days.len() > MAX_MARKED_DATES:
        chart = _strips(panel, labels, colours)
    else:
        chart = _lines(panel, colours, _y(unit), _x(days), _HEIGHT)
    styled = chart.properties(background="#ffffff", padding=4).configure(**_theme())
    return _inline(vl_convert.vegalite_to_svg(styled.to_dict(validate=False)), label)


def _dates(panel: pl.DataFrame) -> pl.Series:
    return panel["date"].drop_nulls().unique().sort()


def _lines(panel: pl.DataFrame, colours: Mapping[str, str], y: Any, x: Any, height: int) -> Any:
    """All models of a panel in one plot."""
    import altair as alt

    sweep, is_copy = panel.filter(replicate=0), pl.col("replicate") > 0
    dated, copies = (frame.drop_nulls("date") for frame in (sweep, panel.filter(is_copy)))
    control = sweep.filter(pl.col("date").is_null()).drop_nulls("score")
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    colour = alt.Color("label:N", scale=scale, legend=None)
    is_marked = _dates(panel).len() <= MAX_MARKED_DATES
    layers: list[Any] = []
    if control.height:
        rule = _chart(control).mark_rule(strokeDash=[5, 4], strokeWidth=1.3, opacity=0.8)
        layers.append(rule.encode(y=y, color=colour))
    # A gap in the scores is a gap in the line, never a bridge over it.
    width, gaps = 1.4 if is_marked else 1, "break-paths-filter-domains"
    marks = [_chart(dated).mark_line(strokeWidth=width, invalid=gaps)]
    if is_marked:
        marks.append(_chart(dated).mark_point(filled=True, size=26, opacity=1))
    if copies.height:  # larger and hollow, so that each rings the mark that it repeats
        rings = _chart(copies).mark_point(filled=False, size=62, opacity=1, strokeWidth=1.3)
        marks.append(rings)
    layers += [mark.encode(x=x, y=y, color=colour) for mark in marks]
    return alt.layer(*layers).properties(width=_WIDTH, height=height)


def _strips(panel: pl.DataFrame, labels: list[str], colours: Mapping[str, str]) -> Any:
    """One plot below the other for each model.

    All have the same number of points from bottom to top, so that swings compare.
    """
    import altair as alt

    by_label = panel.group_by("label")
    spans = by_label.agg(low=pl.col("score").min(), high=pl.col("score").max()).drop_nulls()
    half = max(((high - low) / 2 for _, low, high in spans.iter_rows()), default=0.0) * 1.05 or 1.0
    middle = {label: (low + high) / 2 for label, low, high in spans.iter_rows()}
    days, height = _dates(panel), max(_STRIP_HEIGHT, _HEIGHT // len(labels))
    plots = []
    for label in labels:
        centre, rows = middle.get(label, 50.0), panel.filter(label=label)
        y, x = _y("", (centre - half, centre + half)), _x(days, is_labelled=label == labels[-1])
        style: dict[str, Any] = {
            "anchor": "start",
            "fontSize": 12,
            "fontWeight": "bold",
            "offset": 4,
        }
        title = alt.Title(label, color=colours[label], **style)
        plots.append(_lines(rows, colours, y, x, height).properties(title=title))
    return alt.vconcat(*plots, spacing=6)


def _chart(frame: pl.DataFrame) -> Any:
    """A chart without marks that carries the frame's rows; dates as ISO text, read as UTC."""
    import altair as alt

    day = pl.col("date").dt.to_string("%Y-%m-%d")
    rows = frame.sort("label", "date", "replicate").select("label", "score", day)
    return alt.Chart(alt.InlineData(values=rows.to_dicts()))


def _x(days: pl.Series, *, is_labelled: bool = True) -> Any:
    """The date axis, in UTC: in local time, the west would draw each date a day early."""
    import altair as alt

    ends: list[datetime.date] = [days[0], days[-1]] if days.len() else []
    span = (ends[1] - ends[0]).days if ends else 0
    form = "%-d %b" if span < _LONG_SPAN_DAYS else "%b" if ends[0].year == ends[1].year else "%b %Y"
    few = [alt.DateTime(year=d.year, month=d.month, date=d.day, utc=True) for d in days]
    axis = alt.Axis(
        format=form,
        title=None,
        grid=False,
        labelOverlap=True,
        labels=is_labelled,
        ticks=is_labelled,
        tickCount=12,
        values=few if days.len() <= 4 else alt.Undefined,
    )
    padding = 10 if days.len() <= MAX_MARKED_DATES else 0
    return alt.X("date:T", scale=alt.Scale(type="utc", padding=padding), axis=axis)


def _y(unit: str, domain: tuple[float, float] | None = None) -> Any:
    """The score axis, on the range of the data or on `domain`.

    It does not start at 0: what a date does is far smaller than the score.
    """
    import altair as alt

    scale = alt.Scale(zero=False, nice=True, padding=8)
    if domain:
        scale = alt.Scale(domain=list(domain), nice=False, zero=False)
    axis = alt.Axis(title=unit or None, tickCount=3 if domain else 5)
    return alt.Y("score:Q", scale=scale, axis=axis)


def _theme() -> dict[str, Any]:
    """Look of all charts."""
    font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
    texts = {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "titleFontSize": 12}
    title = {"titleFontWeight": "normal", "titlePadding": 12}
    lines = {"gridColor": _GRID, "domainColor": _LINE, "tickColor": _LINE}
    return {"font": font, "axis": texts | title | lines, "view": {"stroke": None}}


def _inline(svg: str, label: str) -> str:
    """The SVG with a width that follows the page, and a text for readers who do not see it."""
    box = re.search(r'viewBox="([^"]+)"', svg)
    view = box.group(1) if box else f"0 0 {_WIDTH} {_HEIGHT}"
    head = (
        f'<svg class="chart" viewBox="{view}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{escape(label)}">'
    )
    return re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
