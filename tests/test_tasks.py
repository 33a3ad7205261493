"""What every task must fulfil. A new file in `pipeline/tasks` is tested here without a line added."""

import functools
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import dates, frames, metrics, registry, sources, tasks
from pipeline.errors import ConfigError, DataError
from pipeline.records import Item

NAMES = registry.names("tasks")
DEMO = str(Path(__file__).parent.parent / "configs" / "demo")
DATA = os.environ.get("DATESWEEP_DATA")
REAL_SIZES = {"mmlu": 14_042, "gsm8k": 1_319, "humaneval": 164, "wmt16_en_de": 2_999}
MAX_SCORED = 400
MAX_PROGRAMS = 12
"""Items scored where the split is long, and where every item starts a process."""

every_task = pytest.mark.parametrize("name", NAMES)
every_data = pytest.mark.parametrize(
    "root", [DEMO, pytest.param(DATA, marks=pytest.mark.skipif(not DATA, reason="DATESWEEP_DATA is not set"))], ids=["demo", "real"]
)


@functools.cache
def _rows(name: str, root: str) -> list[dict[str, object]]:
    source = tasks.get(name).source
    if source.package and root == DATA:
        pytest.skip("its rows come from a package and are tested as `demo`")
    try:
        return list(sources.rows(source, root))
    except DataError as error:
        pytest.skip(f"no rows: {error}")


@functools.cache
def _items(name: str, root: str) -> list[Item]:
    return list(tasks.get(name).items(_rows(name, root)))


def _score(task: tasks.Task, items: list[Item], outputs: list[str]) -> dict[str, float]:
    """The score of each metric of `task` when `outputs` answer `items`, through the same calls as the pipeline's."""
    frame = frames.from_records(Item, items).with_columns(
        text=pl.Series(outputs) if task.kind == "text" else pl.lit(""),
        label_logprobs=pl.Series(
            [[-0.1 if label == f" {output}" else -3.0 for label in task.labels(i)] for i, output in zip(items, outputs, strict=True)],
            dtype=pl.List(pl.Float64),
        ),
    )
    answers = pl.concat([frame, task.answers(frame)], how="horizontal")
    return {name: _combined(metrics.get(name), answers) for name in task.metrics}


def _combined(metric: metrics.Metric, answers: pl.DataFrame) -> float:
    segments = metric.segments(answers)
    assert set(segments["status"]) <= {"scored", "no_answer"}
    sums = np.array(segments["stats"].to_list()).sum(axis=0)
    return float(metric.combine(sums, np.array(float(segments.height))))


