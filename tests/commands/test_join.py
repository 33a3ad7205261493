"""Runs under several engine settings are joined by what they measured, and refused where they
measured different things.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from pipeline import store
from pipeline.commands.join import joined, left_out, table, variation
from pipeline.commands.out_file import write_out
from pipeline.core.errors import ConfigError, StoreError
from tests import synthetic

FACTS = {
    "backend": "vllm",
    "settings": {"device": "gpu", "dtype": "bfloat16", "max_num_seqs": 8, "batch_invariant": False},
    "hardware": {"gpu": "a GPU", "processor": ""},
    "versions": {"vllm": "1.2.3"},
}


SWEEP = {
    "calendar": {"step": 1},
    "conditions": {"wordings": ["none"]},
    "tasks": [{"name": "mmlu", "limit": None}],
}
MODEL = {
    "dtype": "auto",
    "batch_invariant": True,
    "thinking_tokens": 0,
    "sampling": {"temperature": 0.0},
}


def settings_of(folder: Path, *runs: synthetic.Run) -> dict[str, Any]:
    """What a manifest says the results depend on."""
    models = sorted({r.model for r in runs})
    return {
        "sweep": {
            **SWEEP,
            "name": folder.name,
            "engine": {"name": runs[0].engine},
            "models": [{**MODEL, "name": m} for m in models],
        },
        "tasks": {f"{r.task}.{r.style}": {"items_hash": "a", "max_tokens": 1} for r in runs},
        "checkpoints": {m: {"tokenizer.json": "t", "commit": "c"} for m in models},
        "versions": {"datesweep": folder.name},
    }


def changed(folder: Path, path: Sequence[str | int], value: object) -> Path:
    """The run in `folder` after the setting at `path`, its keys and positions, became `value`."""
    run = store.Run(folder)
    settings = run.manifest().settings.model_dump(mode="json")
    node: Any = settings
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    run.write_manifest(synthetic.manifest(settings))
    return folder


def run_in(folder: Path, *runs: synthetic.Run, facts: dict[str, object] | None = None) -> Path:
    """A run folder as the stages leave it, of made-up answers."""
    run, parts = store.Run(folder), synthetic.parts(*runs)
    run.write_manifest(synthetic.manifest(settings_of(folder, *runs)))
    store.write_parquet(parts["variants"], folder / "plan" / "variants.parquet")
    for model in {r.model for r in runs}:
        store.write_json(facts or FACTS, folder / "engines" / f"{model}.json")
    for name, frame in synthetic.tables_of(*runs).items():
        run.write_table(name, frame)
    return folder


def batches(folder: Path, **values: object) -> list[Path]:
    """Runs of one sweep under three batch sizes."""
    folders = []
    for i, size in enumerate((1, 2, 4)):
        facts = FACTS | {"settings": FACTS["settings"] | {"max_num_seqs": size}}  # type: ignore[operator]
        one = synthetic.Run(engine=f"batch-{size}", seed=i, **values)  # type: ignore[arg-type]
        folders.append(run_in(folder / f"b{size}", one, facts=facts))
    return folders


def test_every_score_is_there_once_with_its_engines_facts(tmp_path: Path) -> None:
    folders = batches(tmp_path, num_dates=4, placebo_every=2)
    frame = joined(folders)
    assert frame.height == sum(store.Run(f).tables()["by_date"].height for f in folders)
    assert frame.select("run", "engine", "max_num_seqs").unique().sort("engine").rows() == [
        (str(folder), f"batch-{size}", size)
        for folder, size in zip(folders, (1, 2, 4), strict=True)
    ]
    row = frame.row(0, named=True)
    assert (row["dtype"], row["gpu"], row["processor"], row["batch_invariant"], row["vllm"]) == (
        "bfloat16",
        "a GPU",
        None,
        False,
        "1.2.3",
    )
    assert row["tensor_parallel_size"] is None


def test_the_order_of_the_folders_does_not_matter(tmp_path: Path) -> None:
    folders = batches(tmp_path, num_dates=3)
    assert joined(folders).equals(joined(folders[::-1]))


def test_dated_runs_are_averaged_over_their_dates_before_engines_are_compared(
    tmp_path: Path,
) -> None:
    frame = joined(batches(tmp_path, num_dates=5, placebo_every=1, noise=0.5))
    by_condition = variation(frame).rows_by_key("condition", named=True, unique=True)
    sweep = frame.filter(pl.col("date").is_not_null(), pl.col("replicate") == 0)
    means = sweep.group_by("engine").agg(pl.col("score").mean()).sort("engine")["score"]
    row = by_condition["iso"]
    assert (row["num_values"], row["num_dates"], row["engines"]) == (
        3,
        5,
        "batch-1, batch-2, batch-4",
    )
    assert (row["mean"], row["sd"]) == (pytest.approx(means.mean()), pytest.approx(means.std()))
    assert row["cv_percent"] == pytest.approx(100 * means.std() / means.mean())
    assert (row["worst"], row["best"]) == (pytest.approx(means.min()), pytest.approx(means.max()))
    assert by_condition["control"]["num_dates"] == 0


def test_undated_runs_are_compared_by_their_one_score(tmp_path: Path) -> None:
    frame = joined(batches(tmp_path, num_dates=0))
    row = variation(frame).row(0, named=True)
    assert row["delta"] == pytest.approx(frame["score"].max() - frame["score"].min())
    assert {row["worst_value"], row["best_value"]} <= set(frame["engine"])


def test_a_model_under_one_engine_only_has_no_variation(tmp_path: Path) -> None:
    both = run_in(
        tmp_path / "a",
        synthetic.Run(engine="e1", num_dates=0),
        synthetic.Run(model="other", engine="e1", num_dates=0),
    )
    one = run_in(tmp_path / "b", synthetic.Run(engine="e2", num_dates=0))
    assert variation(joined([both, one]))["model"].to_list() == ["m"]


def test_two_runs_of_a_model_under_one_engine_name_are_refused(tmp_path: Path) -> None:
    first, second = (run_in(tmp_path / name, synthetic.Run(num_dates=0)) for name in "ab")
    with pytest.raises(
        StoreError,
        match=r"both have scores of model m under the engine setting 'default'.*\[engine\] name",
    ):
        joined([first, second])
    with pytest.raises(StoreError, match="engine setting 'default'"):
        joined([first, first])


def test_two_models_may_share_an_engine_name(tmp_path: Path) -> None:
    folders = [
        run_in(tmp_path / model, synthetic.Run(model=model, num_dates=0)) for model in ("m", "n")
    ]
    assert joined(folders)["model"].to_list() == ["m", "n"]


def test_runs_of_other_items_are_refused(tmp_path: Path) -> None:
    first = run_in(tmp_path / "a", synthetic.Run(engine="e1", num_dates=0))
    second = changed(
        run_in(tmp_path / "b", synthetic.Run(engine="e2", num_dates=0)),
        ["tasks", "mmlu.zero_shot", "items_hash"],
        "b",
    )
    with pytest.raises(
        StoreError,
        match=r'tasks.mmlu.zero_shot.items_hash: was "a", now "b"\n.*Join runs of one sweep',
    ):
        joined([first, second])


def test_runs_of_other_tasks_are_refused(tmp_path: Path) -> None:
    first = run_in(tmp_path / "a", synthetic.Run(engine="e1", num_dates=0))
    second = run_in(
        tmp_path / "b",
        synthetic.Run(engine="e2", num_dates=0),
        synthetic.Run(engine="e2", task="gsm8k", num_dates=0),
    )
    with pytest.raises(StoreError, match=r"tasks.gsm8k.zero_shot: was null"):
        joined([first, second])


def test_runs_of_other_dates_are_refused(tmp_path: Path) -> None:
    first = run_in(tmp_path / "a", synthetic.Run(engine="e1", num_dates=2))
    second = run_in(tmp_path / "b", synthetic.Run(engine="e2", num_dates=3))
    with pytest.raises(StoreError, match=r"variants 1 are not in both, the first: iso:2024-01-03"):
        joined([first, second])


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            ["tasks", "mmlu.zero_shot", "max_tokens"],
            64,
            "tasks.mmlu.zero_shot.max_tokens: was 1, now 64",
        ),
        (["sweep", "tasks", 0, "limit"], 3, "sweep.tasks.0.limit: was null, now 3"),
        (["sweep", "calendar", "step"], 7, "sweep.calendar.step: was 1, now 7"),
        (["sweep", "models", 0, "thinking_tokens"], 9, "models.m.thinking_tokens: was 0, now 9"),
        (
            ["sweep", "models", 0, "sampling", "temperature"],
            0.7,
            "models.m.sampling.temperature: was 0.0, now 0.7",
        ),
        (["checkpoints", "m", "commit"], "d", 'checkpoints.m.commit: was "c", now "d"'),
    ],
)
def test_runs_that_differ_in_more_than_the_engine_are_refused(
    tmp_path: Path, path: list[str | int], value: object, said: str
) -> None:
    folders = batches(tmp_path, num_dates=0)
    changed(folders[2], path, value)
    with pytest.raises(
        StoreError, match=rf"(?s)b1 and .*b4 differ in more than the engine.*{said}"
    ):
        joined(folders)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["sweep", "name"], "another"),
        (["sweep", "engine"], {"dtype": "float16"}),
        (["sweep", "models", 0, "dtype"], "float16"),
        (["sweep", "models", 0, "batch_invariant"], False),
        (["versions", "datesweep"], "9"),
    ],
)
def test_what_the_engine_settings_decide_may_differ(
    tmp_path: Path, path: list[str | int], value: object
) -> None:
    folders = batches(tmp_path, num_dates=0)
    assert joined([folders[0], changed(folders[1], path, value)]).height


def test_a_model_is_compared_among_the_runs_that_have_it(tmp_path: Path) -> None:
    first = run_in(tmp_path / "a", synthetic.Run(engine="e1", num_dates=0))
    others = [
        run_in(
            tmp_path / e,
            synthetic.Run(engine=e, num_dates=0),
            synthetic.Run(model="n", engine=e, num_dates=0),
        )
        for e in ("e2", "e3")
    ]
    assert joined([first, *others]).height
    changed(others[1], ["sweep", "models", 1, "thinking_tokens"], 5)
    assert joined([first, others[1]]).height, "the first run lacks that model"
    with pytest.raises(StoreError, match=r"(?s)e2 and .*e3 differ.*models.n.thinking_tokens"):
        joined([first, *others])


def test_the_table_names_the_series_that_only_one_engine_scored(tmp_path: Path) -> None:
    x, y = ({"engine": "e1", "num_dates": 1, "model": model} for model in ("x", "y[red]"))
    both = run_in(tmp_path / "a", synthetic.Run(**x), synthetic.Run(**y))  # type: ignore[arg-type]
    one = run_in(tmp_path / "b", synthetic.Run(**x | {"engine": "e2"}))  # type: ignore[arg-type]
    frame = joined([both, one])
    assert left_out(frame).select("model", "engine", "task", "metric").rows() == [
        ("y[red]", "e1", "mmlu", "accuracy")
    ]
    assert "left out, scored under one engine only: y[red] under e1 (mmlu)" in printed(frame)
    assert "left out" not in printed(frame.filter(pl.col("model") == "x"))


def test_a_run_that_is_not_analysed_is_refused(tmp_path: Path) -> None:
    folders = batches(tmp_path, num_dates=0)
    (folders[1] / "tables" / "by_date.parquet").unlink()
    with pytest.raises(StoreError, match=r"not analysed yet; run `datesweep analyse .*b2`"):
        joined(folders)


def test_tables_of_an_older_version_are_refused(tmp_path: Path) -> None:
    folders = batches(tmp_path, num_dates=0)
    run = store.Run(folders[0])
    run.write_table("by_date", run.tables()["by_date"].drop("placement", "wording"))
    with pytest.raises(StoreError, match=r"lacks placement, wording: .*datesweep analyse"):
        joined(folders)


@pytest.mark.parametrize("count", [0, 1])
def test_joining_needs_two_runs(tmp_path: Path, count: int) -> None:
    with pytest.raises(StoreError, match=rf"{count} run\(s\) given"):
        joined(batches(tmp_path, num_dates=0)[:count])


@pytest.mark.parametrize(("name", "read"), [("x.parquet", pl.read_parquet), ("x.csv", pl.read_csv)])
def test_the_joined_scores_are_written_as_the_name_says(
    tmp_path: Path, name: str, read: object
) -> None:
    frame = joined(batches(tmp_path, num_dates=2))
    write_out(frame, tmp_path / "out" / name)
    again = read(tmp_path / "out" / name)  # type: ignore[operator]
    assert again.columns == frame.columns
    assert again["score"].to_list() == pytest.approx(frame["score"].to_list(), abs=1e-6)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x\.xlsx.*\.parquet or \.csv"):
        write_out(pl.DataFrame(), tmp_path / "x.xlsx")


def printed(frame: pl.DataFrame) -> str:
    """The table as a terminal of 80 columns shows it."""
    console = Console(width=80, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - rich keeps it open
    console.print(table(frame))
    return console.export_text()


def test_the_terminal_table_fits_80_columns_and_has_every_row(tmp_path: Path) -> None:
    frame = joined(
        batches(tmp_path, model="model[red]-of-some-size", num_dates=2, metrics=("accuracy", "ece"))
    )
    text = printed(frame)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "model[red]" in text
    for row in variation(frame).iter_rows(named=True):
        assert f"{row['cv_percent']:.2f}%" in text
