"""Two runs become a table of differences, and notes on what is not compared."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.analyses import AXES, Evidence, Outcomes, evidence_of_run, stats
from pipeline.commands.compare._match import SCHEMA, SERIES, SIDES, Match
from pipeline.commands.compare._notes import left_out, nothing_common, other_settings
from pipeline.commands.compare._paired import DRAWS_PER_TEST, NUM_DRAWS
from pipeline.core.errors import ConfigError, StoreError, nearest
from pipeline.store import Place, Run

Series = dict[tuple[str, ...], Outcomes]
"""Outcomes by task, style and metric."""


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
        ConfigError: one of `pairs` cannot be used.
        StoreError: a folder is no run or is not scored, or the runs have nothing in common; the
            message names what each has.
    """
    names = [_names_of_pair(pair) for pair in pairs]
    runs = (Run.open(run_a), Run.open(run_b))
    a, b = map(evidence_of_run, runs)
    comparison = compare_evidence(a, b, names, names=(str(run_a), str(run_b)))
    settings = other_settings(runs, comparison.rows)
    return dataclasses.replace(comparison, notes=[*comparison.notes, *settings])


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
    matches = list(_matches(a, b, pairs))
    asked = [(match, condition) for match in matches for condition in match.conditions()]
    if not asked:
        raise StoreError(nothing_common(a, b, names))
    max_draws = max(NUM_DRAWS, int(DRAWS_PER_TEST * len(asked)))
    rows = pl.DataFrame([m.row(condition, max_draws) for m, condition in asked], schema=SCHEMA)
    corrected = stats.holm(rows["p_value"].fill_null(np.nan).to_numpy())
    rows = rows.with_columns(p_value_holm=pl.Series(corrected).fill_nan(None))
    rows = rows.sort(*SIDES, *SERIES, *AXES, nulls_last=False)
    return Comparison(rows=rows, notes=left_out(a, b, rows), names=names)


def _names_of_pair(pair: str) -> tuple[str, str]:
    model_a, _, model_b = pair.partition("=")
    if not model_a or not model_b or "=" in model_b:
        raise ConfigError(
            f"--pair: given {pair!r}; allowed: MODEL_OF_A=MODEL_OF_B, a model of each run"
        )
    return model_a, model_b


def _matches(a: Evidence, b: Evidence, pairs: Sequence[tuple[str, str]]) -> Iterator[Match]:
    """Every series that both runs have, model by model."""
    models_a, models_b = _by_model(a), _by_model(b)
    for model_a, model_b in pairs:
        _check_model("RUN_A", model_a, sorted(models_a))
        _check_model("RUN_B", model_b, sorted(models_b))
    changed = _changed_items(a.items, b.items)
    for model_a, model_b in pairs or _common_or_single(models_a, models_b):
        engines_a, engines_b = models_a[model_a], models_b[model_b]
        for engine_a, engine_b in _common_or_single(engines_a, engines_b):
            in_a, in_b = engines_a[engine_a], engines_b[engine_b]
            for series in sorted(in_a.keys() & in_b.keys()):
                yield Match(in_a[series], in_b[series], changed.get(series[0], set()))


def _by_model(evidence: Evidence) -> dict[str, dict[str, Series]]:
    """The series of each engine of each model."""
    models: dict[str, dict[str, Series]] = {}
    for outcomes in evidence.outcomes():
        engines = models.setdefault(outcomes.series["model"], {})
        series = tuple(outcomes.series[name] for name in SERIES)
        engines.setdefault(outcomes.series["engine"], {})[series] = outcomes
    return models


def _check_model(run: str, model: str, models: list[str]) -> None:
    if model not in models:
        raise ConfigError(
            f"--pair: given MODEL_OF_A=MODEL_OF_B with the model {model!r}, which {run} has not; "
            f"it has: {', '.join(models)}{nearest(model, models)}"
        )


def _common_or_single(a: Iterable[str], b: Iterable[str]) -> list[tuple[str, str]]:
    """Names that both have, each with itself; without any, the two single ones together."""
    names_a, names_b = sorted(a), sorted(b)
    common = [(name, name) for name in names_a if name in names_b]
    return common or ([(names_a[0], names_b[0])] if len(names_a) == len(names_b) == 1 else [])


def _changed_items(a: pl.DataFrame, b: pl.DataFrame) -> dict[str, set[str]]:
    """Ids by task of the items that ask one thing in `a` and another in `b`."""
    both = a.join(b, on=["task", "item_id"], suffix="_b")
    parts = ("fields", "options", "target", "references")
    is_same = pl.all_horizontal(pl.col(name) == pl.col(f"{name}_b") for name in parts)
    changed: dict[str, set[str]] = {}
    for task, item in both.filter(~is_same).select("task", "item_id").iter_rows():
        changed.setdefault(task, set()).add(item)
    return changed
