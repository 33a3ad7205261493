"""The items whose outcome depends on the date, with two dates to compare."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses import AXES, CONDITION, SERIES_KEY, Evidence, Outcomes, _stats as stats

TITLE = "Items that flip"
QUESTION = "Which items are answered otherwise on another date?"

SCHEMA = pl.Schema(
    {name: pl.String() for name in SERIES_KEY}
    | dict(CONDITION)
    | {"item_id": pl.String(), "group": pl.String()}
    | {
        "num_dates": pl.Int64(),
        "num_answers": pl.Int64(),
        "num_right": pl.Int64(),
        "right_percent": pl.Float64(),
    }
    | {"target": pl.String(), "common_answer": pl.String()}
    | {"date_a": pl.Date(), "answer_a": pl.String(), "date_b": pl.Date(), "answer_b": pl.String()}
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each item that flips under its task's headline metric, in each benchmark run and
    condition.

    * `num_answers`: distinct answers over the `num_dates` dates that were scored; `common_answer`:
      the most frequent, the first in the alphabet on a tie; an empty answer is one too;
    * `num_right`, `right_percent`: dates on which it was right; null for metrics that grade (BLEU),
      where an item flips if its answer's text does;
    * `date_a` and `date_b`: the first date, and the first one after it with another outcome, with
      their answers.
    """
    rows = [
        row
        for o in evidence.outcomes()
        if o.is_headline
        for condition in o.conditions()
        for row in _rows(o, condition)
    ]
    known = evidence.items.select("task", "item_id", "group", "target")
    flipping = pl.DataFrame(
        rows, schema={n: t for n, t in SCHEMA.items() if n not in ("group", "target")}
    )
    return (
        flipping.join(known, on=["task", "item_id"], how="left")
        .select(SCHEMA.names())
        .sort(*SERIES_KEY, *AXES, "item_id")
    )


def _rows(outcomes: Outcomes, condition: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of the table for one run and condition, without what the items say."""
    columns = outcomes.dates(condition["condition"])
    codes = outcomes.codes[:, columns]
    present = outcomes.present[:, columns]
    answers = outcomes.answers[:, columns]
    dates = outcomes.columns["date"].gather(columns).to_list()
    for item in np.flatnonzero(stats.flips(codes, present)):
        shown = np.flatnonzero(present[item])
        found, counts = np.unique(answers[item, shown], return_counts=True)
        first = shown[0]
        other = shown[codes[item, shown] != codes[item, first]][0]
        num_right = int(codes[item, shown].sum()) if outcomes.is_right_or_wrong else None
        yield {
            **outcomes.series,
            **condition,
            "item_id": outcomes.item_ids[item],
            "num_dates": shown.size,
            "num_answers": found.size,
            "num_right": num_right,
            "right_percent": None if num_right is None else 100.0 * num_right / shown.size,
            "common_answer": outcomes.answer_texts[int(found[counts.argmax()])],
            "date_a": dates[first],
            "answer_a": outcomes.answer_texts[int(answers[item, first])],
            "date_b": dates[other],
            "answer_b": outcomes.answer_texts[int(answers[item, other])],
        }