def _few(task: tasks.Task, items: list[Item]) -> list[Item]:
    """Some of `items`, from all parts of the split."""
    return items[:: max(1, len(items) // (MAX_PROGRAMS if task.executes_code else MAX_SCORED))]


@every_task
def test_a_task_describes_itself(name: str) -> None:
    task = tasks.get(name)
    assert task.name == name
    assert task.kind in ("label", "text")
    assert set(task.metrics) <= set(registry.names("metrics"))
    assert task.max_tokens >= 1
    assert task.version >= 1
    assert 0 <= task.chance < 100
    assert all([task.title, task.source.dataset, task.source.config, task.source.split, task.source.url, task.source.licence])


def test_an_unknown_task_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'mmul'.*did you mean 'mmlu'"):
        tasks.get("mmul")


@every_data
@every_task
def test_item_ids_are_unique_and_stable(name: str, root: str) -> None:
    items, task = _items(name, root), tasks.get(name)
    assert len({item.item_id for item in items}) == len(items)
    assert all(item.task == name for item in items)
    assert list(task.items(_rows(name, root)[:5])) == items[:5]  # an id does not depend on the rows behind


@pytest.mark.parametrize("name", sorted(REAL_SIZES))
def test_the_real_split_is_whole(name: str) -> None:
    root = DEMO if tasks.get(name).source.package else DATA
    if not root:
        pytest.skip("DATESWEEP_DATA is not set")
    assert len(_items(name, root)) == REAL_SIZES[name]


@every_data
@every_task
def test_items_survive_a_frame(name: str, root: str) -> None:
    items = _items(name, root)
    assert list(tasks.items_of(frames.from_records(Item, items))) == items


@every_data
@every_task
def test_the_gold_output_gets_full_marks_and_a_wrong_one_less(name: str, root: str) -> None:
    task = tasks.get(name)
    items = _few(task, _items(name, root))
    gold = [task.gold_output(item) for item in items]
    wrong = (
        gold[1:] + gold[:1]
        if task.kind == "text"
        else [task.labels(i)[task.labels(i).index(f" {g}") - 1][1:] for i, g in zip(items, gold, strict=True)]
    )
    right, worse = _score(task, items, gold), _score(task, items, wrong)
    for name in task.metrics:
        if metrics.get(name).higher_is_better:
            assert right[name] == pytest.approx(100.0)
            assert worse[name] < right[name] - 5
        else:
            assert worse[name] > right[name] + 5


@every_data
@every_task
def test_the_gold_output_is_read_as_the_target(name: str, root: str) -> None:
    task = tasks.get(name)
    for item in _items(name, root):
        found = task.extract(item, task.gold_output(item))
        assert found.rule != "none"
        assert task.executes_code or found.answer == item.target, item.item_id


@every_data
@every_task
def test_no_prompt_tells_a_date(name: str, root: str) -> None:
    """What a task adds to an item's own texts holds no digit and no month, so the sweep's date is the only one."""
    task, month = tasks.get(name), re.compile("|".join(dates.MONTHS))
    for item in _items(name, root):
        prompt = task.prompt(item)
        wording = f"{prompt.system}\n{prompt.user}\n{prompt.prefill}"
        for own in sorted([*item.fields.values(), *item.options], key=len, reverse=True):
            wording = wording.replace(own, "")
        assert not re.search(r"\d", wording) and not month.search(wording), item.item_id


@every_data
@every_task
def test_a_prompt_depends_on_nothing_but_its_item(name: str, root: str) -> None:
    task = tasks.get(name)
    for item in _items(name, root)[:50]:
        prompt = task.prompt(item)
        assert prompt == task.prompt(item)
        assert prompt.user.strip()
        assert prompt.prefill == prompt.prefill.rstrip()  # a space belongs to the next token
        assert all(option in prompt.user for option in item.options)


@every_data
@every_task
def test_labels_are_one_for_each_option(name: str, root: str) -> None:
    task = tasks.get(name)
    for item in _items(name, root):
        labels = task.labels(item)
        assert len(labels) == len(item.options) == len(set(labels))
        assert bool(labels) == (task.kind == "label")


@every_task
@settings(max_examples=60, deadline=None)
@given(text=st.one_of(st.text(), st.text(alphabet="`#:{}()\\<>/think \nAnswer:0-9A-D=def return'\"\0\r\u2028")))
def test_extraction_takes_any_text(name: str, text: str) -> None:
    task, item = tasks.get(name), _items(name, DEMO)[0]
    found = task.extract(item, text)
    assert (found.answer == "") == (found.rule == "none") == (found == tasks.NO_ANSWER)
    assert found == task.extract(item, text)


@every_task
def test_a_row_without_columns_is_an_error_that_names_task_and_row(name: str) -> None:
    with pytest.raises(DataError, match=rf"task '{name}', row 1: no column '\w+'; the row has: none"):
        list(tasks.get(name).items([_rows(name, DEMO)[0], {}]))


@every_task
def test_a_null_in_a_row_is_an_error_that_names_its_column(name: str) -> None:
    task, row = tasks.get(name), _rows(name, DEMO)[0]
    for column in row:
        with pytest.raises(DataError, match=rf"task '{name}', row 0, column '{column}': expected .*, found None"):
            list(task.items([row | {column: None}]))


def test_the_demo_answers_are_spread_evenly() -> None:
    """Else a model that always says the same letter would look as if it knew something."""
    counts = pl.Series([item.target for item in _items("mmlu", DEMO)]).value_counts()
    assert counts["count"].to_list() == [6, 6, 6, 6]


def test_the_demo_has_five_dev_rows_for_each_subject() -> None:
    rows = pl.read_ndjson(Path(DEMO) / "cais/mmlu/all/dev.jsonl")
    assert rows["subject"].value_counts()["count"].unique().to_list() == [5]
    assert set(rows["subject"]) == {item.group for item in _items("mmlu", DEMO)}
    assert not set(rows["question"]) & {item.fields["question"] for item in _items("mmlu", DEMO)}


def test_the_demo_solutions_calculate_right() -> None:
    """Each `<<expression=result>>` is checked by arithmetic on its operands, and the last result is the gold answer."""
    operations = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
    for row, item in zip(_rows("gsm8k", DEMO), _items("gsm8k", DEMO), strict=True):
        for expression, result in re.findall(r"<<([^=>]+)=([^>]+)>>", str(row["answer"])):
            first, *rest = re.findall(r"[-+*/]|\d+", expression)
            value = float(first)
            for operator, operand in zip(rest[::2], rest[1::2], strict=True):
                value = operations[operator](value, float(operand))
            assert value == float(result), expression
        assert result == item.target
