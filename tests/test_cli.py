"""The command as a user meets it: help, errors with exit status 2, each command once."""

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pipeline import cli, settings
from pipeline.store import Run
from pipeline.sweep import default_folder

COMMANDS = "run plan generate score analyse report status show list bench fetch join compare doctor"


Call = Callable[..., str]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command in this process: all that it prints, once its status is `code`."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")

    def call(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["datesweep", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exited:
            cli.main()
        printed = "".join(capsys.readouterr())
        assert exited.value.code == code, printed
        return printed

    return call


def call_afresh(*arguments: str, code: int = 0, **variables: str) -> str:
    """As `call`, in a process of its own: libraries read some variables when they are imported."""
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
    for command in COMMANDS.split():
        assert re.search(rf"\b{command}\b", printed)


@pytest.mark.parametrize("command", COMMANDS.split())
def test_each_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(cli.app, [command, "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.output


def test_help_answers_in_half_a_second() -> None:
    def cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "pipeline", "--help"], capture_output=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Seconds of CPU, and the best of three: how busy the machine is, is not the command's affair.
    assert min(cpu_s() for _ in range(3)) < 0.5


def test_a_user_error_is_one_message_and_status_2(tmp_path: Path) -> None:
    printed = call_afresh("status", str(tmp_path), code=2)
    assert "no run folder" in printed
    assert "Traceback" not in printed


def test_a_planned_run_says_what_to_do_next(call: Call, tmp_path: Path) -> None:
    options = ("--tasks", "mmlu", "--limit", "1", "--out", str(tmp_path / "run"))
    printed = call("plan", "full-year-cpu", *options)
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
    printed = call_afresh(
        "plan", str(tmp_path / "s.toml"), "--out", str(tmp_path / "run"), code=2, **hidden
    )
    assert (
        "this machine lacks:\n  data cais/mmlu, configuration all, split test\n  model m: acme/none"
        in printed
    )
    assert not (tmp_path / "run").exists()


def test_generating_looks_for_no_data(
    call: Call, simulated_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DATESWEEP_DATA", "")
    assert "every completion is there already" in call("generate", str(simulated_run.folder))


def test_scoring_without_consent_names_its_own_option_only(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ("--tasks", "humaneval", "--limit", "1", "--dates", "1", "--models", "simulated")
    call("plan", "demo", *options, "--out", str(folder))
    printed = call("score", str(folder), code=2)
    assert f"`datesweep score {folder} --allow-code-execution`" in printed
    assert "--tasks" not in printed and "in the sweep" not in printed
    assert "generation is not complete" in call(
        "score", str(folder), "--allow-code-execution", code=2
    )


def test_join_looks_at_the_name_of_its_file_first(call: Call, tmp_path: Path) -> None:
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


def test_doctor_ends_with_status_1_where_something_would_stop_a_run(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nothing stands in the way" in call("doctor", "--no-ray")
    monkeypatch.setenv("DATESWEEP_DATA", "/no/such/folder")
    printed = call("doctor", "--no-ray", code=1)
    assert "/no/such/folder is no folder" in printed
    assert "1 problem(s) would stop a run" in printed


def test_two_runs_are_compared_and_written(call: Call, simulated_run: Run, tmp_path: Path) -> None:
    folder = str(simulated_run.folder)
    printed = call("compare", folder, folder, "--out", str(tmp_path / "c.csv"))
    assert "B minus A: simulated" in printed
    assert "0.00 to 0.00" in printed
    assert (tmp_path / "c.csv").is_file()
    assert "allowed: a file that ends in" in call(
        "compare", folder, folder, "--out", "x.txt", code=2
    )
    assert "is no run folder" in call("compare", folder, str(tmp_path / "none"), code=2)


def test_a_run_is_scored_by_other_metrics_on_demand(call: Call, copied_run: Run) -> None:
    folder = str(copied_run.folder)
    assert "no metric 'acuracy'" in call("score", folder, "--metrics", "acuracy", code=2)
    call("score", folder, "--metrics", "accuracy,brier,chrf")
    scored = copied_run.scores().select("task", "metric").unique().sort(pl.all()).collect()
    assert scored.rows() == [
        ("gsm8k", "accuracy"),
        ("mmlu", "accuracy"),
        ("mmlu", "brier"),
        ("wmt16_en_de", "chrf"),
    ]
    assert "mmlu.zero_shot by accuracy, brier, as `score --metrics` chose" in call("status", folder)


def test_show_and_list_print_what_can_be_asked(call: Call) -> None:
    options = ("--task", "mmlu.zero_shot", "--date", "2024-03-05", "--model", "simulated")
    assert "Current date: 2024-03-05." in call("show", "demo", *options)
    assert "did you mean 'mmlu.zero_shot'" in call("show", "demo", "--task", "mmlu.zero", code=2)
    assert "wmt16_en_de" in call("list")
