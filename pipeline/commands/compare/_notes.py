"""What a comparison says of the rest: what was left out, in which settings the runs differ."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from pipeline.analyses import SERIES_KEY, Evidence
from pipeline.core.errors import first_few
from pipeline.store import Run, differences

_SHOWN = 8
"""Lines, or names, of one kind that are listed; what is beyond them is counted."""
_SERIES = ["task", "style", "metric"]


def nothing_common(a: Evidence, b: Evidence, names: tuple[str, str]) -> str:
    """The message for runs without a common key: what each has, and what can be done."""
    return (
        f"{names[0]} and {names[1]} have nothing in common to compare.\n"
        f"  {names[0]} has: {_contents(a)}\n  {names[1]} has: {_contents(b)}\n"
        "Runs are joined by model, task, style, metric, item and date. --pair "
        "MODEL_OF_A=MODEL_OF_B pairs models of other names"
    )


def _contents(evidence: Evidence) -> str:
    """The keys of one run, in short."""
    scores = evidence.by_variant.sort(*SERIES_KEY, "condition")
    models = scores["model"].unique().sort().to_list()
    conditions = scores["condition"].unique().sort().to_list()
    series = scores.select(_SERIES).unique(maintain_order=True)
    days = scores["date"].drop_nulls().unique().sort()
    dates = f"{days.len()} dates, {days[0]} to {days[-1]}" if days.len() else "no dates"
    items = evidence.items["item_id"].sort().to_list()
    return (
        f"models {_listed(models)}; {_listed([_named(row) for row in series.rows(named=True)])}; "
        f"conditions {_listed(conditions)}; {dates}; items {_listed(items, 3)}"
    )


def left_out(a: Evidence, b: Evidence, rows: pl.DataFrame) -> list[str]:
    """One line for each kind of thing that had no partner; empty where everything had one."""
    lines = [_only("A", a, rows), _only("B", b, rows)]
    for what, where in (
        ("items", "{task}.{style}"),
        ("dates", "{condition}"),
        ("outcomes", "{task}.{style}, {condition}"),
    ):
        for row in rows.iter_rows(named=True):
            in_a, in_b = row[f"num_{what}_only_a"], row[f"num_{what}_only_b"]
            if in_a or in_b:
                only = f"{in_a:,} {what} only in A, {in_b:,} only in B"
                lines.append(f"left out, {where.format(**row)}: {only}")
    lines += [
        f"left out, {r['task']}: {r['num_items_changed']:,} items that ask something else in B"
        for r in rows.iter_rows(named=True)
        if r["num_items_changed"]
    ]
    return _limited(lines)


def _only(side: str, evidence: Evidence, rows: pl.DataFrame) -> str:
    """The series and conditions of one run that stand in no row; empty where there are none."""
    key = ["model", *_SERIES, "condition"]
    scored = evidence.by_variant.select(key).unique().sort(key)
    compared = rows.rename({f"model_{side.lower()}": "model"})
    lonely = scored.join(compared, on=key, how="anti", maintain_order="left").rows(named=True)
    names = [f"{row['model']} {_named(row)}, {row['condition']}" for row in lonely]
    return f"left out, only in {side}: {_listed(names, 3, '; ')}" if names else ""


def other_settings(runs: tuple[Run, Run], rows: pl.DataFrame) -> list[str]:
    """One line for each setting in which the runs of a pair of models differ, scoring first."""
    a, b = map(_signatures, runs)
    lines = [
        f"{name}: A is scored as {a[name]}, B as {b[name]}"
        for name in a
        if name in b and a[name] != b[name]
    ]
    pairs = rows.select("model_a", "model_b").unique(maintain_order=True)
    for model_a, model_b in pairs.iter_rows():
        differing = differences(_settings(runs[0], model_a), _settings(runs[1], model_b))
        lines += [
            line.replace(": was ", ": A has ", 1).replace(", now ", ", B ", 1) for line in differing
        ]
    return _limited(lines)


def _signatures(run: Run) -> dict[str, str]:
    """For each series, the metric's signature and the version of the task's extraction."""
    scores = run.scores()
    noted = scores.collect_schema().names()
    columns = ("signature", "extraction_version")  # which older versions did not note
    how = [
        pl.col(name).cast(pl.String) if name in noted else pl.lit("unknown").alias(name)
        for name in columns
    ]
    distinct = scores.select(*_SERIES, *how).unique().collect(engine="streaming").sort(pl.all())
    signatures: dict[str, list[str]] = {}
    for row in distinct.iter_rows(named=True):
        signature = f"{row['signature']} (extraction {row['extraction_version']})"
        signatures.setdefault(_named(row), []).append(signature)
    return {name: " and ".join(each) for name, each in signatures.items()}


def _settings(run: Run, model: str) -> dict[str, Any]:
    """What decides the answers of `model` in a run, engine and versions included."""
    settings = run.manifest().settings.model_dump(mode="json")
    sweep = settings["sweep"]
    rest = {key: value for key, value in settings.items() if key not in ("sweep", "checkpoints")}
    return {
        "engine": facts.as_json() if (facts := run.engine_facts(model)) else {},
        "model": next((dict(m) for m in sweep["models"] if m["name"] == model), {}),
        "checkpoint": settings["checkpoints"].get(model),
        "sweep": {key: value for key, value in sweep.items() if key not in ("name", "models")},
        **rest,
    }


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['task']}.{row['style']} {row['metric']}"


def _listed(names: Sequence[str], shown: int = _SHOWN, between: str = ", ") -> str:
    return between.join(first_few(names, shown))


def _limited(lines: Iterable[str]) -> list[str]:
    """The first few of the distinct lines that say something, and how many more there are."""
    distinct = list(dict.fromkeys(filter(None, lines)))
    return first_few(distinct, _SHOWN, "more such lines")
