"""From plan to shards: what is written, and that killing and resuming leaves no trace.

Replicas here run the simulated engine; `test_end_to_end.py` runs real vLLM.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from pipeline import cluster, generate
from pipeline.core import tables
from pipeline.core.errors import DataError, StoreError
from pipeline.core.progress import Reporter
from pipeline.core.records import Completion
from pipeline.settings import SweepSpec
from pipeline.store import Run
from pipeline.sweep import run_sweep
from tests.conftest import REPOSITORY, SIMULATED_SWEEP
from tests.runs import files_of


def completions(run: Run) -> pl.DataFrame:
    return run.completions().sort(tables.ROW_KEY).collect()


def test_every_planned_request_has_one_completion_with_its_key(simulated_run: Run) -> None:
    planned = simulated_run.requests().collect()
    made = completions(simulated_run)
    assert made.schema == tables.schema(Completion)
    key = ["task", "style", "item_id", "variant", "replicate"]
    assert made.select(key).sort(key).equals(planned.select(key).sort(key))


def test_a_shard_is_in_plan_order_although_outputs_come_in_another(simulated_run: Run) -> None:
    planned = simulated_run.requests().filter(shard=0).collect()
    stored = pl.read_parquet(simulated_run.completion_path("simulated", 0))
    assert stored["item_id"].to_list() == planned["item_id"].to_list()


def test_a_finished_run_starts_nothing(
    simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "session", None)
    generate.generate(simulated_run, simulated_spec, Reporter())


def test_lost_shards_are_made_again_to_the_same_bytes(
    simulated_run: Run, simulated_spec: SweepSpec, copied_run: Run
) -> None:
    run = copied_run
    for shard in (0, 3):
        run.completion_path("simulated", shard).unlink()
    kept = run.completion_path("simulated", 1).stat().st_mtime_ns
    generate.generate(run, simulated_spec, Reporter())
    assert files_of(run, "completions") == files_of(simulated_run, "completions")
    assert run.completion_path("simulated", 1).stat().st_mtime_ns == kept, (
        "finished shards are kept"
    )


def test_another_engine_than_the_run_was_begun_with_is_refused(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    run = copied_run
    run.completion_path("simulated", 0).unlink()
    path = run.folder / "engines" / "simulated.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "versions": {"vllm": "0.1"}}))
    with pytest.raises(StoreError, match=r"versions\.vllm: was \"0\.1\", now null"):
        generate.generate(run, simulated_spec, Reporter())


def test_a_checkpoint_that_changed_after_the_plan_is_refused(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    run = copied_run
    run.completion_path("simulated", 0).unlink()
    manifest = run.manifest()
    manifest.settings.checkpoints["simulated"]["weights"] = "0" * 16
    run.write_manifest(manifest)
    with pytest.raises(DataError, match=r"weights in .* changed since the run was planned"):
        generate.generate(run, simulated_spec, Reporter())


WHOLE_RUN = """
import sys
from pipeline import settings
from pipeline.core.progress import Reporter
from pipeline.sweep import run_sweep

run_sweep(settings.load_sweep(sys.argv[1]), sys.argv[2], Reporter())
"""


def kill_once_there_are(files: Path, command: list[str], timeout_s: float = 120.0) -> None:
    """Run `command`, and kill it as soon as the folder `files` has one that is whole."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + timeout_s
    while not any(files.rglob("[!.]*.parquet")) and process.poll() is None:
        assert time.monotonic() < deadline, "the run did not get there"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.usefixtures("ray_session")
def test_a_run_killed_with_sigkill_goes_on_to_the_same_bytes(
    simulated_spec: SweepSpec, simulated_run: Run, tmp_path: Path
) -> None:
    sweep, folder = tmp_path / "small.toml", tmp_path / "run"
    sweep.write_text(SIMULATED_SWEEP.format(configs=(REPOSITORY / "configs").resolve()))
    command = [sys.executable, "-c", WHOLE_RUN, str(sweep), str(folder)]
    kill_once_there_are(folder / "completions", command)
    kill_once_there_are(folder / "scores", command)
    assert not (folder / "tables").exists(), "it was killed before its end"
    run = run_sweep(simulated_spec, folder, Reporter())
    parts = ("completions", "scores", "tables", "plan")
    assert files_of(run, *parts) == files_of(simulated_run, *parts)
