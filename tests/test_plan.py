import datetime
import shutil
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import config, frames, plan, stages, store
from pipeline.config import SweepSpec
from pipeline.errors import PromptError, StoreError
from pipeline.progress import Reporter
from pipeline.records import PlanRow
from pipeline.store import Run


@pytest.fixture(scope="module")
def gathered(simulated_spec: SweepSpec) -> plan.Plan:
    return plan.gather(simulated_spec)


@pytest.fixture(scope="module")
def requests(simulated_spec: SweepSpec, gathered: plan.Plan) -> pl.DataFrame:
    return plan.cut_shards(plan.prefix_order(plan.cross(gathered, simulated_spec)), simulated_spec.engine.shard_rows)


def test_every_item_meets_every_variant_once_and_placebo_dates_twice(requests: pl.DataFrame, gathered: plan.Plan) -> None:
    asked = requests.filter(replicate=0).group_by("item_id", "task", "variant").len()
    assert asked["len"].unique().to_list() == [1]
    assert asked.height == len(gathered.items) * len(gathered.variants)
    assert requests.filter(replicate=1)["variant"].unique().to_list() == ["iso:2024-01-01"]


def test_the_control_is_planned_like_any_variant(requests: pl.DataFrame, gathered: plan.Plan) -> None:
    assert requests.filter(variant="control").height == len(gathered.items)


def test_prefix_order_keeps_each_variant_together_and_each_task_within_it(requests: pl.DataFrame) -> None:
    groups = requests.filter(replicate=0).select("variant", "task").with_columns(new=pl.struct("variant", "task").rle_id())
    assert groups["new"].n_unique() == groups.select("variant", "task").n_unique()
    variants = requests.filter(replicate=0)["variant"].rle_id()
    assert variants.n_unique() == requests["variant"].n_unique()


def test_placebo_copies_come_last_and_have_other_neighbours(requests: pl.DataFrame) -> None:
    assert requests["replicate"].is_sorted()
    copies = requests.filter(replicate=1)["item_id"].to_list()
    originals = requests.filter(pl.col("replicate") == 0, pl.col("variant") == "iso:2024-01-01")["item_id"].to_list()
    assert copies == originals[::-1]


def test_two_styles_of_a_task_are_asked_side_by_side(simulated_spec: SweepSpec) -> None:
    both = [config.TaskSpec(name="mmlu", limit=3), config.TaskSpec(name="mmlu", style="cot", limit=5)]
    spec = simulated_spec.model_copy(update={"tasks": both})
    planned = plan.gather(spec)
    crossed = plan.cross(planned, spec)
    assert len(planned.items) == 5, "an item that two styles ask is kept once"
    counts = dict(crossed.filter(variant="control").group_by("style").len().iter_rows())
    assert counts == {"zero_shot": 3, "cot": 5}


def test_the_plan_has_the_schema_of_its_record(requests: pl.DataFrame) -> None:
    assert requests.schema == frames.schema(PlanRow)
    assert requests["position"].to_list() == list(range(requests.height))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 30))
def test_shards_hold_whole_groups_unless_a_group_is_larger_than_a_shard(sizes: list[int], shard_rows: int) -> None:
    rows = [
        {"variant": f"v{g}", "task": "t", "style": "s", "replicate": 0, "item_id": str(i)} for g, n in enumerate(sizes) for i in range(n)
    ]
    cut = plan.cut_shards(pl.DataFrame(rows).with_row_index("position"), shard_rows)
    assert cut["shard"].is_sorted()
    assert cut.group_by("shard").len()["len"].max() <= shard_rows  # type: ignore[operator]
    assert cut["shard"].unique().to_list() == list(range(cut["shard"].n_unique()))
    spread = cut.group_by("variant").agg(pl.col("shard").n_unique(), pl.len())
    for row in spread.iter_rows(named=True):
        assert row["shard"] <= -(-row["len"] // shard_rows)


def test_a_prompt_that_is_too_long_names_the_item_and_is_not_truncated(simulated_spec: SweepSpec, tmp_path: Path) -> None:
    short = [m.model_copy(update={"max_model_len": 60}) for m in simulated_spec.models]
    with pytest.raises(PromptError, match=r"item test-\d+: prompt and output need \d+ tokens, max_model_len is 60"):
        stages.make_plan(Run(tmp_path / "run"), simulated_spec.model_copy(update={"models": short}), Reporter())
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_the_same_sweep_plans_to_the_same_bytes(simulated_spec: SweepSpec, simulated_run: Run, tmp_path: Path) -> None:
    again = Run(tmp_path / "again")
    stages.make_plan(again, simulated_spec, Reporter())
    for name in ["manifest.json", *(f"plan/{t}.parquet" for t in store.PLAN_TABLES), "plan/prompts.json"]:
        assert (again.folder / name).read_bytes() == (simulated_run.folder / name).read_bytes(), name


def test_a_changed_sweep_in_the_same_folder_is_refused_with_the_keys_that_differ(simulated_spec: SweepSpec, simulated_run: Run) -> None:
    before = simulated_run.manifest_path.read_bytes()
    changed = simulated_spec.model_copy(update={"calendar": simulated_spec.calendar.model_copy(update={"step": 60})})
    with pytest.raises(StoreError, match=r"sweep\.calendar\.step: was 61, now 60"):
        stages.make_plan(simulated_run, changed, Reporter())
    assert simulated_run.manifest_path.read_bytes() == before


@pytest.mark.parametrize(
    "update", [{"title": "other"}, {"description": "other"}, {"allow_code_execution": True}, {"narrowing": {"--limit": "12"}}]
)
def test_what_changes_no_completion_may_change(
    simulated_spec: SweepSpec, simulated_run: Run, update: dict[str, object], tmp_path: Path
) -> None:
    shutil.copytree(simulated_run.folder, tmp_path / "run")
    stages.make_plan(Run(tmp_path / "run"), simulated_spec.model_copy(update=update), Reporter())


def test_consent_and_places_are_not_stored_in_the_run(simulated_run: Run) -> None:
    assert not {"allow_code_execution", "data_root"} & {*simulated_run.manifest()["sweep"]}


def test_planning_again_keeps_what_may_change_up_to_date(simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    shutil.copytree(simulated_run.folder, tmp_path / "run")
    run = Run(tmp_path / "run")
    stages.make_plan(run, simulated_spec.model_copy(update={"title": "new"}), Reporter())
    assert stages.spec_of(run).title == "new"


def test_the_counts_are_what_the_plan_holds(simulated_run: Run, requests: pl.DataFrame) -> None:
    counts = simulated_run.manifest()["counts"]
    assert counts["prompts"] == requests.height == 20 * 8
    assert counts["dates"] == 6
    assert counts["shards_per_model"] == requests["shard"].n_unique()


def test_dates_of_a_sweep_without_leap_day() -> None:
    days = config.CalendarSpec(first=datetime.date(2024, 2, 27), last=datetime.date(2024, 3, 2)).days()
    assert [d.day for d in days] == [27, 28, 1, 2]
