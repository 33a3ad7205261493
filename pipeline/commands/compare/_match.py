"""One series in two runs: a row of differences for each condition that both asked."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses import CONDITION, Bools, Cells, Combine, Ints, Outcomes, stats
from pipeline.commands.compare._paired import group_sums, interval, p_value, rounded

SERIES = ["task", "style", "metric"]
SIDES = ["model_a", "model_b", "engine_a", "engine_b"]

_SCORES = ("score_a", "score_b", "difference", "low", "high", "p_value", "p_value_holm")
_FLIPS = ("num_pairs", "num_differing", "num_right_only_a", "num_right_only_b")
_LEFT_OUT = [f"num_{w}_only_{side}" for w in ("items", "dates", "outcomes") for side in "ab"]

SCHEMA = pl.Schema(
    dict.fromkeys((*SIDES, *SERIES), pl.String())
    | CONDITION
    | dict.fromkeys(("num_items", "num_dates"), pl.Int64())
    | dict.fromkeys(_SCORES, pl.Float64())
    | {"lowest": pl.Float64(), "lowest_date": pl.Date()}
    | {"highest": pl.Float64(), "highest_date": pl.Date()}
    | dict.fromkeys(_FLIPS, pl.Int64())
    | dict.fromkeys(("placebo_flip_percent_a", "placebo_flip_percent_b"), pl.Float64())
    | dict.fromkeys((*_LEFT_OUT, "num_items_changed"), pl.Int64())
)
"""Columns of `Comparison.rows`.

* `score_a`, `score_b`: means over the `num_dates` dates that both runs asked of the scores of the
  `num_items` items that both asked; the control's one score where `num_dates` is 0. Only pairs
  count: an outcome whose partner is missing is left out;
* `difference`: `score_b` minus `score_a`; `low`, `high`: its 95% interval; `p_value`, and
  `p_value_holm`, corrected for the number of rows; null with fewer than two items;
* `lowest`, `highest`: the smallest and the largest difference on one date, and their dates, the
  first on a tie; null without dates;
* `num_pairs`: outcomes that both runs have; `num_differing`: those that are not the same in both,
  in being right or wrong, or for metrics that grade (BLEU) in the answer's text;
  `num_right_only_a`, `num_right_only_b`: which way; null for metrics that grade;
* `placebo_flip_percent_a`, `_b`: outcomes that change when a run asks the same prompt again, the
  noise floor of `num_differing`;
* `num_items_only_a` ... `num_outcomes_only_b`: what had no partner and is left out; outcomes are
  those of common items on common dates;
* `num_items_changed`: items of one id whose question, options or target are not the same in both
  runs, left out too.
