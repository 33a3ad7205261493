"""Benchmarks measure what they say; the engine's own figures are measured by `make bench`, not here."""

import json
from pathlib import Path

import pytest

from pipeline import bench
from pipeline.config import SweepSpec
from pipeline.progress import Reporter
from pipeline.store import Run


def test_the_last_line_is_json_with_units_in_the_keys(simulated_spec: SweepSpec, capsys: pytest.CaptureFixture[str]) -> None:
    figures = bench.main(simulated_spec, with_engine=False, reporter=Reporter())
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed == figures
    assert printed["compose_prompts_per_s"] > 0
    assert printed["overhead_requests_per_s"] > 0
    assert printed["cpu_cores"] >= 1


def test_the_overhead_run_writes_every_shard(simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(simulated_run.folder, tmp_path / "run")
    run = Run(tmp_path / "run")
    shutil.rmtree(run.folder / "completions")
    bench.overhead(run, simulated_spec, simulated_spec.models[0])
    assert len(list((run.folder / "completions").rglob("*.parquet"))) == run.manifest()["counts"]["shards_per_model"]
