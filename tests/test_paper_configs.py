"""The paper's reported values and the sweeps of its experiments, typed in faithfully."""

import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pipeline import settings, tasks
from pipeline.core import registry
from pipeline.core.conditions import LOCATIONS, WORDINGS

CONFIGS = Path(__file__).parent.parent / "configs"
load_sweep = functools.cache(settings.load_sweep)
REPORTED: dict[str, dict[str, Any]] = tomllib.loads(
    (CONFIGS / "paper" / "reported.toml").read_text()
)
SIZES = ("paper-size", "full-size")
EXPERIMENTS = sorted(
    {p.stem for size in SIZES for p in (CONFIGS / "sweeps" / "paper" / size).glob("*.toml")}
)
SWEEPS = [f"paper/{size}/{name}" for size in SIZES for name in EXPERIMENTS]
DATED = {
    "figure4-cot",
    "native-gpt-oss",
    "native-llama",
    "table1-mcqa",
    "table2-open-ended",
    "table4-five-shot",
    "table5-date",
}

ITEMS = {
    "mmlu": 14042,
    "gpqa_diamond": 198,
    "arc_challenge": 1172,
    "gsm8k": 1319,
    "humaneval": 164,
    "wmt16_en_de": 2999,
    "wmt16_en_fi": 6000,
    "wmt14_en_cs": 3003,
}
"""Items of the paper's data sets, as it states them."""
SUBSETS = {"mmlu": 285, "arc_challenge": 298, "gsm8k": 132}
"""Items that the steps of its deltas suggest, where they suggest a subset."""


def cells(row: dict[str, Any]) -> dict[tuple[str, str], float]:
    """The values of a row, or of a table's averages, by task and metric."""
    return {
        (task, metric): value
        for task, by_metric in row.items()
        if isinstance(by_metric, dict)
        for metric, value in by_metric.items()
    }


def agrees(printed: float, values: list[float]) -> bool:
    """Whether `printed` can be the mean of `values`, each rounded to two decimals.

    Half a unit of the last place for either.
    """
    return abs(sum(values) / len(values) - printed) < 0.01 + 1e-9


def experiments(table: dict[str, Any]) -> list[str]:
    return [row["experiment"] for row in table["rows"] if "experiment" in row] or [
        table["experiment"]
    ]


def file_of(sweep: str) -> Path:
    return CONFIGS / "sweeps" / f"{sweep}.toml"


def test_reported_holds_the_tables_that_have_numbers() -> None:
    assert list(REPORTED) == [f"table{n}" for n in (1, 2, 3, 4, 5, 7, 8, 9)]


@pytest.mark.parametrize("name", ["table1", "table2", "table4", "table7", "table8", "table9"])
def test_a_table_by_model_has_the_nine_models_each_once(name: str) -> None:
    models = [row["model"] for row in REPORTED[name]["rows"]]
    assert len(set(models)) == 9
    assert models == [row["model"] for row in REPORTED["table1"]["rows"]]


@pytest.mark.parametrize("name", list(REPORTED))
def test_reported_names_exist(name: str) -> None:
    table = REPORTED[name]
    assert {row["model"] for row in [*table["rows"], table] if "model" in row} <= set(
        settings.model_names()
    )
    found = {cell for row in [*table["rows"], table.get("average", {})] for cell in cells(row)}
    for task, metric in found | ({(table["task"], "accuracy")} if "task" in table else set()):
        assert task in registry.names("tasks")
        assert metric in tasks.get(task, table["style"]).metrics


def test_only_the_dash_of_table_8_is_missing() -> None:
    missing = []
    for name in ("table1", "table2", "table4", "table8", "table9"):
        rows = REPORTED[name]["rows"]
        every = {cell for row in rows for cell in cells(row)}
        missing += [
            (name, row["model"], task, metric)
            for row in rows
            for task, metric in every - set(cells(row))
        ]
    assert missing == [("table8", "gpt-oss-120b", "gpqa_diamond", "ece")]


@pytest.mark.parametrize("name", ["table1", "table4", "table8"])
def test_printed_averages_of_rows_are_means_but_for_those_named(name: str) -> None:
    off = [
        row["model"]
        for row in REPORTED[name]["rows"]
        if not agrees(row["average"], list(cells(row).values()))
    ]
    assert off == REPORTED[name].get("averages_off", [])


def test_the_text_of_the_paper_fills_the_dash_of_table_8() -> None:
    row = next(row for row in REPORTED["table8"]["rows"] if row["model"] == "gpt-oss-120b")
    assert agrees(row["average"], [*cells(row).values(), REPORTED["table8"]["largest_in_the_text"]])


@pytest.mark.parametrize("name", ["table1", "table2", "table4"])
def test_printed_averages_of_columns_are_means(name: str) -> None:
    table = REPORTED[name]
    for (task, metric), printed in cells(table["average"]).items():
        assert agrees(printed, [row[task][metric] for row in table["rows"]]), (task, metric)
    if "average" in table["average"]:
        assert agrees(table["average"]["average"], [row["average"] for row in table["rows"]])


