"""Runs of the same tasks, items and variants under other engine settings (batch size, precision,
GPU), side by side.

A run has one engine setting, whose name (`[engine] name`) is a column of its tables. `joined` puts
the scores of several runs into one frame, with what their engines honoured; `variation` says how
much each score changes with the engine alone.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline import metrics
from pipeline.analyses import AXES, BY_VARIANT, CONDITION, SERIES_KEY, SPREAD, spread
from pipeline.core.errors import ConfigError, StoreError, first_few
from pipeline.report import wording
from pipeline.store import Run, differences, read_parquet, replacing, write_parquet

if TYPE_CHECKING:
    from rich.table import Table

FACTS: Mapping[str, tuple[str, str, pl.DataType]] = {
    "backend": ("", "backend", pl.String()),
    "device": ("settings", "device", pl.String()),
    "dtype": ("settings", "dtype", pl.String()),
    "max_num_seqs": ("settings", "max_num_seqs", pl.Int64()),
    "max_num_batched_tokens": ("settings", "max_num_batched_tokens", pl.Int64()),
    "tensor_parallel_size": ("settings", "tensor_parallel_size", pl.Int64()),
    "batch_invariant": ("settings", "batch_invariant", pl.Boolean()),
    "prefix_caching": ("settings", "prefix_caching", pl.Boolean()),
    "gpu": ("hardware", "gpu", pl.String()),
    "processor": ("hardware", "processor", pl.String()),
    "vllm": ("versions", "vllm", pl.String()),
}
"""Column -> part and key of the engine's facts (`engine.VllmEngine.facts`), and its type; null
where an engine does not say."""

_OF_THE_ENGINE = ("dtype", "batch_invariant")
"""Settings of a model file that `[engine]` overrides, so that runs under several of them are what
is to be joined."""
_SHOWN = 12
"""Differences that an error lists; one more line counts the rest."""

_GROUP = [name for name in SERIES_KEY if name != "engine"]
"""What a score is of, whatever engine gave it."""

VARIATION = pl.Schema(
    {name: pl.String() for name in _GROUP}
    | dict(CONDITION)
    | {"num_dates": pl.Int64(), "engines": pl.String()}
    | dict(SPREAD)
)


def joined(folders: Sequence[str | Path]) -> pl.DataFrame:
    """One row for each run, series and variant: `run` (the folder as given), the columns of
    `Evidence.by_variant`, and those of `FACTS`.

    Raises:
        StoreError: a folder is no run or is not analysed; runs of one model have one engine name;
            or they differ in more than the engine.
    """
    runs = [Run.open(folder) for folder in folders]
    _check_same(runs)
    scores = [_scores(run) for run in runs]
    _check_engines(runs, scores)
    return pl.concat(scores).sort(
        *_GROUP, "engine", *AXES, "date", "variant", "replicate", nulls_last=False
    )


def variation(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for each series but for its engine, and condition, for which there are at least two
    engines.

    `frame` is that of `joined`. `engines` names the engines, sorted; the columns of `spread` are
    over their scores, and the `value`s are engine names. Where a condition has dates, each engine's
    score is first averaged over its `num_dates` dates, those without a score left out; where it has
    none, `num_dates` is 0. Placebo copies are left out.
    """
    asked = frame.filter(pl.col("replicate") == 0).sort(*_GROUP, *AXES, "engine", "date")
    groups = asked.partition_by([*_GROUP, "condition"], maintain_order=True)
    rows = [_variation_row(group) for group in groups if group["engine"].n_unique() > 1]
    return pl.DataFrame(rows, schema=VARIATION)


def left_out(frame: pl.DataFrame) -> pl.DataFrame:
    """The first row of each series but for its engine that only one engine scored, and of which
    `variation` therefore says nothing.
    """
    asked = frame.filter(pl.col("replicate") == 0).sort(*_GROUP, "engine", *AXES, "date")
    return asked.filter(pl.col("engine").n_unique().over(_GROUP) == 1).unique(
        _GROUP, keep="first", maintain_order=True
    )


def check_out(out: Path) -> None:
    """Nothing, where `write` can write to a file of the name of `out`.

    Raises:
        ConfigError: it ends neither in `.parquet` nor in `.csv`.
    """
    if out.suffix not in (".parquet", ".csv"):
        raise ConfigError(
            f"--out: given {str(out)!r}; allowed: a file that ends in .parquet or .csv"
        )


def write(frame: pl.DataFrame, out: Path) -> None:
    """Nothing; `frame` is written to `out`, a `.parquet` or `.csv` file, in one rename.

    Raises:
        ConfigError: the file's name ends otherwise.
    """
    check_out(out)
    if out.suffix == ".parquet":
        write_parquet(frame, out)
        return
    with replacing(out) as part:
        frame.write_csv(part, float_precision=6)


