import datetime
import itertools
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st

from pipeline.core import tables
from pipeline.core.conditions import PLACEMENTS
from pipeline.core.records import PlanRow
from pipeline.plan import benchmarks, order
from pipeline.plan.benchmarks import Benchmark
from pipeline.plan.checks import rendered
from pipeline.prompts import variants
from pipeline.prompts.render import PromptBuilder
from pipeline.settings import CalendarSpec, ConditionsSpec, SweepSpec, TaskSpec
from pipeline.store import Run

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def requests(simulated_run: Run) -> pl.DataFrame:
    return simulated_run.requests().collect()


@pytest.fixture(scope="module")
def asked(simulated_spec: SweepSpec) -> list[Benchmark]:
    specs = [
        TaskSpec(name="mmlu", style="five_shot"),
        TaskSpec(name="mmlu", limit=9),
        TaskSpec(name="gsm8k", limit=5),
    ]
    return [benchmarks.load(spec, simulated_spec.data_root) for spec in specs]


def test_every_item_meets_every_variant_once_and_placebo_dates_twice(
    requests: pl.DataFrame,
) -> None:
    counts = requests.filter(replicate=0).group_by("item_id", "task", "variant").len()
    assert counts["len"].unique().to_list() == [1]
    assert counts.height == 20 * 7
    assert requests.filter(replicate=1)["variant"].unique().to_list() == ["iso:2024-01-01"]


def test_the_control_is_planned_like_any_variant(requests: pl.DataFrame) -> None:
    assert requests.filter(variant="control").height == 20


def test_a_date_at_the_start_keeps_each_variant_together_and_each_task_within_it(
    requests: pl.DataFrame,
) -> None:
    groups = (
        requests.filter(replicate=0)
        .select("variant", "task")
        .with_columns(new=pl.struct("variant", "task").rle_id())
    )
    assert groups["new"].n_unique() == groups.select("variant", "task").n_unique()
    names = requests.filter(replicate=0)["variant"].rle_id()
    assert names.n_unique() == requests["variant"].n_unique()


def test_placebo_copies_come_last_and_have_other_neighbours(requests: pl.DataFrame) -> None:
    assert requests["replicate"].is_sorted()
    copies = requests.filter(replicate=1).group_by("task", maintain_order=True).agg("item_id")
    originals = (
        requests.filter(pl.col("replicate") == 0, pl.col("variant") == "iso:2024-01-01")
        .group_by("task")
        .agg("item_id")
    )
    for task, items in copies.iter_rows():
        assert items == originals.filter(task=task)["item_id"][0].to_list()[::-1]


@pytest.mark.parametrize("placement", [p for p in PLACEMENTS if p != "template"])
def test_neighbours_share_as_much_as_any_order_allows(
    placement: str, asked: list[Benchmark], simulated_spec: SweepSpec, demo_folder: Path
) -> None:
    calendar = CalendarSpec(
        first=datetime.date(2024, 3, 1), last=datetime.date(2024, 3, 8), control=False
    )
    swept = variants.variants(calendar, ConditionsSpec(placements=[placement]))
    builder = PromptBuilder(simulated_spec.models[0], demo_folder)
    prompts = [
        prompt
        for benchmark in asked
        for prompt in rendered(builder, benchmark, swept[0], in_full=True)
    ]
    ordered = order.prefix_order(asked, swept, [])
    texts = [
        prompts[item].text(swept[arm].date_text)
        for item, arm in zip(ordered["item"], ordered["arm"], strict=True)
    ]

    def new_characters(texts: list[str]) -> int:
        pairs = ((zip(a, b, strict=False)) for a, b in itertools.pairwise(texts))
        shared = sum(
            sum(1 for _ in itertools.takewhile(lambda two: two[0] == two[1], pair))
            for pair in pairs
        )
        return sum(map(len, texts)) - shared

    # Sorting as text is the best there is for a cache of one prompt; reversing dates and items is
    # what an unlucky order would do.
    assert new_characters(texts) <= 1.03 * new_characters(sorted(texts))
    assert len(texts) == len(set(texts))


def test_conditions_follow_one_another(asked: list[Benchmark]) -> None:
    calendar = CalendarSpec(dates=[], control=True)
    swept = variants.variants(
        calendar, ConditionsSpec(wordings=["none", "helpful"], option_orders=[0, 1])
    )
    arms = order.prefix_order(asked, swept, [])["arm"]
    assert arms.rle_id().n_unique() == len(swept)


def test_the_plan_has_the_schema_of_its_record(simulated_run: Run) -> None:
    assert simulated_run.plan_table("requests").schema == tables.schema(PlanRow)


@given(SIZES, st.integers(1, 30))
def test_shards_hold_whole_groups_unless_a_group_is_larger_than_a_shard(
    sizes: list[int], shard_rows: int
) -> None:
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    rows = pl.DataFrame({"group": groups, "item": range(len(groups)), "arm": 0})
    cut = order.cut_shards(rows, shard_rows)["shard"]
    assert cut.is_sorted()
    assert cut.value_counts()["count"].max() <= shard_rows  # type: ignore[operator]
    assert cut.unique().to_list() == list(range(cut.n_unique()))
    spread = (
        pl.DataFrame({"group": groups, "shard": cut})
        .group_by("group")
        .agg(pl.col("shard").n_unique(), pl.len())
    )
    for row in spread.iter_rows(named=True):
        assert row["shard"] <= -(-row["len"] // shard_rows)
