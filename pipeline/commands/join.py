"""Runs of the same tasks, items and variants under other engine settings, side by side.

A run has one engine setting (batch size, precision, GPU), whose name (`[engine] name`) is a column
of its tables. `joined` puts the scores of several runs into one frame, with what their engines
honoured; `variation` says how much each score changes with the engine alone.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline import metrics
from pipeline.analyses import AXES, BY_VARIANT, CONDITION, SERIES_KEY, SPREAD, mean_score, spread
from pipeline.core.errors import StoreError, first_few
from pipeline.report import Lines, wording
from pipeline.store import Run, differences, read_parquet

if TYPE_CHECKING:
    from rich.table import Table

FACTS = pl.Schema(
    dict.fromkeys(("backend", "device", "dtype"), pl.String())
    | dict.fromkeys(("max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size"), pl.Int64())
    | dict.fromkeys(("batch_invariant", "prefix_caching"), pl.Boolean())
    | dict.fromkeys(("gpu", "processor", "vllm"), pl.String())
)
"""What an engine says of itself, and its types; null where it does not say."""

_OF_THE_ENGINE = ("dtype", "batch_invariant")
"""Settings of a model file that `[engine]` overrides, so that runs under several of them are what
is to be joined."""
_SHOWN = 12
"""Differences that an error lists; one more line counts the rest."""

_GROUP = [name for name in SERIES_KEY if name != "engine"]
"""What a score is of, whatever engine gave it."""

VARIATION = pl.Schema(
    dict.fromkeys(_GROUP, pl.String())
    | CONDITION
    | {"num_dates": pl.Int64(), "engines": pl.String()}
    | SPREAD
)


def joined(folders: Sequence[str | Path]) -> pl.DataFrame:
    """One row for each run, series and variant.

    Columns are `run` (the folder as given), those of `Evidence.by_variant`, and those of `FACTS`.

    Raises:
        StoreError: a folder is no run or is not analysed; runs of one model have one engine name;
            or they differ in more than the engine.
    """
    runs = [Run.open(folder) for folder in folders]
    _check_same(runs)
    scores = [_scores(run) for run in runs]
    _check_engines(runs, scores)
    order = [*_GROUP, "engine", *AXES, "date", "variant", "replicate"]
    return pl.concat(scores).sort(order, nulls_last=False)


def variation(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for each series but for its engine, and condition, that several engines scored.

    `frame` is that of `joined`. `engines` names the engines, sorted; the columns of `spread` are
    over their scores, and the `value`s are engine names. Where a condition has dates, each engine's
    score is first averaged over its `num_dates` dates, those without a score left out; where it has
    none, `num_dates` is 0. Placebo copies are left out.
    """
    asked = frame.filter(replicate=0).sort(*_GROUP, *AXES, "engine", "date")
    groups = asked.partition_by([*_GROUP, "condition"], maintain_order=True)
    rows = [_variation_row(group) for group in groups if group["engine"].n_unique() > 1]
    return pl.DataFrame(rows, schema=VARIATION)


def _variation_row(group: pl.DataFrame) -> dict[str, Any]:
    """One row of `variation`: the scores of one series and condition, sorted by engine."""
    first = group.row(0, named=True)
    by_engine = group.partition_by("engine", maintain_order=True)
    engines = [scores["engine"][0] for scores in by_engine]
    means = np.array([mean_score(scores["score"]) for scores in by_engine])
    higher_is_better = metrics.get(first["metric"]).higher_is_better
    return {
        **{name: first[name] for name in [*_GROUP, *CONDITION]},
        "num_dates": group["date"].n_unique() if first["date"] is not None else 0,
        "engines": ", ".join(engines),
        **spread(engines, means, higher_is_better=higher_is_better),
    }


def left_out(frame: pl.DataFrame) -> pl.DataFrame:
    """The first row of each series but for its engine that only one engine scored.

    `variation` says nothing of them.
    """
    asked = frame.filter(replicate=0).sort(*_GROUP, "engine", *AXES, "date")
    lonely = asked.filter(pl.col("engine").n_unique().over(_GROUP) == 1)
    return lonely.unique(_GROUP, keep="first", maintain_order=True)


def table(frame: pl.DataFrame) -> "Table":
    """The `variation` of a frame of `joined`, for a terminal of 80 columns.

    Its caption says which series are left out.
    """
    from rich.text import Text

    names = wording.Names(frame)
    caption = "\n".join(["sd: over engines, with n - 1. cv: sd / mean", *_note(frame, names)])
    lines = Lines(
        "Scores across engine settings",
        ["task", "engines"],
        ["mean", "sd", "cv", "worst", "best", "delta"],
        caption=Text(caption),
    )
    for row in variation(frame).iter_rows(named=True):
        task = names.short(row) + ("" if row["date_format"] else ", no date")
        mean, sd, *ends = (wording.number(row[n]) for n in ("mean", "sd", "worst", "best", "delta"))
        numbers = [mean, sd, wording.percent(row["cv_percent"], 2), *ends]
        lines.add(row["model"], [task, row["engines"]], numbers)
    return lines.table


