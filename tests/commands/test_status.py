from pathlib import Path

from pipeline.commands.status import status_table
from pipeline.core.progress import Reporter
from pipeline.plan import make_plan, planned_spec, with_metrics
from pipeline.report import provenance_of
from pipeline.settings import SweepSpec
from pipeline.store import Run
from tests.console import printed


def rows(run: Run) -> list[list[str]]:
    """The cells of each row of the status of `run`."""
    lines = printed(status_table(run), width=300).splitlines()
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]


def test_a_finished_run_has_nothing_left_to_do(simulated_run: Run) -> None:
    stages = rows(simulated_run)
    assert ["generate simulated", "160 of 160 completions", ""] in stages
    assert [stage for stage, _, command in stages if command] == []


def test_a_planned_run_is_to_be_generated(simulated_spec: SweepSpec, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    make_plan(run, simulated_spec, Reporter())
    stages = {stage: (done, command) for stage, done, command in rows(run)}
    command = f"datesweep generate {run.folder}"
    assert stages["generate simulated"] == ("0 of 160 completions", command)
    assert stages["analyse"] == ("nothing yet", f"datesweep analyse {run.folder}")


def test_chosen_metrics_are_said_in_the_status_and_in_the_report(
    simulated_run: Run, copied_run: Run
) -> None:
    heading = "Metrics chosen with score --metrics"
    with_metrics(copied_run, planned_spec(copied_run), ["accuracy", "brier", "chrf"])
    text = printed(status_table(copied_run), width=300)
    assert "mmlu.zero_shot by accuracy, brier, as `score --metrics` chose" in text
    sections = provenance_of(copied_run, planned_spec(copied_run)).sections
    assert sections[heading]["mmlu.zero_shot"] == "accuracy, brier"
    assert sections[heading]["wmt16_en_de.zero_shot"] == "chrf"
    assert "chose" not in printed(status_table(simulated_run), width=300)
    assert heading not in provenance_of(simulated_run, planned_spec(simulated_run)).sections
