"""The whole command on real vLLM, through Ray: every kind of task, from sweep file to report."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from pipeline.core import registry, tables
from pipeline.store.run_folder import Run
from tests.runs import copy_of, files_of

MODEL = """
name = "tiny"
title = "Tiny random Llama"
licence = "none"
[weights]
path = "{folder}"
"""

SWEEP = """
name = "tiny"
title = "Every kind of task on a tiny model"
models = ["tiny.toml"]
data_root = "{demo}"
allow_code_execution = true

[calendar]
dates = [2024-01-01, 2024-07-01]
placebo = 1

[[tasks]]
name = "mmlu"
limit = 4

[[tasks]]
name = "gsm8k"
limit = 2
max_tokens = 8

[[tasks]]
name = "humaneval"
limit = 2
max_tokens = 8

[[tasks]]
name = "wmt16_en_de"
limit = 2
max_tokens = 8

[engine]
shard_rows = 8
max_num_seqs = 16
kv_cache_gib = 1
"""


class Finished(NamedTuple):
    """A run of the command that ended well."""

    run: Run
    sweep: Path
    terminal: str
    """What it printed."""


def run_command(sweep: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """`datesweep run` as a user's shell starts it, without what an engine in this process set."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("VLLM_")}
    command = [sys.executable, "-m", "pipeline", "run", sweep, "--out", folder]
    done = subprocess.run(command, capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def finished(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("end-to-end")
    sweep = folder / "sweep.toml"
    (folder / "tiny.toml").write_text(MODEL.format(folder=tiny_model_folder))
    sweep.write_text(SWEEP.format(demo=Path("configs/demo").resolve()))
    done = run_command(sweep, folder / "run")
    return Finished(Run(folder / "run"), sweep, done.stderr + done.stdout)


def test_every_request_has_a_completion_and_a_score(finished: Finished) -> None:
    run = finished.run
    made = run.completions().collect()
    assert made.height == run.plan_table("requests").height == 10 * (2 + 1 + 1)
    unscored = made.join(run.scores().collect(), on=tables.OUTPUT_KEY, how="anti")
    assert unscored.is_empty()


def test_the_same_date_asked_again_gives_the_same_bits(finished: Finished) -> None:
    rates = finished.run.tables()["flip_rates"]
    assert rates["placebo_output_percent"].to_list() == [0.0] * rates.height


def test_every_analysis_is_there_as_parquet_and_csv(finished: Finished) -> None:
    run = finished.run
    for name in registry.names("analyses"):
        assert pl.read_parquet(run.folder / "tables" / f"{name}.parquet").width > 3
        assert (run.folder / "tables" / f"{name}.csv").is_file()


def test_the_report_names_engine_model_and_fingerprint(finished: Finished) -> None:
    run = finished.run
    page = (run.folder / "report.html").read_text()
    for word in ("0.32", run.manifest().fingerprint[:16], "block_size 32", "float32"):
        assert word in page
    assert "<svg" in page


def test_the_terminal_shows_our_lines_and_the_log_has_the_engines(finished: Finished) -> None:
    assert "report:" in finished.terminal
    assert "% from cache" in finished.terminal
    assert "INFO" not in finished.terminal
    assert "vllm" in (finished.run.folder / "logs" / "engine-tiny-0.log").read_text().lower()


def test_the_figures_of_every_shard_are_kept_apart_from_its_content(finished: Finished) -> None:
    run = finished.run
    shards = run.telemetry()
    assert sum(s.requests for s in shards) == 40
    assert all(0 <= s.cached_tokens < s.prompt_tokens for s in shards)


def test_a_lost_shard_is_made_again_by_a_new_engine_to_the_same_bytes(
    finished: Finished, tmp_path: Path
) -> None:
    run = copy_of(finished.run, tmp_path / "run")
    run.completion_path("tiny", 1).unlink()
    shutil.rmtree(run.folder / "tables")
    run_command(finished.sweep, Path(str(run.folder)))
    parts = ("completions", "scores", "tables")
    assert files_of(run, *parts) == files_of(finished.run, *parts)