def _note(frame: pl.DataFrame, names: wording.Names) -> list[str]:
    """One line that names the series left out, model by model; none where there is none."""
    by_model: dict[str, list[str]] = {}
    for row in left_out(frame).iter_rows(named=True):
        series = by_model.setdefault(f"{row['model']} under {row['engine']}", [])
        series.append(names.short(row, with_condition=False))
    listed = "; ".join(f"{model} ({', '.join(series)})" for model, series in by_model.items())
    return [f"left out, scored under one engine only: {listed}"] if by_model else []


def _scores(run: Run) -> pl.DataFrame:
    """Scores of one run, with the facts of its engines."""
    path = run.folder / "tables" / "by_date.parquet"
    if not path.is_file():
        raise StoreError(
            f"{run.folder} is not analysed yet; run `datesweep analyse {run.folder}` first"
        )
    scores = read_parquet(path)
    if missing := [name for name in BY_VARIANT if name not in scores.columns]:
        raise StoreError(
            f"{path} lacks {', '.join(missing)}: an older version wrote it; run `datesweep analyse "
            f"{run.folder}` again"
        )
    facts = [{"model": model, **_facts(run, model)} for model in scores["model"].unique().sort()]
    scores = scores.match_to_schema(BY_VARIANT, extra_columns="ignore")
    named = scores.select(pl.lit(str(run.folder)).alias("run"), *BY_VARIANT)
    described = pl.DataFrame(facts, schema={"model": pl.String(), **FACTS})
    return named.join(described, on="model", how="left", maintain_order="left")


def _facts(run: Run, model: str) -> dict[str, Any]:
    """Values of the columns `FACTS`, None where an engine does not say."""
    facts = run.engine_facts(model)
    if not facts:
        return {}
    said = {**facts.versions, **facts.hardware, **facts.settings, "backend": facts.backend}
    return {name: None if said.get(name) == "" else said.get(name) for name in FACTS}


def _check_same(runs: list[Run]) -> None:
    """Raise where two runs differ in what they asked, or in how they asked a model of both."""
    if len(runs) < 2:
        raise StoreError(f"{len(runs)} run(s) given; joining needs two or more")
    for first, second in itertools.combinations(runs, 2):
        common = _models(first).keys() & _models(second).keys()
        if lines := differences(_measured(first, common), _measured(second, common)):
            listed = "\n  ".join(first_few(lines, _SHOWN))
            why = f"These settings differ (was: the first, now: the second):\n  {listed}\n"
        elif odd := sorted(_variants(first) ^ _variants(second)):
            why = f"Of their variants {len(odd)} are not in both, the first: {odd[0]}. "
        else:
            continue
        raise StoreError(
            f"{first.folder} and {second.folder} differ in more than the engine, so their scores "
            f"cannot be compared. {why}Join runs of one sweep that differ in [engine] only"
        )


def _measured(run: Run, models: set[str]) -> dict[str, Any]:
    """What decides the answers of `models` in a run, but for its engine."""
    settings = run.manifest().settings.model_dump(mode="json")
    shared = {k: v for k, v in settings["sweep"].items() if k not in ("engine", "name", "models")}
    return {
        "tasks": settings["tasks"],
        "sweep": shared,
        "models": {
            name: {key: value for key, value in model.items() if key not in _OF_THE_ENGINE}
            for name, model in _models(run).items()
            if name in models
        },
        "checkpoints": {k: v for k, v in settings["checkpoints"].items() if k in models},
    }


def _models(run: Run) -> dict[str, dict[str, Any]]:
    """The settings of each model of a run."""
    return {model["name"]: model for model in run.manifest().settings.sweep["models"]}


def _variants(run: Run) -> set[str]:
    return set(run.plan_table("variants")["variant"])


def _check_engines(runs: list[Run], scores: list[pl.DataFrame]) -> None:
    """Raise where two runs gave scores of one model under one engine name."""
    seen: dict[tuple[str, str], Run] = {}
    for run, frame in zip(runs, scores, strict=True):
        pairs = frame.select("model", "engine").unique().sort("model", "engine")
        for model, engine in pairs.iter_rows():
            if other := seen.get((model, engine)):
                raise StoreError(
                    f"{other.folder} and {run.folder} both have scores of model {model} under the "
                    f"engine setting {engine!r}. Name the setting in each sweep, e.g. `[engine] "
                    'name = "batch-8"`, and run it again under that name'
                )
            seen[model, engine] = run
