"""The parts of the page about conditions beside the date, and about sweeps without dates."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from pipeline.analyses import SERIES_KEY
from pipeline.report import wording
from pipeline.report._cells import Cell, Row, count

MAX_SCORES_SHOWN = 200
"""Rows of the score table on the page; the CSV has all."""


def is_undated(by_date: pl.DataFrame) -> bool:
    """Whether something was asked, and nothing under a date."""
    return by_date.height > 0 and by_date["date"].null_count() == by_date.height


def lead(by_date: pl.DataFrame) -> str:
    """What a sweep without dates asked, in a sentence."""
    num_conditions = by_date["condition"].n_unique()
    asked = (
        f"{count(by_date['model'].n_unique(), 'model')}, "
        f"{count(by_date['task'].n_unique(), 'task')}, no dates"
    )
    return (
        f"{asked}: every item was asked without a "
        f"date{f', under {num_conditions} conditions' if num_conditions > 1 else ''}."
    )


def cards(found: pl.DataFrame, names: wording.Names) -> Iterator[dict[str, str]]:
    """For each model of a sweep without dates, its largest delta in words.

    None where nothing was varied.
    """
    for _, mine in found.group_by("model", "engine", maintain_order=True):
        row = mine.sort("delta", descending=True, nulls_last=True, maintain_order=True).row(
            0, named=True
        )
        yield {
            "model": names.model(row),
            "sentence": wording.spread_sentence(row, names.scored(row)),
            "conclusion": "",
            "noise": wording.noise_floor(row),
            "kind": "none",
            "verdict": "",
            "tally": f"This is the largest of its {mine.height} deltas." if mine.height > 1 else "",
        }


def beside_the_date(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The table `conditions`, or no rows where only the date was varied."""
    found = tables.get("conditions", pl.DataFrame())
    return found if found.height and (found["axis"] != "date").any() else found.clear()


def spread_row(row: Row, names: wording.Names) -> dict[str, Any]:
    """One row of the table of what the score does when one thing is varied."""
    axis, number = row["axis"], wording.number
    value = {end: (row[f"{end}_value"] or "").replace("_", " ") for end in ("worst", "best")}
    chance_95 = row["chance_delta_95"]
    return {
        "model": names.model(row),
        "task": names.scored(row),
        "axis": Cell(text=wording.AXIS_TITLES[axis], note=wording.held(row["held"])),
        "num_values": Cell(
            text=f"{row['num_values']:,}",
            note=f"over {count(row['num_dates'], 'date')}" if row["num_dates"] else "",
        ),
        "mean": number(row["mean"]),
        "sd": number(row["sd"]),
        "cv": wording.DASH if row["cv_percent"] is None else f"{row['cv_percent']:.2f}%",
        "worst": Cell(text=number(row["worst"]), note=value["worst"]),
        "best": Cell(text=number(row["best"]), note=value["best"]),
        "delta": number(row["delta"]),
        "chance": Cell(
            text=number(row["chance_delta"]),
            note="" if chance_95 is None else f"95%: {number(chance_95)}",
        ),
        "placebo": wording.percent(row["placebo_flip_percent"]),
    }


def score_rows(
    tables: Mapping[str, pl.DataFrame], names: wording.Names
) -> Iterator[dict[str, Any]]:
    """Rows of the score table of a sweep without dates, one for each series and condition."""
    key = [*SERIES_KEY, "condition"]
    rates = {
        tuple(row[name] for name in key): row["placebo_flip_percent"]
        for row in tables.get("flip_rates", pl.DataFrame()).iter_rows(named=True)
    }
    for row in tables["by_date"].filter(pl.col("replicate") == 0).iter_rows(named=True):
        yield {
            "model": names.model(row),
            "task": Cell(text=names.scored(row), note=count(row["num_items"], "item")),
            "condition": names.condition(row),
            "score": wording.number(row["score"]),
            "no_answer": wording.percent(100 * row["num_no_answer"] / row["num_items"]),
            "placebo": wording.percent(rates.get(tuple(row[name] for name in key))),
        }
