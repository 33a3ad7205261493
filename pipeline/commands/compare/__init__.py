"""Two runs side by side, pair by pair: what changes in a score when the same items are asked on the
same dates in another run.

Outcomes are joined by key: task, style, metric, item, variant. Two runs of one model may differ in
anything else (engine, checkpoint, prompts, a version of this tool), and two models may be set
against each other. `_paired` says what the intervals and p-values mean.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline import analyses
from pipeline.analyses import (
    AXES,
    CONDITION,
    SERIES_KEY,
    Bools,
    Cells,
    Evidence,
    Ints,
    Outcomes,
    stats,
)
from pipeline.commands.compare import _paired, _words
from pipeline.commands.compare._words import table_of as table_of
from pipeline.core.errors import ConfigError, StoreError, nearest
from pipeline.store import Place, Run

_SERIES = ["task", "style", "metric"]
_SIDES = ["model_a", "model_b", "engine_a", "engine_b"]

SCHEMA = pl.Schema(
    {name: pl.String() for name in [*_SIDES, *_SERIES]}
    | dict(CONDITION)
    | {"num_items": pl.Int64(), "num_dates": pl.Int64()}
    | {
        name: pl.Float64()
        for name in ("score_a", "score_b", "difference", "low", "high", "p_value", "p_value_holm")
    }
    | {
        "lowest": pl.Float64(),
        "lowest_date": pl.Date(),
        "highest": pl.Float64(),
        "highest_date": pl.Date(),
    }
    | {
        name: pl.Int64()
        for name in ("num_pairs", "num_differing", "num_right_only_a", "num_right_only_b")
    }
    | {f"placebo_flip_percent_{side}": pl.Float64() for side in "ab"}
    | {
        f"num_{what}_only_{side}": pl.Int64()
        for what in ("items", "dates", "outcomes")
        for side in "ab"
    }
    | {"num_items_changed": pl.Int64()}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two runs have in common, and what they have not."""

    rows: pl.DataFrame
    """One row for each pair of models, series and condition, columns `SCHEMA`, sorted."""
    notes: list[str]
    """One line for each kind of thing that was left out, and for each setting in which the runs
    differ."""
    names: tuple[str, str]
    """The folders of A and B."""


def compare(run_a: str | Place, run_b: str | Place, pairs: Sequence[str] = ()) -> Comparison:
    """The run in the folder `run_b` minus that in `run_a`.

    Models are paired by name. Where the runs have no model in common and one each, these are a
    pair; `pairs`, each like `MODEL_OF_A=MODEL_OF_B`, names others.

    Raises:
        ConfigError: one of `pairs` cannot be used. StoreError: a folder is no run or is not scored,
            or the runs have nothing in common; the message names what each has.
    """
    wanted, runs = _pairs(pairs), (Run.open(run_a), Run.open(run_b))
    a, b = (analyses.evidence_of_run(run) for run in runs)
    found = compare_evidence(a, b, wanted, names=(str(run_a), str(run_b)))
    return dataclasses.replace(
        found, notes=[*found.notes, *_words.other_settings(runs, found.rows)]
    )


def compare_evidence(
    a: Evidence,
    b: Evidence,
    pairs: Sequence[tuple[str, str]] = (),
    *,
    names: tuple[str, str] = ("A", "B"),
) -> Comparison:
    """As `compare`, of what was measured in two runs.

    Raises:
        ConfigError: one of `pairs` cannot be used.
        StoreError: the runs have nothing in common.
    """
    matches = list(_matches(_Side("RUN_A", a), _Side("RUN_B", b), pairs))
    asked = [(match, condition) for match in matches for condition in match.conditions()]
    if not asked:
        raise StoreError(_words.nothing_common(a, b, names))
    max_draws = max(_paired.NUM_DRAWS, int(_paired.DRAWS_PER_TEST * len(asked)))
    rows = pl.DataFrame(
        [match.row(condition, max_draws) for match, condition in asked], schema=SCHEMA
    )
    corrected = stats.holm(rows["p_value"].fill_null(np.nan).to_numpy())
    rows = rows.with_columns(p_value_holm=pl.Series(corrected).fill_nan(None)).sort(
        *_SIDES, *_SERIES, *AXES, nulls_last=False
    )
    return Comparison(rows=rows, notes=_words.left_out(a, b, rows), names=names)


