"""The command as a user meets it: help, lists, the prompt shown, errors with exit status 2."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pipeline import cli, settings, tasks
from pipeline.commands.list import KINDS, tables
from pipeline.commands.show import show
from pipeline.core import registry
from pipeline.core.errors import ConfigError
from pipeline.core.records import CONTROL
from pipeline.store import Run
from pipeline.sweep import default_folder
from pipeline.tasks import Style

YEARS = """
name = "years"
models = ["simulated"]
data_root = "{configs}/demo"
[calendar]
dates = [2024-03-05, 2024-02-29]
years = [2023, 2025]
[conditions]
placements = ["user_end"]
wordings = ["helpful"]
[[tasks]]
name = "mmlu"
limit = 1
"""

COMMANDS = [
    "run",
    "plan",
    "generate",
    "score",
    "analyse",
    "report",
    "status",
    "show",
    "list",
    "bench",
    "fetch",
    "join",
    "compare",
    "doctor",
]


def call(*arguments: str, code: int = 0, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160", "TERM": "dumb"} | variables,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_help_names_every_command() -> None:
    printed = CliRunner().invoke(cli.app, ["--help"]).output
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", printed)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(cli.app, [command, "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.output


def test_help_answers_in_half_a_second() -> None:
    def once() -> float:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pipeline", "--help"], capture_output=True, check=True
        )
        bare = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], capture_output=True, check=True)
        # What the interpreter alone needs is the machine's affair, and tells how busy it is.
        return bare - started - 4 * max(0.0, time.perf_counter() - bare - 0.03)

    once()
    assert statistics.median(once() for _ in range(5)) < 0.5


def test_a_user_error_is_one_message_and_status_2(tmp_path: Path) -> None:
    printed = call("status", str(tmp_path), code=2)
    assert "no run folder" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("kind", [*KINDS])
def test_list_shows_each_kind(kind: str) -> None:
    expected = {
        "tasks": "humaneval",
        "models": "smollm2-135m-instruct",
        "metrics": "chrf",
        "formats": "05 Mar 2024",
        "conditions": "Tokyo, Japan",
        "sweeps": "full-year-cpu",
    }
    assert expected[kind] in call("list", kind)


@pytest.mark.parametrize("kind", ["tasks", "models", "sweeps"])
def test_lists_cut_no_name_at_80_columns(kind: str) -> None:
    printed = call("list", kind, COLUMNS="80")
    names = {
        "tasks": [*registry.names("tasks"), "zero_shot", "five_shot", "pass_at_1"],
        "models": settings.model_names(),
        "sweeps": ["demo", "paper/paper-size/table5-option-order"],
    }
    cells = {cell.strip() for line in printed.splitlines() for cell in line.split("│")}
    assert set(names[kind]) <= cells
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_list_of_tasks_has_the_metrics_of_every_style(monkeypatch: pytest.MonkeyPatch) -> None:
    styles = {
        "zero_shot": Style(kind="text", metrics=("bleu",), max_tokens=1),
        "cot": Style(kind="text", metrics=("chrf",), max_tokens=1),
    }
    monkeypatch.setattr(type(tasks.get("gsm8k")), "styles", styles)
    console = Console(width=160)
    with console.capture() as capture:
        console.print(tables("tasks"))
    lines = capture.get().splitlines()
    (row,) = [i for i, line in enumerate(lines) if "gsm8k " in line]
    assert "bleu" in lines[row] and "chrf" in lines[row + 1]


def test_list_of_conditions_names_the_table_of_the_sweep() -> None:
    assert "for [conditions] in a sweep" in call("list", "conditions")


def test_list_of_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tasks'"):
        tables("task")


def test_show_prints_the_prompt_its_ids_and_the_span_of_the_date() -> None:
    printed = call("show", "demo", "--task", "mmlu", "--date", "2024-03-05")
    assert "Current date: 2024-03-05." in printed
    assert "Answer:" in printed
    assert "the date in 7..16" in printed
    assert "' A' = 330" in printed
    assert "1 9690 198" in printed


def test_show_writes_the_date_in_a_format() -> None:
    assert "Current date: 05 Mar 2024." in call(
        "show", "demo", "--task", "gsm8k", "--date", "2024-03-05", "--condition", "day_month_year"
    )


def test_show_takes_any_condition() -> None:
    given = "iso;placement=user_end;wording=helpful;order=2;location=tokyo"
    printed = call(
        "show", "demo", "--task", "mmlu.zero_shot", "--date", "2024-03-05", "--condition", given
    )
    for text in ("You are a helpful assistant.", "Tokyo, Japan", "Current date: 2024-03-05."):
        assert text in printed
    assert printed.index("D. ") < printed.index("Current date:")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("isso", "did you mean 'iso'"),
        ("iso;placment=user_end", "did you mean 'placement'"),
        ("iso;placement=user_ent", "'user_end'"),
    ],
)
def test_show_of_an_unknown_condition_names_the_nearest(condition: str, words: str) -> None:
    assert words in call(
        "show", "demo", "--task", "mmlu", "--condition", condition, code=2
    ).replace("\n", " ")


@pytest.mark.parametrize(
    ("date", "condition", "variant"),
    [
        (None, None, "iso:2023-03-05;placement=user_end;wording=helpful;year=2023"),
        ("2025-07-01", None, "iso:2025-07-01;placement=user_end;wording=helpful;year=2025"),
        (CONTROL, None, "control;wording=helpful"),
        (None, "iso;year=2025", "iso:2025-03-05;year=2025"),
        ("2025-07-01", "iso;wording=expert;year=2025", "iso:2025-07-01;wording=expert;year=2025"),
        (None, "control;wording=expert", "control;wording=expert"),
        (CONTROL, "control;order=1", "control;order=1"),
    ],
)
def test_show_says_under_which_variant(
    tmp_path: Path, date: str | None, condition: str | None, variant: str
) -> None:
    assert f"variant {variant} " in shown(tmp_path, date, condition)


@pytest.mark.parametrize(
    ("date", "condition", "words"),
    [
        ("2024-01-01", "control", "a control has no date"),
        (CONTROL, "iso", "control means that there is no date"),
        ("2024-01-01", "iso;year=2023", "allowed: a date in 2023"),
        (None, "control;year=2023", "allowed behind control: wording, order, location"),
        (None, "control;placement=user_end", "allowed behind control: wording, order, location"),
        (None, "iso;order=1;order=2", "order is given twice"),
        (None, "iso;year=soon", "years.0: given 'soon'"),
        ("2024-02-29", "iso;year=2023", "allowed: a date in 2023"),
        ("yesterday", "iso", "allowed: a date like 2024-03-05, or control"),
    ],
)
def test_show_of_a_contradiction_is_refused(
    tmp_path: Path, date: str | None, condition: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        shown(tmp_path, date, condition)


def shown(folder: Path, date: str | None, condition: str | None) -> str:
    """What `show` prints of the sweep `YEARS` on 80 columns, each run of spaces as one."""
    path = folder / "years.toml"
    path.write_text(YEARS.format(configs=settings.configs_folder().resolve()))
    console = Console(width=80)
    with console.capture() as capture:
        console.print(show(settings.load_sweep(str(path)), None, date, condition))
    return " ".join(capture.get().split()) + " "


def test_show_of_the_control_has_no_date() -> None:
    printed = call("show", "demo", "--task", "gsm8k", "--date", CONTROL)
    assert "Current date" not in printed
    assert "no date" in printed


def test_show_of_an_unknown_item_names_the_nearest() -> None:
    assert "did you mean" in call("show", "demo", "--task", "mmlu", "--item", "test-0000", code=2)


def test_status_says_what_is_done_and_what_comes_next(simulated_run: Run, tmp_path: Path) -> None:
    assert "160 of 160 completions" in call("status", str(simulated_run.folder))


def test_a_planned_run_says_what_to_do_next(tmp_path: Path) -> None:
    printed = call("plan", "full-year-cpu", "--limit", "1", "--out", str(tmp_path / "run"))
    assert "2024-02-29 is left out" in printed
    assert '`leap_day = "keep"` under [calendar]' in printed
    assert f"datesweep generate {tmp_path / 'run'}" in printed.replace("\n", "")
    assert "generate" in call("status", str(tmp_path / "run"))
    assert "generation is not complete" in call("score", str(tmp_path / "run"), code=2)


def test_planning_says_at_once_what_is_missing_and_needs_no_weights(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(
        'name = "m"\ntitle = "m"\nlicence = "x"\n[weights]\nhub = "acme/none"\n'
    )
    (tmp_path / "s.toml").write_text('name = "s"\nmodels = ["m.toml"]\n[[tasks]]\nname = "mmlu"\n')
    hidden = {
        "DATESWEEP_CACHE": str(tmp_path / "cache"),
        "HF_HUB_CACHE": str(tmp_path / "hf"),
        "DATESWEEP_DATA": "",
    }
    printed = call(
        "plan", str(tmp_path / "s.toml"), "--out", str(tmp_path / "run"), code=2, **hidden
    )
    assert (
        "this machine lacks:\n  data cais/mmlu, configuration all, split test\n  model m: acme/none"
        in printed
    )
    assert not (tmp_path / "run").exists()


def test_generating_looks_for_no_data(simulated_run: Run, tmp_path: Path) -> None:
    hidden = {"DATESWEEP_CACHE": str(tmp_path / "cache"), "DATESWEEP_DATA": ""}
    assert "every completion is there already" in call(
        "generate", str(simulated_run.folder), **hidden
    )


def test_scoring_without_consent_names_its_own_option_only(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    call(
        "plan",
        "demo",
        "--models",
        "simulated",
        "--tasks",
        "humaneval",
        "--limit",
        "1",
        "--dates",
        "1",
        "--out",
        str(folder),
    )
    printed = call("score", str(folder), code=2)
    assert f"`datesweep score {folder} --allow-code-execution`" in printed
    assert "--tasks" not in printed and "in the sweep" not in printed
    assert "generation is not complete" in call(
        "score", str(folder), "--allow-code-execution", code=2
    )


def test_join_looks_at_the_name_of_its_file_first(tmp_path: Path) -> None:
    assert "ends in .parquet or .csv" in call(
        "join", str(tmp_path / "a"), str(tmp_path / "b"), "--out", "x.xlsx", code=2
    )


def test_narrowed_runs_have_folders_of_their_own() -> None:
    spec = settings.load_sweep("demo")
    whole = default_folder(spec)
    few, fewer = (
        default_folder(settings.override(spec, settings.Overrides(limit=n))) for n in (3, 2)
    )
    assert whole == Path("runs/demo")
    assert len({whole, few, fewer}) == 3


def test_doctor_ends_with_status_1_where_something_would_stop_a_run() -> None:
    printed = call("doctor", "--no-ray", code=1, DATESWEEP_DATA="/no/such/folder")
    assert "/no/such/folder is no folder" in printed
    assert "1 problem(s) would stop a run" in printed
    assert "nothing stands in the way" in call("doctor", "--no-ray")


def test_two_runs_are_compared_and_written(simulated_run: Run, tmp_path: Path) -> None:
    folder = str(simulated_run.folder)
    printed = call("compare", folder, folder, "--out", str(tmp_path / "c.csv"))
    assert "B minus A: simulated" in printed
    assert "0.00 to 0.00" in printed
    assert (tmp_path / "c.csv").is_file()
    assert "allowed: a file that ends in" in call(
        "compare", folder, folder, "--out", "x.txt", code=2
    )
    assert "is no run folder" in call("compare", folder, str(tmp_path / "none"), code=2)


def test_a_run_is_judged_by_other_metrics_on_demand(simulated_run: Run, tmp_path: Path) -> None:
    folder = str(
        shutil.copytree(
            simulated_run.folder, tmp_path / "run", ignore=shutil.ignore_patterns(".lock")
        )
    )
    assert "no metric 'acuracy'" in call("score", folder, "--metrics", "acuracy", code=2)
    call("score", folder, "--metrics", "accuracy,brier,chrf")
    found = (
        Run(folder)
        .scores()
        .select("task", "metric")
        .unique()
        .sort("task", "metric")
        .collect()
        .rows()
    )
    assert found == [
        ("gsm8k", "accuracy"),
        ("mmlu", "accuracy"),
        ("mmlu", "brier"),
        ("wmt16_en_de", "chrf"),
    ]