@pytest.mark.parametrize(
    ("task", "metric", "num_items", "fitting", "reported"),
    [
        ("mmlu", "accuracy", 285, 16, 18),
        ("gpqa_diamond", "accuracy", 198, 15, 18),
        ("arc_challenge", "accuracy", 298, 12, 18),
        ("arc_challenge", "accuracy", 1172, 0, 18),
        ("gsm8k", "accuracy", 132, 8, 9),
        ("humaneval", "pass_at_1", 164, 9, 9),
    ],
)
def test_reported_deltas_step_as_the_subsets_suggest(
    task: str, metric: str, num_items: int, fitting: int, reported: int
) -> None:
    """What the paper-size numbers are inferred from: a delta is a whole number of items."""
    values = [
        cells(row)[task, metric]
        for name in ("table1", "table2", "table4")
        for row in REPORTED[name]["rows"]
        if task in row
    ]
    steps = [round(value * num_items / 100) / num_items * 100 for value in values]
    assert len(values) == reported
    assert (
        sum(abs(step - value) < 0.005 + 1e-9 for step, value in zip(steps, values, strict=True))
        == fitting
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", list(REPORTED))
def test_the_sweeps_of_a_reported_table_ask_all_that_it_shows(name: str, size: str) -> None:
    table = REPORTED[name]
    wanted_models = {row["model"] for row in [*table["rows"], table] if "model" in row}
    wanted_tasks = {task for row in table["rows"] for task, _ in cells(row)} | (
        {table["task"]} if "task" in table else set()
    )
    for experiment in experiments(table):
        spec = load_sweep(f"paper/{size}/{experiment}")
        assert wanted_models <= {model.name for model in spec.models}
        assert {(task, table["style"]) for task in wanted_tasks} <= {
            (task.name, task.style) for task in spec.tasks
        }
        assert spec.calendar.control


def test_every_experiment_has_both_sizes() -> None:
    assert [sweep for sweep in SWEEPS if not file_of(sweep).is_file()] == []


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_two_sizes_differ_in_nothing_but_the_number_of_items(name: str) -> None:
    small, full = (load_sweep(f"paper/{size}/{name}").model_dump() for size in SIZES)
    assert small["name"] == f"{name}-paper-size"
    assert full["name"] == f"{name}-full-size"
    assert small["title"].replace("paper size", "full size") == full["title"]
    for spec in (small, full):
        del spec["name"], spec["title"]
        for task in spec["tasks"]:
            del task["limit"]
    assert small == full


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_asks_the_numbers_of_items_that_the_paper_has(sweep: str) -> None:
    spec = load_sweep(sweep)
    assert {task.name: task.rows for task in spec.tasks} == {
        task.name: ITEMS[task.name] for task in spec.tasks
    }
    assert {task.limit for task in spec.tasks if task.name not in SUBSETS} <= {None}
    wanted = SUBSETS if "paper-size" in sweep else dict.fromkeys(SUBSETS)
    assert all(task.limit == wanted[task.name] for task in spec.tasks if task.name in SUBSETS)


@pytest.mark.parametrize("task", ITEMS)
def test_the_tasks_state_the_same_numbers(task: str) -> None:
    assert tasks.get(task).paper_items == ITEMS[task]
    assert tasks.get(task).paper_subset == SUBSETS.get(task)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_dated_sweeps_ask_the_papers_365_dates_a_control_and_placebo_copies(sweep: str) -> None:
    calendar = load_sweep(sweep).calendar
    days = calendar.days()
    assert calendar.control
    if Path(sweep).name in DATED:
        assert (len(days), f"{days[0]}", f"{days[-1]}", calendar.placebo) == (
            365,
            "2024-01-01",
            "2024-12-31",
            12,
        )
    else:
        assert (days, calendar.placebo) == ([], 1)


def test_no_two_sweeps_share_a_name() -> None:
    """A run's folder is named after its sweep."""
    names = [
        tomllib.loads(path.read_text())["name"] for path in (CONFIGS / "sweeps").rglob("*.toml")
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("size", SIZES)
def test_each_axis_takes_the_values_that_the_paper_varies(size: str) -> None:
    conditions = {name: load_sweep(f"paper/{size}/{name}").conditions for name in EXPERIMENTS}
    assert conditions["table5-option-order"].option_orders == [1, 2, 3, 4, 5]
    assert sorted(conditions["table5-wording"].wordings) == sorted(WORDINGS)
    assert sorted(conditions["figure14-location"].locations) == sorted(LOCATIONS)
    assert load_sweep(f"paper/{size}/table5-batch-size").engine.batch_invariant is False
    styles = [(task.name, task.style) for task in load_sweep(f"paper/{size}/figure4-cot").tasks]
    assert styles == [("mmlu", "zero_shot"), ("mmlu", "cot")]


@pytest.mark.parametrize("sweep", [s for s in SWEEPS if "native" in s])
def test_native_sweeps_fill_a_slot_that_their_models_have(sweep: str) -> None:
    spec = load_sweep(sweep)
    assert spec.conditions.placements == ["template"]
    assert all(model.template.date_slot for model in spec.models)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_no_sweep_gives_consent_to_run_programs(sweep: str) -> None:
    assert not load_sweep(sweep).allow_code_execution
