"""Which items are answered otherwise on another date?"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses._evidence import Evidence
from pipeline.analyses._outcomes import AXES, CONDITION, SERIES, SERIES_KEY, Outcomes
from pipeline.analyses._stats import flips

SCHEMA = pl.Schema(
    SERIES
    | CONDITION
    | {"item_id": pl.String(), "group": pl.String()}
    | dict.fromkeys(("num_dates", "num_answers", "num_right"), pl.Int64())
    | {"right_percent": pl.Float64(), "target": pl.String(), "common_answer": pl.String()}
    | {"date_a": pl.Date(), "answer_a": pl.String(), "date_b": pl.Date(), "answer_b": pl.String()}
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each item that flips in a benchmark run and condition, with two dates to compare.

    It flips under its task's headline metric.

    * `num_answers`: distinct answers over the `num_dates` dates that were scored; `common_answer`:
      the most frequent, the first in the alphabet on a tie; an empty answer is one too;
    * `num_right`, `right_percent`: dates on which it was right; null for metrics that grade (BLEU),
      where an item flips if its answer's text does;
    * `date_a` and `date_b`: the first date, and the first one after it with another outcome, with
      their answers.
    """
    headlines = (o for o in evidence.outcomes() if o.is_headline)
    rows = [row for o in headlines for name in o.conditions() for row in _rows(o, name)]
    items = evidence.items.select("task", "item_id", "group", "target")
    flipping = pl.DataFrame(rows, schema=SCHEMA).drop("group", "target")
    described = flipping.join(items, on=["task", "item_id"], how="left")
    return described.select(SCHEMA.names()).sort(*SERIES_KEY, *AXES, "item_id")


def _rows(outcomes: Outcomes, condition: str) -> Iterator[dict[str, Any]]:
    """Rows of the table for one run and condition, without what the items say."""
    columns, key = outcomes.dates(condition), outcomes.key(condition)
    codes, present = outcomes.codes[:, columns], outcomes.present[:, columns]
    answers, texts = outcomes.answers[:, columns], outcomes.answer_texts
    dates = outcomes.columns["date"].gather(columns).to_list()
    for item in np.flatnonzero(flips(codes, present)):
        shown = np.flatnonzero(present[item])
        distinct, counts = np.unique(answers[item, shown], return_counts=True)
        first = shown[0]
        other = shown[codes[item, shown] != codes[item, first]][0]
        num_right = int(codes[item, shown].sum()) if outcomes.is_right_or_wrong else None
        yield {
            **key,
            "item_id": outcomes.item_ids[item],
            "num_dates": shown.size,
            "num_answers": distinct.size,
            "num_right": num_right,
            "right_percent": None if num_right is None else 100.0 * num_right / shown.size,
            "common_answer": texts[int(distinct[counts.argmax()])],
            "date_a": dates[first],
            "answer_a": texts[int(answers[item, first])],
            "date_b": dates[other],
            "answer_b": texts[int(answers[item, other])],
        }
