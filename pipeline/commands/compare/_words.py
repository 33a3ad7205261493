"""What a comparison says beside its numbers: the table for a terminal, what was left out, in which
settings the runs differ.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from pipeline.analyses import SERIES_KEY, Evidence
from pipeline.core.errors import first_few
from pipeline.report import wording
from pipeline.store import Run, differences

if TYPE_CHECKING:
    from rich.table import Table

    from pipeline.commands.compare import Comparison

_SHOWN = 8
"""Lines, or names, of one kind that are listed; what is beyond them is counted."""

_CAPTION = (
    "95%: where B - A would lie with other items, on the same dates.",
    "p: of as large a difference when A and B swap at random within items, corrected for "
    "the number of rows.",
    "flips: outcomes right in B only (+), in A only (-); of graded answers, those that are "
    "not the same.",
    "again: outcomes that change when a run asks the same prompt again; the larger of the two.",
)


def nothing_common(a: Evidence, b: Evidence, names: tuple[str, str]) -> str:
    """The message for runs without a common key: what each has, and what can be done."""
    has = [
        f"\n  {name} has: {_contents(evidence)}"
        for name, evidence in zip(names, (a, b), strict=True)
    ]
    return (
        f"{names[0]} and {names[1]} have nothing in common to compare.{''.join(has)}\n"
        "Runs are joined by model, task, style, metric, item and date. --pair "
        "MODEL_OF_A=MODEL_OF_B pairs models of other names"
    )


def _contents(evidence: Evidence) -> str:
    """The keys of one run, in short."""
    found = evidence.by_variant.unique([*SERIES_KEY, "condition"]).sort(*SERIES_KEY, "condition")
    models = found["model"].unique().sort().to_list()
    conditions = found["condition"].unique().sort().to_list()
    series = [
        _named(row)
        for row in found.select("task", "style", "metric")
        .unique(maintain_order=True)
        .iter_rows(named=True)
    ]
    days = evidence.by_variant["date"].drop_nulls().unique().sort()
    dates = f"{days.len()} dates, {days[0]} to {days[-1]}" if days.len() else "no dates"
    items = evidence.items["item_id"].sort().to_list()
    return (
        f"models {_listed(models)}; {_listed(series)}; conditions {_listed(conditions)}; "
        f"{dates}; items {_listed(items, 3)}"
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
            lines.append(
                f"left out, {where.format(**row)}: {in_a:,} {what} only in A, {in_b:,} only in B"
                if in_a or in_b
                else ""
            )
    changed = rows.filter(pl.col("num_items_changed") > 0)
    lines += [
        f"left out, {r['task']}: {r['num_items_changed']:,} items that ask something else in B"
        for r in changed.iter_rows(named=True)
    ]
    return _limited(lines)


def _only(side: str, evidence: Evidence, rows: pl.DataFrame) -> str:
    """The series and conditions of one run that stand in no row; empty where there are none."""
    key = ["model", "task", "style", "metric", "condition"]
    mine = evidence.by_variant.select(key).unique().sort(key)
    lonely = mine.join(
        rows.rename({f"model_{side.lower()}": "model"}), on=key, how="anti", maintain_order="left"
    )
    named = [
        f"{row['model']} {_named(row)}, {row['condition']}" for row in lonely.iter_rows(named=True)
    ]
    return f"left out, only in {side}: {_listed(named, 3, '; ')}" if named else ""


def other_settings(runs: tuple[Run, Run], rows: pl.DataFrame) -> list[str]:
    """One line for each setting in which the runs of a pair of models differ, scoring first."""
    a, b = (_scored_as(run) for run in runs)
    lines = [
        f"{name}: A is scored as {a[name]}, B as {b[name]}"
        for name in a
        if name in b and a[name] != b[name]
    ]
    for model_a, model_b in (
        rows.select("model_a", "model_b").unique(maintain_order=True).iter_rows()
    ):
        lines += differences(_settings(runs[0], model_a), _settings(runs[1], model_b))
    return _limited(
        line.replace(": was ", ": A has ", 1).replace(", now ", ", B ", 1) for line in lines
    )


def _scored_as(run: Run) -> dict[str, str]:
    """The metric's signature, and the version of the task's extraction, under which each series of
    a run was scored.
    """
    key, scores = ["task", "style", "metric"], run.scores()
    noted = {*scores.collect_schema().names()}
    # Older versions noted neither.
    how = [
        pl.col(n).cast(pl.String) if n in noted else pl.lit("unknown").alias(n)
        for n in ("signature", "extraction_version")
    ]
    found = scores.select(*key, *how).unique().collect(engine="streaming").sort(pl.all())
    said: dict[str, list[str]] = {}
    for row in found.iter_rows(named=True):
        said.setdefault(_named(row), []).append(
            f"{row['signature']} (extraction {row['extraction_version']})"
        )
    return {name: " and ".join(each) for name, each in said.items()}


def _settings(run: Run, model: str) -> dict[str, Any]:
    """What decides the answers of `model` in a run, engine and versions included."""
    settings = run.manifest()["settings"]
    sweep = {
        key: value for key, value in settings["sweep"].items() if key not in ("name", "models")
    }
    spec = next((dict(m) for m in settings["sweep"]["models"] if m["name"] == model), {})
    rest = {key: value for key, value in settings.items() if key not in ("sweep", "checkpoints")}
    return {
        "engine": run.engine_facts(model),
        "model": spec,
        "checkpoint": settings["checkpoints"].get(model),
        "sweep": sweep,
        **rest,
    }


def _named(row: dict[str, Any]) -> str:
    return f"{row['task']}.{row['style']} {row['metric']}"


def _listed(names: Sequence[str], shown: int = _SHOWN, between: str = ", ") -> str:
    return between.join(first_few(names, shown))


def _limited(lines: Iterable[str]) -> list[str]:
    """The first few of the distinct lines that say something, and how many more there are."""
    distinct = list(dict.fromkeys(filter(None, lines)))
    return first_few(distinct, _SHOWN, "more such lines")


def table_of(comparison: "Comparison") -> "Table":
    """The rows of a comparison for a terminal.

    The caption names the runs, what was left out, and the settings that differ.
    """
    from rich.table import Table
    from rich.text import Text

    rows = comparison.rows
    has_models = rows.select("model_a", "model_b").unique().height > 1
    names = wording.Names(rows.with_columns(model=pl.col("model_a"), engine=pl.col("engine_a")))
    caption = "\n".join(
        [f"A: {comparison.names[0]}", f"B: {comparison.names[1]}", *_CAPTION, *comparison.notes]
    )
    title = "B minus A" if has_models else f"B minus A: {_models(rows.row(0, named=True))}"
    table = Table(
        title=Text(title), caption=Text(caption), caption_justify="left", pad_edge=False, box=None
    )
    for heading in [*(["model"] if has_models else []), "task"]:
        table.add_column(heading, overflow="fold")
    for heading in ("A", "B", "B - A", "95%", "p", "flips", "again"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows.iter_rows(named=True):
        task = names.short(row) + ("" if row["num_dates"] else ", no date")
        keys = [_models(row), task] if has_models else [task]
        table.add_row(*map(Text, keys), *_numbers(row))
    return table


def _models(row: dict[str, Any]) -> str:
    """The model, or the two of a pair."""
    return (
        str(row["model_a"])
        if row["model_a"] == row["model_b"]
        else f"{row['model_a']} and {row['model_b']}"
    )


def _numbers(row: dict[str, Any]) -> list[str]:
    """The cells of one row of the table."""
    ends = (
        wording.DASH
        if row["low"] is None
        else f"{wording.number(row['low'])} to {wording.number(row['high'])}"
    )
    scores = [wording.number(row[name]) for name in ("score_a", "score_b", "difference")]
    gained, lost = row["num_right_only_b"], row["num_right_only_a"]
    flips = _count(row["num_differing"]) if gained is None else f"+{_count(gained)} -{_count(lost)}"
    known = [share for side in "ab" if (share := row[f"placebo_flip_percent_{side}"]) is not None]
    return [
        *scores,
        ends,
        wording.p_value(row["p_value_holm"]),
        flips,
        wording.percent(max(known, default=None)),
    ]


def _count(value: int) -> str:
    """`value` in at most five characters, up to hundreds of millions."""
    return (
        f"{value:,}"
        if value < 10_000
        else f"{value / 1e3:.0f}k"
        if value < 999_500
        else f"{value / 1e6:.2f}M"
    )