def table(frame: pl.DataFrame) -> "Table":
    """The `variation` of a frame of `joined`, for a terminal of 80 columns.

    Its caption says which series are left out.
    """
    from rich.table import Table
    from rich.text import Text

    found, names = variation(frame), wording.Names(frame)
    caption = Text("\n".join(["sd: over engines, with n - 1. cv: sd / mean", *_note(frame, names)]))
    shown = Table(title="Scores across engine settings", caption=caption, pad_edge=False, box=None)
    for heading in ("model", "task", "engines"):
        shown.add_column(heading, overflow="fold")
    for heading in ("mean", "sd", "cv", "worst", "best", "delta"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in found.iter_rows(named=True):
        cv = wording.DASH if row["cv_percent"] is None else f"{row['cv_percent']:.2f}%"
        numbers = {
            name: wording.number(row[name]) for name in ("mean", "sd", "worst", "best", "delta")
        } | {"cv": cv}
        task = names.short(row) + ("" if row["date_format"] else ", no date")
        keys = [Text(row["model"]), Text(task), Text(row["engines"])]
        shown.add_row(
            *keys, *(numbers[name] for name in ("mean", "sd", "cv", "worst", "best", "delta"))
        )
    return shown


def _note(frame: pl.DataFrame, names: wording.Names) -> list[str]:
    """One line that names the series left out, model by model; none where there is none."""
    by_model: dict[str, list[str]] = {}
    for row in left_out(frame).iter_rows(named=True):
        by_model.setdefault(f"{row['model']} under {row['engine']}", []).append(
            names.short(row, with_condition=False)
        )
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
            f"{path} lacks {', '.join(missing)}: an older version wrote it; run `datesweep "
            f"analyse {run.folder}` again"
        )
    facts = [
        {"model": model, **_facts(run.engine_facts(model))}
        for model in scores["model"].unique().sort()
    ]
    schema = {"model": pl.String()} | {name: dtype for name, (_, _, dtype) in FACTS.items()}
    named = scores.match_to_schema(BY_VARIANT, extra_columns="ignore").with_columns(
        run=pl.lit(str(run.folder))
    )
    return named.select("run", *BY_VARIANT).join(
        pl.DataFrame(facts, schema=schema), on="model", how="left", maintain_order="left"
    )


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the columns `FACTS`, None where an engine does not say."""
    found = {
        name: (facts.get(part, {}) if part else facts).get(key)
        for name, (part, key, _) in FACTS.items()
    }
    return {name: None if value == "" else value for name, value in found.items()}


def _check_same(runs: list[Run]) -> None:
    """Raise where two runs differ in what they asked, or in how they asked a model that both have."""
    if len(runs) < 2:
        raise StoreError(f"{len(runs)} run(s) given; joining needs two or more")
    for first, second in itertools.combinations(runs, 2):
        both = {m["name"] for m in _models(first)} & {m["name"] for m in _models(second)}
        if lines := differences(_measured(first, both), _measured(second, both)):
            raise _not_one_sweep(
                first,
                second,
                "These settings differ (was: the first, now: the second):\n  "
                + "\n  ".join(first_few(lines, _SHOWN))
                + "\n",
            )
        if odd := sorted(_variants(first) ^ _variants(second)):
            raise _not_one_sweep(
                first,
                second,
                f"Of their variants {len(odd)} are not in both, the first: {odd[0]}. ",
            )


def _not_one_sweep(first: Run, second: Run, why: str) -> StoreError:
    return StoreError(
        f"{first.folder} and {second.folder} differ in more than the engine, so their "
        f"scores cannot be compared. {why}"
        "Join runs of one sweep that differ in [engine] only"
    )


def _measured(run: Run, models: set[str]) -> dict[str, Any]:
    """What decides the answers of `models` in a run, but for its engine."""
    settings = run.manifest()["settings"]
    return {
        "tasks": settings["tasks"],
        "sweep": {
            key: value
            for key, value in settings["sweep"].items()
            if key not in ("engine", "name", "models")
        },
        "models": {
            m["name"]: {k: v for k, v in m.items() if k not in _OF_THE_ENGINE}
            for m in _models(run)
            if m["name"] in models
        },
        "checkpoints": {
            name: found for name, found in settings["checkpoints"].items() if name in models
        },
    }


def _models(run: Run) -> list[dict[str, Any]]:
    """The settings of each model of a run."""
    return list(run.manifest()["settings"]["sweep"]["models"])


def _variants(run: Run) -> set[str]:
    return set(run.plan_table("variants")["variant"])


def _check_engines(runs: list[Run], scores: list[pl.DataFrame]) -> None:
    """Raise where two runs gave scores of one model under one engine name."""
    seen: dict[tuple[str, str], Run] = {}
    for run, mine in zip(runs, scores, strict=True):
        for model, engine in (
            mine.select("model", "engine").unique().sort("model", "engine").iter_rows()
        ):
            if other := seen.get((model, engine)):
                raise StoreError(
                    f"{other.folder} and {run.folder} both have scores of model {model} "
                    f"under the engine setting {engine!r}. Name the "
                    'setting in each sweep, e.g. `[engine] name = "batch-8"`, and run it '
                    "again under that name"
                )
            seen[model, engine] = run


def _variation_row(group: pl.DataFrame) -> dict[str, Any]:
    """One row of `variation`: the scores of one series and condition, sorted by engine."""
    engines = group["engine"].unique(maintain_order=True).to_list()
    by_engine = [
        group.filter(pl.col("engine") == engine)["score"].drop_nulls().to_numpy()
        for engine in engines
    ]
    scores = np.array([float(known.mean()) if known.size else np.nan for known in by_engine])
    first = group.row(0, named=True)
    return {
        **{name: first[name] for name in [*_GROUP, *CONDITION]},
        "num_dates": group["date"].n_unique() if first["date"] is not None else 0,
        "engines": ", ".join(engines),
        **spread(engines, scores, higher_is_better=metrics.get(first["metric"]).higher_is_better),
    }
