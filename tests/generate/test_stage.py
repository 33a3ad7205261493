"""From plan to shards: what is written, and that killing and resuming leaves no trace.

Replicas here run the simulated engine; `test_end_to_end.py` runs real vLLM.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
from tests.conftest import REPOSITORY, SIMULATED_SWEEP
from tests.runs import copy_of, files_of


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
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    for shard in (0, 3):
        run.completion_path("simulated", shard).unlink()
    kept = run.completion_path("simulated", 1).stat().st_mtime_ns
    generate.generate(run, simulated_spec, Reporter())
    assert files_of(run, "completions") == files_of(simulated_run, "completions")
    assert run.completion_path("simulated", 1).stat().st_mtime_ns == kept, (
        "finished shards are kept"
    )


def test_two_replicas_make_the_same_bytes_as_one(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    shutil.rmtree(run.folder / "completions")
    two = simulated_spec.model_copy(
        update={"engine": simulated_spec.engine.model_copy(update={"replicas": 2, "threads": 1})}
    )
    generate.generate(run, two, Reporter())
    assert files_of(run, "completions") == files_of(simulated_run, "completions")
    assert len(list((run.folder / "logs").glob("engine-simulated-*.log"))) == 2


def test_another_engine_than_the_run_was_begun_with_is_refused(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    run.completion_path("simulated", 0).unlink()
    path = run.folder / "engines" / "simulated.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "versions": {"vllm": "0.1"}}))
    with pytest.raises(StoreError, match=r"versions\.vllm: was \"0\.1\", now null"):
        generate.generate(run, simulated_spec, Reporter())


def test_a_checkpoint_that_changed_after_the_plan_is_refused(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
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


def wait_until(condition: Callable[[], bool], timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the run did not get there"
        time.sleep(0.01)


@pytest.mark.parametrize("stage", ["completions", "scores"])
def test_a_run_killed_with_sigkill_goes_on_to_the_same_bytes(
    simulated_spec: SweepSpec, simulated_run: Run, tmp_path: Path, stage: str
) -> None:
    sweep, folder = tmp_path / "small.toml", tmp_path / "run"
    sweep.write_text(SIMULATED_SWEEP.format(configs=(REPOSITORY / "configs").resolve()))
    command = [sys.executable, "-c", WHOLE_RUN, str(sweep), str(folder)]
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(lambda: any((folder / stage).rglob("[!.]*.parquet")) or killed.poll() is not None)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not (folder / "tables").exists(), "it was killed before its end"
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    parts = ("completions", "scores", "tables", "plan")
    assert files_of(Run(folder), *parts) == files_of(simulated_run, *parts)
