import datetime
import json
import shutil
from pathlib import Path

import pytest

from pipeline import settings, store
from pipeline.core.errors import PromptError, StoreError
from pipeline.core.progress import Reporter
from pipeline.plan import make_plan, planned_spec
from pipeline.settings import SweepSpec
from pipeline.store import Run


def test_two_styles_of_a_task_are_asked_side_by_side(
    simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    both = [
        settings.TaskSpec(name="mmlu", limit=3),
        settings.TaskSpec(name="mmlu", style="cot", limit=5),
    ]
    spec = simulated_spec.model_copy(update={"tasks": both})
    run = Run(tmp_path / "run")
    planned = make_plan(run, spec, Reporter())
    assert len(planned.items) == 5, "an item that two styles ask is kept once"
    counts = dict(
        run.requests().filter(variant="control").group_by("style").len().collect().iter_rows()
    )
    assert counts == {"zero_shot": 3, "cot": 5}


def test_a_prompt_that_is_too_long_names_the_item_and_is_not_truncated(
    simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    short = [m.model_copy(update={"max_model_len": 60}) for m in simulated_spec.models]
    with pytest.raises(
        PromptError, match=r"item test-\d+: prompt and output need \d+ tokens, max_model_len is 60"
    ):
        make_plan(
            Run(tmp_path / "run"), simulated_spec.model_copy(update={"models": short}), Reporter()
        )
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_the_same_sweep_plans_to_the_same_bytes(
    simulated_spec: SweepSpec, simulated_run: Run, tmp_path: Path
) -> None:
    again = Run(tmp_path / "again")
    make_plan(again, simulated_spec, Reporter())
    for name in [
        "manifest.json",
        *(f"plan/{t}.parquet" for t in store.PLAN_TABLES),
        "plan/prompts.json",
    ]:
        assert (again.folder / name).read_bytes() == (simulated_run.folder / name).read_bytes(), (
            name
        )


def test_a_changed_sweep_in_the_same_folder_is_refused_with_the_keys_that_differ(
    simulated_spec: SweepSpec, simulated_run: Run
) -> None:
    before = simulated_run.manifest_path.read_bytes()
    changed = simulated_spec.model_copy(
        update={"calendar": simulated_spec.calendar.model_copy(update={"step": 60})}
    )
    with pytest.raises(StoreError, match=r"sweep\.calendar\.step: was 61, now 60"):
        make_plan(simulated_run, changed, Reporter())
    assert simulated_run.manifest_path.read_bytes() == before


@pytest.mark.parametrize(
    "update",
    [
        {"title": "other"},
        {"description": "other"},
        {"allow_code_execution": True},
        {"narrowing": {"--limit": "12"}},
    ],
)
def test_what_changes_no_completion_may_change(
    simulated_spec: SweepSpec, simulated_run: Run, update: dict[str, object], tmp_path: Path
) -> None:
    shutil.copytree(simulated_run.folder, tmp_path / "run")
    make_plan(Run(tmp_path / "run"), simulated_spec.model_copy(update=update), Reporter())


def test_consent_and_places_are_not_stored_in_the_run(simulated_run: Run) -> None:
    assert not {"allow_code_execution", "data_root"} & {*simulated_run.manifest().sweep}


def test_planning_again_keeps_what_may_change_up_to_date(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    shutil.copytree(simulated_run.folder, tmp_path / "run")
    run = Run(tmp_path / "run")
    make_plan(run, simulated_spec.model_copy(update={"title": "new"}), Reporter())
    assert planned_spec(run).title == "new"


def test_a_run_of_before_may_name_settings_that_are_no_more(
    simulated_run: Run, copied_run: Run
) -> None:
    manifest = json.loads(copied_run.manifest_path.read_text())
    manifest["sweep"]["engine"]["no_more"] = 1
    copied_run.manifest_path.write_text(json.dumps(manifest))
    assert planned_spec(copied_run) == planned_spec(simulated_run)


def test_the_counts_are_what_the_plan_holds(simulated_run: Run) -> None:
    counts, requests = simulated_run.manifest().counts, simulated_run.plan_table("requests")
    assert counts.prompts == requests.height == 20 * 8
    assert counts.dates == 6
    assert counts.shards_per_model == requests["shard"].n_unique()


def test_dates_of_a_sweep_without_leap_day() -> None:
    days = settings.CalendarSpec(
        first=datetime.date(2024, 2, 27), last=datetime.date(2024, 3, 2)
    ).days()
    assert [d.day for d in days] == [27, 28, 1, 2]
