"""The whole command on real vLLM, through Ray, on a tiny random model: every kind of task, from
sweep file to report.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pipeline.core import registry, tables
from pipeline.store.run_folder import Run

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


@pytest.fixture(scope="module")
def finished(
    tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("end-to-end")
    (folder / "tiny.toml").write_text(MODEL.format(folder=tiny_model_folder))
    (folder / "sweep.toml").write_text(SWEEP.format(demo=Path("configs/demo").resolve()))
    command = [
        sys.executable,
        "-m",
        "pipeline",
        "run",
        str(folder / "sweep.toml"),
        "--out",
        str(folder / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Run(folder / "run"), done


def test_every_request_has_a_completion_and_a_score(finished: tuple[Run, object]) -> None:
    run, _ = finished
    made = run.completions().collect()
    assert made.height == run.plan_table("requests").height == 10 * (2 + 1 + 1)
    unscored = made.join(run.scores().collect(), on=tables.OUTPUT_KEY, how="anti")
    assert unscored.is_empty()


def test_the_same_date_asked_again_gives_the_same_bits(finished: tuple[Run, object]) -> None:
    rates = finished[0].tables()["flip_rates"]
    assert rates["placebo_output_percent"].to_list() == [0.0] * rates.height


def test_every_analysis_is_there_as_parquet_and_csv(finished: tuple[Run, object]) -> None:
    run, _ = finished
    for name in registry.names("analyses"):
        assert pl.read_parquet(run.folder / "tables" / f"{name}.parquet").width > 3
        assert (run.folder / "tables" / f"{name}.csv").is_file()


def test_the_report_names_engine_model_and_fingerprint(finished: tuple[Run, object]) -> None:
    run, _ = finished
    page = (run.folder / "report.html").read_text()
    for word in ("0.32", run.manifest().fingerprint[:16], "block_size 32", "float32"):
        assert word in page
    assert "<svg" in page


def test_the_terminal_shows_our_lines_and_the_log_has_the_engines(
    finished: tuple[Run, subprocess.CompletedProcess[str]],
) -> None:
    run, done = finished
    assert "report:" in done.stderr
    assert "% from cache" in done.stderr
    assert "INFO" not in done.stderr + done.stdout
    assert (
        "vLLM" in (run.folder / "logs" / "engine-tiny-0.log").read_text()
        or "vllm" in (run.folder / "logs" / "engine-tiny-0.log").read_text()
    )


def test_the_figures_of_every_shard_are_kept_apart_from_its_content(
    finished: tuple[Run, object],
) -> None:
    run, _ = finished
    shards = run.telemetry()
    assert sum(s.requests for s in shards) == 40
    assert all(0 <= s.cached_tokens < s.prompt_tokens for s in shards)


def test_a_lost_shard_is_made_again_by_a_new_engine_to_the_same_bytes(
    finished: tuple[Run, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    run, done = finished
    copy = tmp_path / "run"
    shutil.copytree(run.folder, copy)
    lost = Run(copy).completion_path("tiny", 1)
    lost.unlink()
    shutil.rmtree(copy / "tables")
    again = subprocess.run(
        [str(a) for a in (*done.args[:-1], copy)], capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
    assert lost.read_bytes() == run.completion_path("tiny", 1).read_bytes()
    for table in sorted((run.folder / "tables").iterdir()):
        assert (copy / "tables" / table.name).read_bytes() == table.read_bytes()
