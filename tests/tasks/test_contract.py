"""What every task must fulfil; a new file in `pipeline/tasks` is tested without a line added."""

import functools
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from pipeline import data, metrics, tasks
from pipeline.core import dates, registry, tables
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.records import Item
from pipeline.tasks import _gpqa
from pipeline.tasks._choice import MultipleChoice

NAMES = registry.names("tasks")
CASES = [(name, style) for name in NAMES for style in registry.module("tasks", name).TASK.styles]
SHOT_CASES = [(name, style) for name, style in CASES if tasks.get(name, style).num_shots]
CHOICE_CASES = [
    (name, style)
    for name, style in CASES
    if issubclass(registry.module("tasks", name).TASK, MultipleChoice)
]
DEMO = str(Path(__file__).parents[2] / "configs" / "demo")
DATA = os.environ.get("DATESWEEP_DATA")
REAL_SIZES = {
    "arc_challenge": 1_172,
    "gsm8k": 1_319,
    "humaneval": 164,
    "mmlu": 14_042,
    "wmt16_en_cs": 2_999,
    "wmt16_en_de": 2_999,
    "wmt16_en_fi": 6_000,
    "wmt16_en_fi_3000": 3_000,
}
NOT_MIRRORED = {"gpqa_diamond", "gpqa_main", "wmt14_en_cs"}
"""Tasks whose real rows are gated, or not among the data that these tests are given."""
MAX_SCORED = 400
MAX_PROGRAMS = 12
"""Items scored where the split is long, and where every item starts a process."""

ROOTS = {"demo": DEMO} | ({"real": DATA} if DATA else {})


def _has_rows(name: str, root: str) -> bool:
    """Whether `root` should have the rows of a task; those of packages are the demo's."""
    return root == DEMO or not (name in NOT_MIRRORED or tasks.get(name).source.package)


