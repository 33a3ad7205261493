"""Generation from plan to shards: what is written, and that killing and resuming leaves no trace.
Replicas here run the simulated engine; `test_end_to_end.py` runs real vLLM."""

import contextlib
import inspect
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from pipeline import cluster, generate, tasks
from pipeline.core import tables
from pipeline.core.errors import DataError, EngineError, StoreError
from pipeline.core.progress import Reporter
from pipeline.core.records import Completion
from pipeline.engines.simulated import SimulatedEngine
from pipeline.generate.requests import Composer
from pipeline.plan import make_plan, planned_spec, stage as plan
from pipeline.prompts.render import PromptBuilder
from pipeline.settings.schema import SamplingSpec, SweepSpec
from pipeline.store.run_folder import Run
from tests.runs import copy_of, files_of


def completions(run: Run) -> pl.DataFrame:
    return run.completions().sort(tables.ROW_KEY).collect()


def test_every_planned_request_has_one_completion_with_its_key(simulated_run: Run) -> None:
    planned = simulated_run.requests().collect()
    made = completions(simulated_run)
    assert made.schema == tables.schema(Completion)
    key = ["task", "style", "item_id", "variant", "replicate"]
    assert made.select(key).sort(key).equals(planned.select(key).sort(key))


def test_the_stored_prompt_hash_is_that_of_the_prompt_rendered_anew(
    simulated_run: Run, simulated_spec: SweepSpec, demo_folder: Path
) -> None:
    builder = PromptBuilder(simulated_spec.models[0], demo_folder)
    planned = plan.gather(simulated_spec)
    items = {i.item_id: i for i in planned.items}
    row = (
        completions(simulated_run).filter(pl.col("variant") == "iso:2024-03-03").row(3, named=True)
    )
    prompt = builder.item_prompt(
        tasks.get(row["task"]), items[row["item_id"]], planned.variants[-1]
    )
    assert row["prompt_hash"] == tables.prompt_hash(builder.tokenizer.encode(prompt.text("2024-03-03")))