class _Side:
    """One run's outcomes by key."""

    def __init__(self, name: str, evidence: Evidence) -> None:
        self.name, self.evidence = name, evidence  # whose files last as long as it does
        self.outcomes = {tuple(o.series[key] for key in SERIES_KEY): o for o in evidence.outcomes()}
        self.models = sorted({model for model, *_ in self.outcomes})

    def engines(self, model: str) -> list[str]:
        return sorted({key[1] for key in self.outcomes if key[0] == model})

    def series(self, model: str, engine: str) -> dict[tuple[str, ...], Outcomes]:
        return {
            key[2:]: found for key, found in self.outcomes.items() if key[:2] == (model, engine)
        }

    def check(self, model: str) -> None:
        if model not in self.models:
            has = f"it has: {', '.join(self.models)}{nearest(model, self.models)}"
            raise ConfigError(
                f"--pair: given MODEL_OF_A=MODEL_OF_B with the model {model!r}, which "
                f"{self.name} has not; {has}"
            )


def _pairs(given: Sequence[str]) -> list[tuple[str, str]]:
    """The two model names of each of `given`."""
    found = [tuple(text.split("=")) for text in given]
    for text, names in zip(given, found, strict=True):
        if len(names) != 2 or not all(names):
            raise ConfigError(
                f"--pair: given {text!r}; allowed: MODEL_OF_A=MODEL_OF_B, a model of each run"
            )
    return [(names[0], names[1]) for names in found]


def _matches(a: _Side, b: _Side, pairs: Sequence[tuple[str, str]]) -> Iterator["_Match"]:
    """Every series that both runs have, model by model."""
    for model_a, model_b in pairs:
        a.check(model_a)
        b.check(model_b)
    changed = _changed_items(a.evidence.items, b.evidence.items)
    for model_a, model_b in pairs or _same_or_single(a.models, b.models):
        for engine_a, engine_b in _same_or_single(a.engines(model_a), b.engines(model_b)):
            in_a, in_b = a.series(model_a, engine_a), b.series(model_b, engine_b)
            for series in sorted(in_a.keys() & in_b.keys()):
                yield _Match(in_a[series], in_b[series], changed.get(series[0], set()))


def _same_or_single(a: list[str], b: list[str]) -> list[tuple[str, str]]:
    """Names that both have, each with itself.

    Where there are none, the two single ones with each other.
    """
    common = [(name, name) for name in a if name in b]
    return common or ([(a[0], b[0])] if len(a) == len(b) == 1 else [])


def _changed_items(a: pl.DataFrame, b: pl.DataFrame) -> dict[str, set[str]]:
    """Ids by task of the items that ask one thing in `a` and another in `b`."""
    both = a.join(b, on=["task", "item_id"], suffix="_b")
    same = [
        pl.col(name) == pl.col(f"{name}_b")
        for name in ("fields", "options", "target", "references")
    ]
    found: dict[str, set[str]] = {}
    for task, item in both.filter(~pl.all_horizontal(same)).select("task", "item_id").iter_rows():
        found.setdefault(task, set()).add(item)
    return found


