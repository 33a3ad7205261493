import pytest
from hypothesis import given, strategies as st

from pipeline import tasks
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.records import Item
from pipeline.plan import Benchmark, check_consent, load
from pipeline.plan.benchmarks import select
from pipeline.settings import ModelSpec, SweepSpec, TaskSpec


def item(number: int, task: str = "mmlu", group: str = "") -> Item:
    return Item(
        task=task,
        item_id=f"test-{number:05d}",
        group=group,
        fields={},
        options=[],
        target="A",
        references=[],
    )


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 60))
def test_a_larger_limit_keeps_what_a_smaller_one_chose(size: int, limit: int, more: int) -> None:
    items = [item(i) for i in range(size)]
    small, large = select(items, limit), select(items, limit + more)
    assert len(small) == min(limit, size)
    assert {i.item_id for i in small} <= {i.item_id for i in large}
    assert small == [i for i in items if i in small], "the order of the data set is kept"


def test_choosing_items_does_not_depend_on_their_order() -> None:
    items = [item(i) for i in range(40)]
    assert select(items, 7) == sorted(select(items[::-1], 7), key=lambda i: i.item_id)


def test_code_is_not_run_without_consent(simulated_spec: SweepSpec) -> None:
    spec = simulated_spec.model_copy(
        update={"tasks": [TaskSpec(name="humaneval", limit=2)], "allow_code_execution": False}
    )
    with pytest.raises(ConfigError, match="--allow-code-execution"):
        check_consent(spec)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 60))
def test_a_limit_is_spread_over_the_groups(groups: list[int], limit: int) -> None:
    items = [item(i, group=str(g)) for i, g in enumerate(groups)]
    chosen = select(items, limit)
    counts = {g: sum(i.group == g for i in chosen) for g in {i.group for i in items}}
    for group, count in counts.items():
        has_more = count < sum(i.group == group for i in items)
        assert not has_more or count >= max(counts.values()) - 1


def test_285_items_of_57_subjects_are_five_of_each() -> None:
    items = [item(i, group=str(i % 57)) for i in range(57 * 9)]
    chosen = select(items, 285)
    assert {g: sum(i.group == str(g) for i in chosen) for g in range(57)} == dict.fromkeys(
        range(57), 5
    )


def test_another_seed_chooses_another_subset() -> None:
    items = [item(i) for i in range(60)]
    assert select(items, 20, 1) != select(items, 20, 2)
    assert len(select(items, 20, 1)) == 20


def test_a_data_set_of_another_size_than_the_sweep_says_is_an_error(
    simulated_spec: SweepSpec,
) -> None:
    assert load(TaskSpec(name="mmlu", rows=24, limit=3), simulated_spec.data_root).num_rows == 24
    with pytest.raises(
        DataError, match=r"cais/mmlu \(all, test\) has 24 rows, and the sweep says rows = 14,042"
    ):
        load(TaskSpec(name="mmlu", rows=14_042), simulated_spec.data_root)


def test_a_style_that_the_task_does_not_offer_names_those_it_does(
    simulated_spec: SweepSpec,
) -> None:
    with pytest.raises(
        ConfigError, match="task gsm8k: style 'five_shot' is not offered; allowed: zero_shot"
    ):
        load(TaskSpec(name="gsm8k", style="five_shot"), simulated_spec.data_root)


def test_a_few_shot_style_brings_its_worked_examples_and_says_where_they_are_from(
    simulated_spec: SweepSpec,
) -> None:
    found = load(TaskSpec(name="mmlu", style="five_shot", limit=3), simulated_spec.data_root)
    assert found.example_source == "all/dev"
    for one in found.items:
        shots = found.task.shots(one, found.examples)
        assert len(shots) == 5
        assert {s.group for s in shots} == {one.group}


def test_a_sweep_or_a_thinking_model_changes_the_longest_output(demo_model: ModelSpec) -> None:
    thinking = demo_model.model_copy(update={"thinking_tokens": 100})

    def longest(model: ModelSpec, name: str, max_tokens: int | None = None) -> int:
        spec = TaskSpec(name=name, max_tokens=max_tokens)
        one = Benchmark(spec=spec, items=[], examples=[], num_rows=0, example_source="")
        return one.max_tokens(model)

    assert longest(demo_model, "gsm8k") == tasks.get("gsm8k").max_tokens
    assert longest(demo_model, "gsm8k", 7) == 7
    assert longest(thinking, "gsm8k", 7) == 107
    assert longest(thinking, "mmlu") == 1, "a label is one token however a model thinks"
