"""The first screen of the page: what was swept, and a card for each model, in words."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from pipeline.analyses import deltas
from pipeline.report import wording
from pipeline.report._rows import verdict_kind
from pipeline.report._shown import Tables, beside_the_date, is_undated
from pipeline.report.wording import Names, Row, count


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The largest delta of one model, in words."""

    model: str
    sentence: str
    conclusion: str
    noise: str
    kind: str
    verdict: str
    tally: str


def lead(tables: Tables) -> str:
    """What was swept, and how many deltas are more than chance, in one sentence or two."""
    rows = tables["by_date"] if is_undated(tables) else tables["deltas"]
    num_conditions = rows["condition"].n_unique()
    models, tasks = (count(rows[name].n_unique(), name) for name in ("model", "task"))
    under = f"under {num_conditions} conditions" if num_conditions > 1 else ""
    if is_undated(tables):
        asked = f"{models}, {tasks}, no dates: every item was asked without a date"
        return f"{asked}{under and f', {under}'}."
    num_dates = max(rows["num_dates"].to_list(), default=0)
    return f"{models}, {tasks}, {count(num_dates, 'date')}{under and f' {under}'}. {_tested(rows)}"


def _tested(rows: pl.DataFrame) -> str:
    num_tested = rows["p_value"].drop_nulls().len()
    num_more = (rows["verdict"] == deltas.MORE).sum()
    if not num_tested:
        return "No delta could be tested."
    if num_tested == 1:
        verdict = "more than" if num_more else "within what"
        return f"The delta between worst and best date is {verdict} chance gives."
    are = "are" if num_more > 1 else "is"
    tested = f"{num_more or 'None'} of {num_tested} worst-to-best deltas"
    return f"{tested} {are} more than chance gives."


def cards(tables: Tables, names: Names) -> Iterator[Card]:
    """One for each model; none for a sweep without dates that varied nothing."""
    undated = is_undated(tables)
    rows = beside_the_date(tables) if undated else tables["deltas"]
    # Of deltas, one that is more than chance comes first, if there is any.
    order = [] if undated else [pl.col("verdict") == deltas.MORE]
    for _, of_model in rows.group_by("model", "engine", maintain_order=True):
        largest = of_model.sort(
            *order, "delta", descending=True, nulls_last=True, maintain_order=True
        )
        row = largest.row(0, named=True)
        card = _spread_card if undated else _delta_card
        yield card(row, of_model, names)


def _spread_card(row: Row, of_model: pl.DataFrame, names: Names) -> Card:
    num_deltas = of_model.height
    return Card(
        model=names.model(row),
        sentence=wording.spread_sentence(row, names.scored(row)),
        conclusion="",
        noise=wording.noise_floor(row),
        kind="none",
        verdict="",
        tally=f"This is the largest of its {num_deltas} deltas." if num_deltas > 1 else "",
    )


def _delta_card(row: Row, of_model: pl.DataFrame, names: Names) -> Card:
    return Card(
        model=names.model(row),
        sentence=wording.delta_sentence(row, names.series(row)),
        conclusion=wording.conclusion(row),
        noise=wording.noise_floor(row),
        kind=verdict_kind(row),
        verdict=row["verdict"],
        tally=_tally(of_model),
    )


def _tally(of_model: pl.DataFrame) -> str:
    num_tested = of_model["p_value"].drop_nulls().len()
    num_more = (of_model["verdict"] == deltas.MORE).sum()
    if num_tested < 2:
        return ""
    if num_more == 0:
        return f"None of its {num_tested} deltas is more than chance; this is the largest."
    are = "is" if num_more == 1 else "are"
    tested = f"{num_more} of its {num_tested} deltas"
    return f"{tested} {are} more than chance; this is the largest of them."