"""


class Match:
    """One series in two runs, on the items that both asked."""

    def __init__(self, a: Outcomes, b: Outcomes, changed: set[str]) -> None:
        """`changed` are ids of items that do not ask the same in both."""
        self.sides = (a, b)
        in_a, in_b = {*a.item_ids}, {*b.item_ids}
        common = (in_a & in_b) - changed
        items = [np.flatnonzero([i in common for i in side.item_ids]) for side in self.sides]
        self.num_items = len(common)
        self.cells = [s.stats.items(rows) for s, rows in zip(self.sides, items, strict=True)]
        self.codes = [codes[rows] for codes, rows in zip(_codes(a, b), items, strict=True)]
        self.left_out = {
            **_of_each("num_items_only", [len(in_a - in_b), len(in_b - in_a)]),
            "num_items_changed": len(in_a & in_b & changed),
        }

    def conditions(self) -> list[str]:
        """Each condition in which both asked a common item; none where no item is common."""
        a, _ = self.sides
        known = [*a.controls(), *a.conditions()] if self.num_items else []
        return [condition for condition in known if self._columns(condition).height]

    def row(self, condition: str, max_draws: int) -> dict[str, Any]:
        """One row of the table, before the correction for the number of rows."""
        common, (a, b) = self._columns(condition), self.sides
        columns = [common[f"column_{side}"].to_numpy().astype(np.int64) for side in "ab"]
        cells = [side.dates(chosen) for side, chosen in zip(self.cells, columns, strict=True)]
        present = [side.present for side in cells]
        both = present[0] & present[1]
        pair = [dataclasses.replace(s, index=np.where(both, s.index, -1)) for s in cells]
        key = {name: value for name, value in a.key(condition).items() if name in SCHEMA}
        num_asked = [_asked(side, condition).height for side in self.sides]
        again = [stats.percent(*side.placebo_flips(condition)) for side in self.sides]
        return {
            **_of_each("model", [a.series["model"], b.series["model"]]),
            **_of_each("engine", [a.series["engine"], b.series["engine"]]),
            **key,
            "num_items": int(both.any(axis=1).sum()),
            "num_dates": common["date"].drop_nulls().len(),
            **_scores(pair[0], pair[1], a.metric.combine, common["date"].to_list(), max_draws),
            **self._flips(columns, both),
            **_of_each("placebo_flip_percent", again),
            **self.left_out,
            **_of_each("num_dates_only", [number - common.height for number in num_asked]),
            **_of_each("num_outcomes_only", [int((p & ~both).sum()) for p in present]),
        }

    def _columns(self, condition: str) -> pl.DataFrame:
        """`variant`, `date`, `column_a` and `column_b` of each variant that both asked, by date."""
        in_a, in_b = (_asked(side, condition) for side in self.sides)
        named = in_b.select("variant", column_b="column")
        return in_a.rename({"column": "column_a"}).join(named, on="variant", maintain_order="left")

    def _flips(self, columns: Sequence[Ints], both: Bools) -> dict[str, int]:
        """The columns about outcomes that differ; those left out are null."""
        a, b = (codes[:, chosen] for codes, chosen in zip(self.codes, columns, strict=True))
        num_differing, num_pairs = stats.paired_flips(a, b, both)
        counts = {"num_pairs": num_pairs, "num_differing": num_differing}
        if not self.sides[0].is_right_or_wrong:
            return counts
        right_only = [int(((a > b) & both).sum()), int(((b > a) & both).sum())]
        return counts | _of_each("num_right_only", right_only)


def _of_each(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Columns `<name>_a` and `<name>_b`."""
    return {f"{name}_{side}": value for side, value in zip("ab", values, strict=True)}


def _asked(outcomes: Outcomes, condition: str) -> pl.DataFrame:
    """`variant`, `date` and `column` of what a run asked in a condition, without copies."""
    columns = outcomes.columns.with_row_index("column")
    return columns.filter(condition=condition, replicate=0).select("variant", "date", "column")


def _codes(a: Outcomes, b: Outcomes) -> tuple[Ints, Ints]:
    """`Outcomes.codes` of both, equal where an outcome of one equals one of the other."""
    if a.is_right_or_wrong:
        return a.codes, b.codes
    texts = pl.Enum(pl.concat([a.answer_texts, b.answer_texts]).unique().sort())
    in_a, in_b = (
        np.append(o.answer_texts.cast(texts).to_physical().to_numpy().astype(np.int64), -1)
        for o in (a, b)
    )
    return in_a[a.answers], in_b[b.answers]


def _scores(
    a: Cells, b: Cells, combine: Combine, dates: list[Any], max_draws: int
) -> dict[str, Any]:
    """The columns about scores, of cells of which both runs have all or neither has any."""
    scores_a, scores_b = (stats.scores_by_date(cells, combine) for cells in (a, b))
    known = np.flatnonzero(~np.isnan(scores_b - scores_a))
    if not known.size:
        return {}
    gaps = scores_b[known] - scores_a[known]
    difference = float(rounded(gaps.mean()))
    row: dict[str, Any] = {
        "score_a": float(scores_a[known].mean()),
        "score_b": float(scores_b[known].mean()),
        "difference": difference,
    }
    if dates[0] is not None:
        gaps = rounded(gaps)
        low, high = int(gaps.argmin()), int(gaps.argmax())
        row |= {"lowest": float(gaps[low]), "lowest_date": dates[known[low]]}
        row |= {"highest": float(gaps[high]), "highest_date": dates[known[high]]}
    if np.count_nonzero(a.present.any(axis=1)) < 2:
        return row
    sums = group_sums(a, b, combine)
    low_end, high_end = interval(sums)
    p = p_value(sums, difference, max_draws=max_draws)
    return row | {"low": low_end, "high": high_end, "p_value": p}