def test_work_beside_the_engines_is_called_with_the_cores_kept_from_them(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    run.completion_path("simulated", 0).unlink()
    spec = simulated_spec.model_copy(
        update={"engine": simulated_spec.engine.model_copy(update={"scoring_cpus": 1})}
    )
    called: list[list[int]] = []
    said = io.StringIO()
    reporter = Reporter(Console(file=said, width=200))

    def beside(cores: Mapping[str, int]) -> str:
        called.append([*cores.values()])
        return "12 outputs scored"

    generate.generate(run, spec, reporter, beside=beside)
    assert called
    assert all(cores == [1] for cores in called)
    assert "12 outputs scored" in said.getvalue()
    assert completions(run).equals(completions(simulated_run))


def test_a_shard_is_in_plan_order_although_outputs_come_in_another(simulated_run: Run) -> None:
    planned = simulated_run.requests().filter(shard=0).collect()
    stored = pl.read_parquet(simulated_run.completion_path("simulated", 0))
    assert stored["item_id"].to_list() == planned["item_id"].to_list()


def test_seeds_belong_to_the_item_and_not_to_the_date(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    drawn = simulated_spec.models[0].model_copy(update={"sampling": SamplingSpec(temperature=0.7)})
    composer = Composer(simulated_run, simulated_spec, drawn)
    rows = simulated_run.requests().filter(task="gsm8k").collect().to_dicts()
    seeds = {(r["item_id"], composer.request(r["position"]).sampling.seed) for r in rows}
    assert len(seeds) == len({item for item, _ in seeds}) == 4
    assert len({seed for _, seed in seeds}) == 4
    label_task = simulated_run.requests().filter(task="mmlu").collect().row(0, named=True)
    assert composer.request(label_task["position"]).sampling.temperature == 0, (
        "label tasks never draw"
    )


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


def test_replicas_that_keep_failing_end_the_stage_with_the_end_of_their_log(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run, said = copy_of(simulated_run, tmp_path / "copy"), Said()
    for shard in (1, 2):
        run.completion_path("simulated", shard).unlink()
    (run.folder / "telemetry" / "simulated" / "000001.json").unlink()
    (run.folder / "telemetry" / "simulated" / "000001.json").mkdir()  # shard 1 cannot be written
    failed = r"replica 0 of simulated died \(IsADirectoryError: .*\), 4 times without progress.*\n.*engine-simulated-0\.log:\nreplica 0"
    with pytest.raises(EngineError, match=failed):
        generate.generate(run, simulated_spec, said)
    assert len(said.lines_with("go back to the queue")) == generate.RESTARTS
    assert not run.completion_path("simulated", 1).exists()


def test_an_error_raised_on_purpose_ends_the_stage_at_once(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run, said = copy_of(simulated_run, tmp_path / "copy"), Said()
    run.completion_path("simulated", 0).unlink()
    as_seen_here = {**run.manifest(), "fingerprint": "not what the replica's node sees"}
    with (
        pytest.raises(EngineError, match="sees another run"),
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(Run, "manifest", lambda _: as_seen_here)
        generate.generate(run, simulated_spec, said)
    assert not said.lines_with("died")
    assert not run.completion_path("simulated", 0).exists()


def test_a_replica_killed_midway_is_replaced_and_leaves_no_trace(
    simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    spec, said = a_longer_sweep(simulated_spec, replicas=2), Said()
    whole, run = planned(spec, tmp_path / "whole"), planned(spec, tmp_path / "run")
    generate.generate(whole, spec, Reporter())
    with killing(run, at_shards=5) as killed:
        generate.generate(run, spec, said)
    assert killed, "it came to it"
    assert len(said.lines_with("died (ActorDiedError")) == 1
    assert files_of(run, "completions") == files_of(whole, "completions")


def test_shards_for_whose_replicas_no_node_is_left_are_an_error(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    run.completion_path("simulated", 0).unlink()
    monkeypatch.setattr(
        cluster,
        "nodes",
        lambda nodes=cluster.nodes: nodes() if inspect.stack()[1].function == "session" else (),
    )
    with pytest.raises(EngineError, match="no node is left with room for a replica of simulated"):
        generate.generate(run, simulated_spec, Reporter())


@pytest.mark.usefixtures("no_ray")
def test_replicas_on_three_nodes_make_every_completion_once(
    simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    spec, said = a_longer_sweep(simulated_spec, replicas="auto"), Said()
    alone, run = planned(spec, tmp_path / "alone"), planned(spec, tmp_path / "run")
    generate.generate(alone, spec, Reporter())
    with three_nodes() as address:
        generate.generate(run, spec, said, address)
    assert files_of(run, "completions") == files_of(alone, "completions")
    started = [
        line
        for log in (run.folder / "logs").glob("*.log")
        for line in log.read_text().splitlines()
        if "Ray node" in line
    ]
    assert len(started) == len({line.split("Ray node ")[1] for line in started}) == 3
    assert not said.lines_with("died")
    assert sum(t["requests"] for t in run.telemetry()) == run.requests().collect().height


@pytest.mark.usefixtures("no_ray")
def test_models_run_side_by_side_where_there_are_gpus_and_the_others_take_over_what_one_leaves(
    simulated_spec: SweepSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [model], said = simulated_spec.models, Said()
    many = [model.model_copy(update={"name": name}) for name in ("one", "two", "three")]
    spec = a_longer_sweep(simulated_spec, replicas="auto").model_copy(update={"models": many})
    run = planned(spec, tmp_path / "run")
    monkeypatch.setattr(
        cluster, "_device", lambda *_: "gpu"
    )  # GPUs that Ray counts and nobody touches
    with three_nodes(num_gpus=1) as address:
        generate.generate(run, spec, said, address)
    assert len(said.lines_with("starting 3 engines for one, two, three")) == 1
    assert len(said.lines_with("requests, done")) == 3, "each model is reported"
    made = {name: files_of(run, f"completions/{name}") for name in ("one", "two", "three")}
    assert all(len(files) == len(run.shard_sizes()) for files in made.values())


class Said(Reporter):
    """What was reported, kept."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def lines_with(self, part: str) -> list[str]:
        return [line for line in self.lines if part in line]


def a_longer_sweep(spec: SweepSpec, *, replicas: int | str) -> SweepSpec:
    """Enough shards for something to happen between the first and the last."""
    update = {
        "calendar": spec.calendar.model_copy(update={"step": 4}),
        "engine": spec.engine.model_copy(update={"replicas": replicas}),
    }
    return spec.model_copy(update=update)


def planned(spec: SweepSpec, folder: Path) -> Run:
    run = Run(folder)
    make_plan(run, spec, Reporter())
    return run


@contextlib.contextmanager
def killing(run: Run, at_shards: int) -> Iterator[list[int]]:
    """While inside, the process of the first replica to name its own is killed once so many shards
    are there; the list then holds it.
    """
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            if len(list((run.folder / "completions").glob("*/[!.]*.parquet"))) >= at_shards:
                found = re.search(
                    r"process (\d+) on",
                    (run.folder / "logs" / "engine-simulated-0.log").read_text(),
                )
                assert found
                os.kill(int(found[1]), signal.SIGKILL)
                killed.append(int(found[1]))
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        over.set()
        watcher.join()


@contextlib.contextmanager
def three_nodes(num_gpus: int = 0) -> Iterator[str]:
    """The address of a Ray cluster of three nodes on this machine, each with a core."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "num_gpus": num_gpus, "include_dashboard": False},
    )
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=1, num_gpus=num_gpus)
        yield nodes.address
    finally:
        nodes.shutdown()


def test_a_checkpoint_that_changed_after_the_plan_is_refused(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run = copy_of(simulated_run, tmp_path / "copy")
    run.completion_path("simulated", 0).unlink()
    manifest = run.manifest()
    manifest["settings"]["checkpoints"]["simulated"]["weights"] = "0" * 16
    run.manifest_path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"weights in .* changed since the run was planned"):
        generate.generate(run, simulated_spec, Reporter())


SLOW = """
import sys, time
from pathlib import Path
from pipeline import early, engine, generate, score, settings, stages
from pipeline.progress import Reporter
from pipeline.simulated import SimulatedEngine
from pipeline.store import Run

spec, run = settings.load_sweep(sys.argv[1]), Run(Path(sys.argv[2]))
early.chunk_rows = lambda task: 4
with run.locked():
    make_plan(run, spec, Reporter())
    beside = spec.model_copy(update={"engine": spec.engine.model_copy(update={"scoring_cpus": 1})})
    generate.generate(run, beside, Reporter(), None, early.Scorer(run, spec).step)
    score.score(run, spec, Reporter())
    analyse(run, spec, Reporter())
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
    parts = ("completions", "scores", "sums", "early", "tables", "plan")
    assert files_of(Run(folder), *parts) == files_of(simulated_run, *parts)


def conftest_sweep() -> str:
    from tests.conftest import REPOSITORY, SIMULATED_SWEEP

    return SIMULATED_SWEEP.format(configs=(REPOSITORY / "configs").resolve())


def test_the_simulated_backend_is_what_a_replica_gets(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    composer = Composer(simulated_run, simulated_spec, simulated_spec.models[0])
    assert simulated_run.engine_facts("simulated")["backend"] == "simulated"
    request = composer.request(0)
    assert simulated_spec.models[0].simulated is not None
    [output] = SimulatedEngine(simulated_spec.models[0].simulated, composer.pretended).generate(
        iter([request])
    )
    assert output.num_prompt_tokens == len(request.token_ids)
    assert planned_spec(simulated_run).models == simulated_spec.models