def _every(*columns: str, of: list[tuple[str, ...]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(columns, [pytest.param(*c, id="-".join(c)) for c in of])


def _every_with_data(*columns: str, of: list[tuple[str, ...]]) -> pytest.MarkDecorator:
    """A test for each of the cases, whose first column is a task, on all the data there is."""
    cases = [
        pytest.param(*case, root, id="-".join((*case, label)))
        for label, root in ROOTS.items()
        for case in of
        if _has_rows(case[0], root)
    ]
    return pytest.mark.parametrize((*columns, "root"), cases)


every_name = pytest.mark.parametrize("name", NAMES)
every_task = _every("name", "style", of=CASES)
every_task_with_shots = _every("name", "style", of=SHOT_CASES)
every_choice = _every("name", "style", of=CHOICE_CASES)
every_name_and_data = _every_with_data("name", of=[(name,) for name in NAMES])
every_task_and_data = _every_with_data("name", "style", of=CASES)
every_task_with_shots_and_data = _every_with_data("name", "style", of=SHOT_CASES)
every_choice_and_data = _every_with_data("name", "style", of=CHOICE_CASES)


@functools.cache
def _read(source: tasks.Source, root: str) -> list[dict[str, object]] | None:
    """The rows of `source`; None where the mirror `root` lacks it."""
    try:
        return list(data.read_rows(source, root))
    except DataError:
        return None


def _rows(name: str, root: str) -> list[dict[str, object]]:
    source = tasks.get(name).source
    rows = _read(source, root)
    assert rows is not None, f"{root} has no {source.dataset} ({source.config}, {source.split})"
    return rows


@functools.cache
def _items(name: str, root: str) -> list[Item]:
    return list(tasks.get(name).items(_rows(name, root)))


@functools.cache
def _examples(name: str, style: str, root: str) -> list[Item]:
    """Items for worked examples, from the first of their sources that is in the mirror.

    None where the style has no shots.
    """
    task, items = tasks.get(name, style), _items(name, root)
    if not task.num_shots:
        return []
    rows = next(
        (rows for source in task.example_sources if (rows := _read(source, root)) is not None), None
    )
    assert rows is not None, f"no rows for the worked examples of {name}"
    return list(task.examples(rows, items))


def _prompt(task: tasks.Task, item: Item, root: str, option_order: int = 0) -> tasks.Prompt:
    return task.prompt(
        tasks.reordered(item, option_order),
        task.shots(item, _examples(task.name, task.style, root)),
    )


def _outputs(
    task: tasks.Task, items: list[Item], outputs: list[str], option_order: int = 0
) -> pl.DataFrame:
    """What scoring gets when the model gave `outputs`: texts, or label vectors in which the given
    label stands out.
    """
    vectors = [
        [-0.1 if label == f" {output}" else -3.0 for label in task.labels(i)]
        for i, output in zip(items, outputs, strict=True)
    ]
    return tables.from_records(Item, items).with_columns(
        option_order=pl.lit(option_order, pl.Int64),
        text=pl.Series(outputs, dtype=pl.String) if task.kind == "text" else pl.lit(""),
        label_logprobs=pl.Series(vectors, dtype=pl.List(pl.Float64)),
    )


def _score(
    task: tasks.Task, items: list[Item], outputs: list[str], option_order: int = 0
) -> dict[str, float]:
    """The score of each metric of `task` when `outputs` answer `items`, through the same calls as
    the pipeline's.
    """
    frame = _outputs(task, items, outputs, option_order)
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


def _wrong(task: tasks.Task, items: list[Item], gold: list[str]) -> list[str]:
    if task.kind == "text":
        return gold[1:] + gold[:1]
    return [
        task.labels(i)[task.labels(i).index(f" {g}") - 1][1:]
        for i, g in zip(items, gold, strict=True)
    ]


@every_task
def test_a_task_describes_itself(name: str, style: str) -> None:
    task = tasks.get(name, style)
    assert (task.name, task.style) == (name, style)
    assert task.kind in ("label", "text")
    assert set(task.metrics) <= set(registry.names("metrics"))
    assert task.max_tokens >= 1
    assert min(task.version, task.extraction_version) >= 1
    assert 0 <= task.chance < 100
    for source in (task.source, *task.example_sources):
        assert all(
            [task.title, source.dataset, source.config, source.split, source.url, source.licence]
        )
    assert bool(task.num_shots) <= bool(task.example_sources)
    assert task.paper_subset is None or (
        task.paper_items is not None and task.paper_subset < task.paper_items
    )


@every_name
def test_every_task_can_be_asked_zero_shot(name: str) -> None:
    assert tasks.get(name).style == "zero_shot"
    assert tasks.get(name).num_shots == 0


def test_titles_tell_tasks_apart() -> None:
    assert len({tasks.get(name).title for name in NAMES}) == len(NAMES)


def test_an_unknown_task_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'mmul'.*did you mean 'mmlu'"):
        tasks.get("mmul")


def test_an_unknown_style_is_an_error_that_names_the_nearest() -> None:
    styles = "allowed: zero_shot, five_shot, cot.*did you mean 'five_shot'"
    with pytest.raises(ConfigError, match=f"task mmlu: style 'fife_shot'.*{styles}"):
        tasks.get("mmlu", "fife_shot")


@every_name_and_data
def test_item_ids_are_unique_and_stable(name: str, root: str) -> None:
    items, task = _items(name, root), tasks.get(name)
    assert len({item.item_id for item in items}) == len(items)
    assert all(item.task == name for item in items)
    assert (
        list(task.items(_rows(name, root)[:5])) == items[:5]
    )  # an id does not depend on the rows behind


@pytest.mark.parametrize(
    "name", sorted(n for n in REAL_SIZES if DATA or tasks.get(n).source.package)
)
def test_the_real_split_is_whole_and_as_large_as_the_papers(name: str) -> None:
    assert len(_items(name, DATA if DATA and _has_rows(name, DATA) else DEMO)) == REAL_SIZES[name]
    assert tasks.get(name).paper_items in (None, REAL_SIZES[name])


@every_name_and_data
def test_items_survive_a_frame(name: str, root: str) -> None:
    items = _items(name, root)
    assert list(tasks.items_of(tables.from_records(Item, items))) == items


@every_task_and_data
def test_the_gold_output_gets_full_marks_and_a_wrong_one_less(
    name: str, style: str, root: str
) -> None:
    task = tasks.get(name, style)
    items = _few(task, _items(name, root))
    gold = [task.gold_output(item) for item in items]
    right, worse = _score(task, items, gold), _score(task, items, _wrong(task, items, gold))
    for name in task.metrics:
        if metrics.get(name).higher_is_better:
            assert right[name] == pytest.approx(100.0)
            assert worse[name] < right[name] - 5
        else:
            assert worse[name] > right[name] + 5


@every_task_and_data
def test_the_gold_output_is_read_as_the_target(name: str, style: str, root: str) -> None:
    task = tasks.get(name, style)
    for item in _items(name, root):
        found = task.extract(item, task.gold_output(item))
        assert found.rule != "none"
        assert task.executes_code or found.answer == item.target, item.item_id


@every_task_and_data
def test_no_prompt_tells_a_date(name: str, style: str, root: str) -> None:
    """What a task adds to an item's own texts holds no digit and no month, so the sweep's date is
    the only one.
    """
    task, month = tasks.get(name, style), re.compile("|".join(dates.MONTHS))
    for item in _few(task, _items(name, root)):
        prompt = _prompt(task, item, root)
        wording = "\n".join(
            [
                prompt.system,
                *(turn for shot in prompt.shots for turn in shot),
                prompt.user,
                prompt.prefill,
            ]
        )
        texts = [
            text
            for i in (item, *task.shots(item, _examples(name, style, root)))
            for text in (*i.fields.values(), *i.options)
        ]
        for own in sorted(texts, key=len, reverse=True):
            wording = wording.replace(own, "")
        assert not re.search(r"\d", wording) and not month.search(wording), item.item_id


@every_task_and_data
def test_a_prompt_depends_on_nothing_but_its_item(name: str, style: str, root: str) -> None:
    task = tasks.get(name, style)
    for item in _items(name, root)[:50]:
        prompt = _prompt(task, item, root)
        assert prompt == _prompt(tasks.get(name, style), item, root)
        assert prompt.user.strip()
        assert prompt.prefill == prompt.prefill.rstrip()  # a space belongs to the next token
        assert all(option in prompt.user for option in item.options)


@every_task_and_data
def test_labels_are_one_for_each_option(name: str, style: str, root: str) -> None:
    task = tasks.get(name, style)
    for item in _items(name, root):
        labels = task.labels(item)
        assert len(labels) == len(set(labels)) == (len(item.options) if task.kind == "label" else 0)
        assert (task.max_tokens == 1) == bool(labels)


@every_task_with_shots_and_data
def test_shots_are_as_many_as_the_style_says_and_never_the_item_itself(
    name: str, style: str, root: str
) -> None:
    task, items = tasks.get(name, style), _items(name, root)
    examples, ids = _examples(name, style, root), {item.item_id for item in items}
    assert not ids & {example.item_id for example in examples}
    for item in items:
        shots = task.shots(item, examples)
        assert len(shots) == len({shot.item_id for shot in shots}) == task.num_shots
        assert (item.fields, item.options) not in [(shot.fields, shot.options) for shot in shots]


@every_task_with_shots_and_data
def test_a_shot_is_asked_as_the_item_is_and_answered_right(
    name: str, style: str, root: str
) -> None:
    task, item = tasks.get(name, style), _items(name, root)[0]
    prompt, zero_shot = _prompt(task, item, root), tasks.get(name)
    assert (prompt.user, prompt.prefill) == (
        zero_shot.prompt(item).user,
        zero_shot.prompt(item).prefill,
    )
    for shot, (user, answer) in zip(
        task.shots(item, _examples(name, style, root)), prompt.shots, strict=True
    ):
        assert user == zero_shot.prompt(shot).user
        assert answer == f"{prompt.prefill} {shot.target}"


@every_task_with_shots
def test_too_few_examples_are_an_error_that_tells_where_they_come_from(
    name: str, style: str
) -> None:
    task, item = tasks.get(name, style), _items(name, DEMO)[0]
    shots = task.shots(item, _examples(name, style, DEMO))
    numbers = f"needs {task.num_shots} worked examples, found {len(shots) - 1}"
    with pytest.raises(DataError, match=rf"{numbers}; they come from \S+/"):
        task.shots(item, shots[1:])


@every_task_with_shots
def test_a_prompt_with_another_number_of_shots_is_refused(name: str, style: str) -> None:
    with pytest.raises(DataError, match="a prompt has 5 worked examples, given 0"):
        tasks.get(name, style).prompt(_items(name, DEMO)[0])


@every_choice_and_data
@settings(max_examples=25, deadline=None)
@given(option_order=st.integers(0, 10_000), choice=st.integers(0, 25))
def test_an_answer_is_the_published_label_in_whatever_order_options_are_shown(
    name: str, style: str, root: str, option_order: int, choice: int
) -> None:
    """A model that knows one option of every item, wherever it is shown, gets that option's
    published label.
    """
    task = tasks.get(name, style)
    items = _few(task, _items(name, root))[:40]
    known = [choice % len(item.options) for item in items]
    shown = [
        "ABCDE"[tasks.option_permutation(item, option_order).index(k)]
        for item, k in zip(items, known, strict=True)
    ]
    outputs = [f"The answer is {label}." for label in shown] if task.kind == "text" else shown
    answers = task.answers(_outputs(task, items, outputs, option_order))
    assert answers["answer"].to_list() == ["ABCDE"[k] for k in known]


@every_choice_and_data
def test_the_target_follows_its_option_in_every_order(name: str, style: str, root: str) -> None:
    task = tasks.get(name, style)
    items = _few(task, _items(name, root))
    for order in range(4):
        changed = [tasks.reordered(item, order) for item in items]
        for item, other in zip(items, changed, strict=True):
            assert sorted(other.options) == sorted(item.options)
            assert (
                other.options["ABCDE".index(other.target)]
                == item.options["ABCDE".index(item.target)]
            )
        assert _score(task, items, [task.gold_output(item) for item in changed], order)[
            "accuracy"
        ] == pytest.approx(100.0)


@every_choice
def test_another_order_changes_the_options_of_a_prompt_and_nothing_else(
    name: str, style: str
) -> None:
    task, items = tasks.get(name, style), _items(name, DEMO)
    changed = 0
    for item in items:
        published, other = _prompt(task, item, DEMO), _prompt(task, item, DEMO, option_order=1)
        changed += published.user != other.user
        assert (published.system, published.prefill, published.shots) == (
            other.system,
            other.prefill,
            other.shots,
        )
    assert changed > len(items) / 2


@every_task
@settings(max_examples=60, deadline=None)
@given(
    text=st.one_of(
        st.text(), st.text(alphabet="`#:{}()\\<>/think \nAnswer:0-9A-D=def return'\"\0\r\u2028")
    )
)
def test_extraction_takes_any_text(name: str, style: str, text: str) -> None:
    task, item = tasks.get(name, style), _items(name, DEMO)[0]
    found = task.extract(item, text)
    assert (found.answer == "") == (found.rule == "none") == (found == tasks.NO_ANSWER)
    assert found == task.extract(item, text)


class Read(dict[str, object]):
    """A row that notes which of its columns are looked at."""

    def __init__(self, columns: dict[str, object]) -> None:
        super().__init__(columns)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self.names.add(name)
        return super().__getitem__(name)


@every_name
def test_a_row_without_columns_is_an_error_that_names_task_and_row(name: str) -> None:
    with pytest.raises(
        DataError, match=rf"task '{name}', row 1: no column '[\w ]+'; the row has: none"
    ):
        list(tasks.get(name).items([_rows(name, DEMO)[0], {}]))


@every_name
def test_a_null_in_a_row_is_an_error_that_names_its_column(name: str) -> None:
    task, row = tasks.get(name), Read(_rows(name, DEMO)[0])
    list(task.items([row]))
    assert row.names
    for column in row.names:
        with pytest.raises(
            DataError, match=rf"task '{name}', row 0, column '{column}': expected .*, found None"
        ):
            list(task.items([{**row, column: None}]))


@every_task_with_shots
def test_a_fault_in_a_row_for_worked_examples_is_told_apart(name: str, style: str) -> None:
    with pytest.raises(DataError, match=rf"task '{name} \(worked examples\)', row 0: no column"):
        list(tasks.get(name, style).examples([{}], []))


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
    """Each `<<expression=result>>` is checked by arithmetic on its operands, and the last result is
    the gold answer.
    """
    operations = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
    for row, item in zip(_rows("gsm8k", DEMO), _items("gsm8k", DEMO), strict=True):
        for expression, result in re.findall(r"<<([^=>]+)=([^>]+)>>", str(row["answer"])):
            first, *rest = re.findall(r"[-+*/]|\d+", expression)
            value = float(first)
            for operator, operand in zip(rest[::2], rest[1::2], strict=True):
                value = operations[operator](value, float(operand))
            assert value == float(result), expression
        assert result == item.target


def test_the_demos_larger_gpqa_sets_hold_the_smaller_ones() -> None:
    diamond, main, extended = (
        {str(row["Record ID"]): row for row in data.read_rows(_gpqa.subset(f"gpqa_{name}"), DEMO)}
        for name in ("diamond", "main", "extended")
    )
    assert diamond.items() <= main.items() <= extended.items()


def test_the_demo_repeats_finnish_sources_with_other_references() -> None:
    items = _items("wmt16_en_fi", DEMO)
    half = len(items) // 2
    for first, second in zip(items[:half], items[half:], strict=True):
        assert first.fields == second.fields
        assert first.references != second.references
