"""Generation from plan to shards: what is written, and that killing and resuming leaves no trace. Replicas here run the simulated engine;
`test_end_to_end.py` runs real vLLM."""

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

from pipeline import cluster, frames, generate, plan, stages, tasks
from pipeline.compose import Composer
from pipeline.config import EngineSpec, ModelSpec, SamplingSpec, SweepSpec
from pipeline.errors import DataError, EngineError, StoreError
from pipeline.progress import Reporter
from pipeline.prompts import PromptBuilder
from pipeline.records import Completion
from pipeline.simulated import SimulatedEngine
from pipeline.store import Run


def completions(run: Run) -> pl.DataFrame:
    return run.completions().sort(frames.ROW_KEY).collect()


def copy_of(run: Run, folder: Path) -> Run:
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns(".lock"))
    return Run(folder)


def files_of(run: Run, *parts: str) -> dict[str, bytes]:
    return {str(p.relative_to(run.folder)): p.read_bytes() for part in parts for p in sorted((run.folder / part).rglob("*")) if p.is_file()}


def test_every_planned_request_has_one_completion_with_its_key(simulated_run: Run) -> None:
    planned = simulated_run.plan_table("requests")
    made = completions(simulated_run)
    assert made.schema == frames.schema(Completion)
    key = ["task", "style", "item_id", "variant", "replicate"]
    assert made.select(key).sort(key).equals(planned.select(key).sort(key))


def test_the_stored_prompt_hash_is_that_of_the_prompt_rendered_anew(
    simulated_run: Run, simulated_spec: SweepSpec, demo_folder: Path
) -> None:
    builder = PromptBuilder(simulated_spec.models[0], demo_folder)
    planned = plan.gather(simulated_spec)
    items = {i.item_id: i for i in planned.items}
    row = completions(simulated_run).filter(pl.col("variant") == "iso:2024-03-03").row(3, named=True)
    prompt = builder.item_prompt(tasks.get(row["task"]), items[row["item_id"]], planned.variants[-1])
    assert row["prompt_hash"] == frames.prompt_hash(builder.encode(prompt.text("2024-03-03")))


def test_a_shard_is_in_plan_order_although_outputs_come_in_another(simulated_run: Run) -> None:
    planned = simulated_run.plan_table("requests").filter(shard=0)
    stored = pl.read_parquet(simulated_run.completion_path("simulated", 0))
    assert stored["item_id"].to_list() == planned["item_id"].to_list()