class _Match:
    """One series in two runs, on the items that both asked."""

    def __init__(self, a: Outcomes, b: Outcomes, changed: set[str]) -> None:
        self.sides = (a, b)
        in_a, in_b = {*a.item_ids}, {*b.item_ids}
        common = (in_a & in_b) - changed
        self.items = [np.flatnonzero([i in common for i in side.item_ids]) for side in self.sides]
        self.cells = [
            side.stats.items(rows) for side, rows in zip(self.sides, self.items, strict=True)
        ]
        self.codes = [codes[rows] for codes, rows in zip(_codes(a, b), self.items, strict=True)]
        self.left_out = {
            "num_items_only_a": len(in_a - in_b),
            "num_items_only_b": len(in_b - in_a),
            "num_items_changed": len(in_a & in_b & changed),
        }

    def conditions(self) -> list[str]:
        """Each condition in which both asked a common item.

        None where no item is common.
        """
        known = (
            [*self.sides[0].controls(), *self.sides[0].conditions()] if self.items[0].size else []
        )
        return [condition for condition in known if self._columns(condition).height]

    def row(self, condition: str, max_draws: int) -> dict[str, Any]:
        """One row of the table, before the correction for the number of rows."""
        common = self._columns(condition)
        columns = [common[f"column_{side}"].to_numpy().astype(np.int64) for side in "ab"]
        cells = [found.dates(chosen) for found, chosen in zip(self.cells, columns, strict=True)]
        here = [found.present for found in cells]
        both = here[0] & here[1]
        pair = [
            dataclasses.replace(found, index=np.where(both, found.index, -1)) for found in cells
        ]
        return {
            **{name: self.sides[0].series[name] for name in _SERIES},
            **_of_each(
                model=[s.series["model"] for s in self.sides],
                engine=[s.series["engine"] for s in self.sides],
            ),
            **{name: self.sides[0].key(condition)[name] for name in CONDITION},
            "num_items": int(both.any(axis=1).sum()),
            "num_dates": common["date"].drop_nulls().len(),
            **_scores(pair[0], pair[1], self.sides[0], common["date"].to_list(), max_draws),
            **self._flips(columns, both),
            **_of_each(placebo_flip_percent=[_again(s, condition) for s in self.sides]),
            **self.left_out,
            **_of_each(
                num_dates_only=[_asked(s, condition).height - common.height for s in self.sides]
            ),
            **_of_each(num_outcomes_only=[int((present & ~both).sum()) for present in here]),
        }

    def _columns(self, condition: str) -> pl.DataFrame:
        """`variant`, `date`, `column_a` and `column_b` of each variant that both asked in one
        condition, by date; no placebo copies.
        """
        in_a, in_b = (_asked(side, condition) for side in self.sides)
        named = in_b.select("variant", column_b="column")
        return in_a.rename({"column": "column_a"}).join(named, on="variant", maintain_order="left")

    def _flips(self, columns: Sequence[Ints], both: Bools) -> dict[str, int | None]:
        """The columns about outcomes that differ."""
        a, b = (codes[:, chosen] for codes, chosen in zip(self.codes, columns, strict=True))
        num_differing, num_pairs = stats.paired_flips(a, b, both)
        found: dict[str, int | None] = {"num_pairs": num_pairs, "num_differing": num_differing}
        if not self.sides[0].is_right_or_wrong:
            return found
        return found | {
            "num_right_only_a": int(((a > b) & both).sum()),
            "num_right_only_b": int(((b > a) & both).sum()),
        }


def _of_each(**values: Sequence[Any]) -> dict[str, Any]:
    """Columns `<name>_a` and `<name>_b`."""
    return {
        f"{name}_{side}": value
        for name, both in values.items()
        for side, value in zip("ab", both, strict=True)
    }


def _asked(outcomes: Outcomes, condition: str) -> pl.DataFrame:
    """`variant`, `date` and `column` of what one run asked in one condition, without placebo
    copies.
    """
    here = (pl.col("condition") == condition) & (pl.col("replicate") == 0)
    return (
        outcomes.columns.with_row_index("column").filter(here).select("variant", "date", "column")
    )


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


def _again(outcomes: Outcomes, condition: str) -> float | None:
    """Percent of placebo copies whose outcome differs; None without any."""
    num_flips, num_pairs = outcomes.placebo_flips(condition)
    return 100.0 * num_flips / num_pairs if num_pairs else None


def _scores(
    a: Cells, b: Cells, outcomes: Outcomes, dates: list[Any], max_draws: int
) -> dict[str, Any]:
    """The columns about scores, of cells of which both runs have all or neither has any."""
    combine = outcomes.metric.combine
    scores_a, scores_b = (stats.scores_by_date(cells, combine) for cells in (a, b))
    known = np.flatnonzero(~np.isnan(scores_b - scores_a))
    if not known.size:
        return {}
    gaps = scores_b[known] - scores_a[known]
    difference, gaps = float(_paired.rounded(gaps.mean())), _paired.rounded(gaps)
    found: dict[str, Any] = {
        "score_a": float(scores_a[known].mean()),
        "score_b": float(scores_b[known].mean()),
        "difference": difference,
    }
    if dates[0] is not None:
        low, high = int(gaps.argmin()), int(gaps.argmax())
        found |= {"lowest": float(gaps[low]), "lowest_date": dates[known[low]]}
        found |= {"highest": float(gaps[high]), "highest_date": dates[known[high]]}
    if np.count_nonzero(a.present.any(axis=1)) < 2:
        return found
    pairs = _paired.pairs(a, b, combine)
    low_end, high_end = _paired.interval(pairs)
    return found | {
        "low": low_end,
        "high": high_end,
        "p_value": _paired.p_value(pairs, difference, max_draws=max_draws),
    }
