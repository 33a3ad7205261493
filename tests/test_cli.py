"""The command as a user meets it: help, lists, the prompt shown, errors with exit status 2."""

import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline import cli, inspect, settings
from pipeline.errors import ConfigError
from pipeline.records import CONTROL
from pipeline.store import Run

COMMANDS = ["run", "plan", "generate", "score", "analyse", "report", "status", "show", "list", "bench", "fetch", "join"]


def call(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "pipeline", *arguments], capture_output=True, text=True, env=_wide())
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def _wide() -> dict[str, str]:
    import os

    return {**os.environ, "COLUMNS": "160", "TERM": "dumb"}


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
        subprocess.run([sys.executable, "-m", "pipeline", "--help"], capture_output=True, check=True)
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


@pytest.mark.parametrize("kind", inspect.KINDS)
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


def test_list_of_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tasks'"):
        inspect.listing("task")


def test_show_prints_the_prompt_its_ids_and_the_span_of_the_date() -> None:
    printed = call("show", "demo", "--task", "mmlu", "--date", "2024-03-05")
    assert "Current date: 2024-03-05." in printed
    assert "Answer:" in printed
    assert "the date in 7..16" in printed
    assert "' A' = 330" in printed
    assert "1 9690 198" in printed


def test_show_writes_the_date_in_a_format() -> None:
    assert "Current date: 05 Mar 2024." in call("show", "demo", "--task", "gsm8k", "--date", "2024-03-05", "--condition", "day_month_year")


def test_show_takes_any_condition() -> None:
    given = "iso;placement=user_end;wording=helpful;order=2;location=tokyo"
    printed = call("show", "demo", "--task", "mmlu.zero_shot", "--date", "2024-03-05", "--condition", given)
    for text in ("You are a helpful assistant.", "Tokyo, Japan", "Current date: 2024-03-05."):
        assert text in printed
    assert printed.index("D. ") < printed.index("Current date:")


@pytest.mark.parametrize(
    ("condition", "words"),
    [("isso", "did you mean 'iso'"), ("iso;placment=user_end", "did you mean 'placement'"), ("iso;placement=user_ent", "'user_end'")],
)
def test_show_of_an_unknown_condition_names_the_nearest(condition: str, words: str) -> None:
    assert words in call("show", "demo", "--task", "mmlu", "--condition", condition, code=2).replace("\n", " ")


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


def test_narrowed_runs_have_folders_of_their_own() -> None:
    from pipeline import narrowing, stages

    spec = settings.load_sweep("demo")
    whole = stages.default_folder(spec)
    few, fewer = (stages.default_folder(narrowing.narrow(spec, limit=n)) for n in (3, 2))
    assert whole == Path("runs/demo")
    assert len({whole, few, fewer}) == 3