def test_seeds_belong_to_the_item_and_not_to_the_date(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    drawn = simulated_spec.models[0].model_copy(update={"sampling": SamplingSpec(temperature=0.7)})
    composer = Composer(simulated_run, simulated_spec, drawn)
    rows = simulated_run.plan_table("requests").filter(task="gsm8k").to_dicts()
    seeds = {(r["item_id"], composer.request(r).sampling.seed) for r in rows}
    assert len(seeds) == len({item for item, _ in seeds}) == 4
    assert len({seed for _, seed in seeds}) == 4
    labels = simulated_run.plan_table("requests").filter(task="mmlu").row(0, named=True)
    assert composer.request(labels).sampling.temperature == 0, "label tasks never draw"


def test_a_finished_run_starts_nothing(simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "session", None)
    generate.generate(simulated_run, simulated_spec, Reporter())


def test_lost_shards_are_made_again_to_the_same_bytes(simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    for shard in (0, 3):
        run.completion_path("simulated", shard).unlink()
    kept = run.completion_path("simulated", 1).stat().st_mtime_ns
    generate.generate(run, simulated_spec, Reporter())
    assert files_of(run, "completions") == files_of(simulated_run, "completions")
    assert run.completion_path("simulated", 1).stat().st_mtime_ns == kept, "finished shards are kept"


def test_two_replicas_make_the_same_bytes_as_one(simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    shutil.rmtree(run.folder / "completions")
    two = simulated_spec.model_copy(update={"engine": simulated_spec.engine.model_copy(update={"replicas": 2, "threads": 1})})
    generate.generate(run, two, Reporter())
    assert files_of(run, "completions") == files_of(simulated_run, "completions")
    assert len(list((run.folder / "logs").glob("engine-simulated-*.log"))) == 2


def test_another_engine_than_the_run_was_begun_with_is_refused(simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    run.completion_path("simulated", 0).unlink()
    path = run.folder / "engines" / "simulated.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "versions": {"vllm": "0.1"}}))
    with pytest.raises(StoreError, match=r"versions\.vllm: was \"0\.1\", now null"):
        generate.generate(run, simulated_spec, Reporter())


def test_a_replica_that_fails_is_an_error_with_the_end_of_its_log(simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    run.completion_path("simulated", 0).unlink()
    (run.folder / "plan" / "requests.parquet").rename(run.folder / "plan" / "kept")
    run.folder.joinpath("plan", "requests.parquet").write_bytes((run.folder / "plan" / "items.parquet").read_bytes())
    shards = pl.DataFrame({"shard": [0], "len": [32]})
    with pytest.raises(EngineError, match="a replica failed"), cluster.session(None) as resources:
        generate._generate_model(run, simulated_spec, simulated_spec.models[0], shards, [0], resources, Reporter())


CPU = cluster.Resources(num_cpus=8, num_gpus=0)
GPUS = cluster.Resources(num_cpus=32, num_gpus=8)


def place(
    engine: EngineSpec, model: dict[str, object], resources: cluster.Resources, shards: int = 100, build: str = "gpu"
) -> generate.Layout:
    spec = SweepSpec.model_construct(engine=engine)
    raw = {"name": "m", "title": "m", "licence": "x", "weights": {"path": "m"}, **model}
    return generate.layout(spec, ModelSpec.model_validate(raw), resources, shards, build)


@pytest.mark.parametrize(
    ("engine", "model", "resources", "expected"),
    [
        ({}, {}, CPU, ("cpu", 1, 8, 0)),
        ({"replicas": 2}, {}, CPU, ("cpu", 2, 4, 0)),
        ({}, {}, GPUS, ("gpu", 8, 4, 1)),
        ({}, {"tensor_parallel_size": 4}, GPUS, ("gpu", 2, 16, 4)),
        ({}, {"backend": "simulated"}, GPUS, ("cpu", 1, 32, 0)),
    ],
)
def test_replicas_are_gpus_over_tensor_parallel_size_and_one_on_cpu(
    engine: dict[str, object], model: dict[str, object], resources: cluster.Resources, expected: tuple[object, ...]
) -> None:
    placed = place(EngineSpec.model_validate(engine), model, resources)
    assert (placed.device, placed.num_replicas, placed.threads, placed.num_gpus) == expected


def test_the_device_is_what_the_installed_vllm_is_built_for() -> None:
    assert place(EngineSpec(), {}, GPUS, build="cpu").device == "cpu", "a GPU is of no use to vLLM's CPU build"
    assert place(EngineSpec(device="cpu"), {}, GPUS, build="cpu").device == "cpu"
    for wanted, build in (("gpu", "cpu"), ("cpu", "gpu")):
        with pytest.raises(EngineError, match=rf"built for {build}.*extra \[{wanted}\]"):
            place(EngineSpec.model_validate({"device": wanted}), {}, GPUS, build=build)


def test_a_checkpoint_that_changed_after_the_plan_is_refused(simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    run.completion_path("simulated", 0).unlink()
    manifest = run.manifest()
    manifest["settings"]["checkpoints"]["simulated"]["weights"] = "0" * 16
    run.manifest_path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"weights in .* changed since the run was planned"):
        generate.generate(run, simulated_spec, Reporter())


def test_there_are_never_more_replicas_than_shards() -> None:
    assert place(EngineSpec(), {}, GPUS, shards=3).num_replicas == 3


@pytest.mark.parametrize(
    ("engine", "model", "resources"),
    [
        ({"replicas": 9}, {}, GPUS),
        ({"device": "gpu"}, {}, CPU),
        ({}, {"tensor_parallel_size": 16}, GPUS),
        ({"replicas": 4, "threads": 4}, {}, CPU),
    ],
)
def test_more_than_the_machine_has_is_refused(engine: dict[str, object], model: dict[str, object], resources: cluster.Resources) -> None:
    with pytest.raises(EngineError, match=r"Ray has|Ray's"):
        place(EngineSpec.model_validate(engine), model, resources)


SLOW = """
import sys, time
from pathlib import Path
from pipeline import engine, generate, score, settings, stages
from pipeline.progress import Reporter
from pipeline.simulated import SimulatedEngine
from pipeline.store import Run

spec, run = settings.load_sweep(sys.argv[1]), Run(Path(sys.argv[2]))
with run.locked():
    stages.make_plan(run, spec, Reporter())
    generate.generate(run, spec, Reporter())
    score.score(run, spec, Reporter())
    stages.analyse(run, spec, Reporter())
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
    sweep.write_text(conftest_sweep())
    command = [sys.executable, "-c", SLOW, str(sweep), str(folder)]
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(lambda: any((folder / stage).rglob("[!.]*.parquet")) or killed.poll() is not None)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not (folder / "tables").exists(), "it was killed before its end"
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    parts = ("completions", "scores", "tables", "plan")
    assert files_of(Run(folder), *parts) == files_of(simulated_run, *parts)


def conftest_sweep() -> str:
    from tests.conftest import REPOSITORY, SIMULATED_SWEEP

    return SIMULATED_SWEEP.format(configs=(REPOSITORY / "configs").resolve())


def test_the_simulated_backend_is_what_a_replica_gets(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    composer = Composer(simulated_run, simulated_spec, simulated_spec.models[0])
    assert simulated_run.engine_facts("simulated")["backend"] == "simulated"
    row = simulated_run.plan_table("requests").row(0, named=True)
    request = composer.request(row)
    assert simulated_spec.models[0].simulated is not None
    [output] = SimulatedEngine(simulated_spec.models[0].simulated, composer.asked).generate(iter([request]))
    assert output.num_prompt_tokens == len(request.token_ids)
    assert stages.spec_of(simulated_run).models == simulated_spec.models
