"""Which replica starts where, and that replicas may die, come and go without a trace."""

import contextlib
import dataclasses
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipeline import cluster, generate
from pipeline.cluster import Layout, Node, Resources
from pipeline.core.errors import EngineError
from pipeline.core.progress import Reporter
from pipeline.generate import pool
from pipeline.generate.pool import Demand, Job, next_start
from pipeline.settings import SweepSpec
from pipeline.store import Run
from tests.generate.helpers import Said, a_longer_sweep, planned
from tests.runs import files_of


def layout(most: int, gpus: int = 0, cpus: int = 1) -> Layout:
    device = "gpu" if gpus else "cpu"
    return Layout(device=device, num_replicas=most, threads=1, num_cpus=cpus, num_gpus=gpus)


def demand(
    has: int, most: int = 9, gpus: int = 1, starting: int = 0, left: int = 9, cpus: int = 1
) -> Demand:
    return Demand(
        layout=layout(most, gpus, cpus), num_replicas=has, num_starting=starting, shards_left=left
    )


def room(*nodes: tuple[int, int]) -> Resources:
    """Nodes a, b, ... of (cores, GPUs)."""
    return Resources(
        nodes=tuple(
            Node(node_id=name, num_cpus=cpus, num_gpus=gpus)
            for name, (cpus, gpus) in zip("abcdef", nodes, strict=False)
        )
    )


@pytest.mark.parametrize(
    ("demands", "free", "expected"),
    [
        ([demand(0)], room((4, 2)), (0, "a")),
        ([demand(1), demand(0)], room((4, 2)), (1, "a")),  # whoever has fewest
        ([demand(0), demand(0)], room((4, 2)), (0, "a")),  # else the first of the sweep
        ([demand(0), demand(0, gpus=2)], room((4, 2)), (1, "a")),  # but the largest before it
        ([demand(1), demand(0, gpus=4)], room((4, 2)), (0, "a")),  # who has no room does not wait
        ([demand(2, most=2)], room((4, 2)), None),  # as many as may be
        ([demand(0, left=0)], room((4, 2)), None),  # nothing to make
        ([demand(2, starting=2, left=2)], room((4, 2)), None),  # those that start will take it
        ([demand(2, starting=2, left=3)], room((4, 2)), (0, "a")),
        ([demand(0)], room((4, 0)), None),
        ([demand(0)], room((0, 2)), None),  # no core left
        ([demand(0)], room((4, 2), (4, 1)), (0, "b")),  # the other node stays whole
        ([demand(0, gpus=0)], room((4, 0), (8, 0)), (0, "b")),
        ([demand(0, cpus=0)], room((0, 2)), (0, "a")),  # GPUs that share cores
        ([demand(0)], room(), None),
        ([], room((4, 2)), None),
    ],
)
def test_the_next_replica_is_of_the_model_with_fewest_where_it_has_room(
    demands: list[Demand], free: Resources, expected: tuple[int, str] | None
) -> None:
    assert next_start(demands, free) == expected


@given(
    st.lists(st.tuples(st.integers(0, 16), st.integers(0, 8)), min_size=1, max_size=4),
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2), st.integers(0, 8)),
        min_size=1,
        max_size=4,
    ),
)
def test_dealing_out_room_takes_no_more_than_there_is_and_forgets_no_model(
    nodes: list[tuple[int, int]], models: list[tuple[int, int, int, int]]
) -> None:
    free, has = room(*nodes), [0] * len(models)

    def demands() -> list[Demand]:
        return [
            demand(count, most=most, gpus=gpus, cpus=cpus, starting=count, left=left)
            for count, (most, gpus, cpus, left) in zip(has, models, strict=True)
        ]

    while start := next_start(demands(), free):
        number, node_id = start
        _, gpus, cpus, _ = models[number]
        assert has[number] == min(
            count for i, count in enumerate(has) if next_start([demands()[i]], free)
        )
        free, has[number] = free.without(node_id, cpus, gpus), has[number] + 1
    assert all(node.num_cpus >= 0 and node.num_gpus >= 0 for node in free.nodes)
    for count, (most, gpus, cpus, left) in zip(has, models, strict=True):
        assert count <= min(most, left)
        assert count or not left or not free.best_node(cpus, gpus)


def test_deaths_are_counted_since_the_last_progress(simulated_spec: SweepSpec) -> None:
    job = Job(simulated_spec.models[0], layout(2), {0: 10, 1: 10, 2: 5}, [1, 2])
    assert (job.total, job.kept, job.done) == (25, 10, 10)
    assert [job.count_death(0, []), job.count_death(1, [])] == [1, 2]
    assert job.count_death(2, [2]) == 1, "it finished a shard before it died"
    assert (job.count_death(3, []), job.done) == (2, 15)


def test_replicas_that_keep_failing_end_the_stage_with_the_end_of_their_log(
    copied_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, said = copied_run, Said()
    for shard in (1, 2):
        run.completion_path("simulated", shard).unlink()
    (run.folder / "telemetry" / "simulated" / "000001.json").unlink()
    (run.folder / "telemetry" / "simulated" / "000001.json").mkdir()  # shard 1 cannot be written
    failed = (
        r"replica 0 of simulated died \(IsADirectoryError: .*\), 2 times without progress.*\n"
        r".*engine-simulated-0\.log:\nreplica 0"
    )
    monkeypatch.setattr(pool, "RESTARTS", 1)
    with pytest.raises(EngineError, match=failed):
        generate.generate(run, simulated_spec, said)
    assert len(said.lines_with("go back to the queue")) == 1
    assert not run.completion_path("simulated", 1).exists()


def test_an_error_raised_on_purpose_ends_the_stage_at_once(
    copied_run: Run, simulated_spec: SweepSpec
) -> None:
    run, said = copied_run, Said()
    run.completion_path("simulated", 0).unlink()
    as_seen_here = run.manifest().model_copy(update={"fingerprint": "another"})
    with (
        pytest.raises(EngineError, match="sees another run"),
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(Run, "manifest", lambda _: as_seen_here)
        generate.generate(run, simulated_spec, said)
    assert not said.lines_with("died")
    assert not run.completion_path("simulated", 0).exists()


@pytest.fixture(scope="module")
def by_one_replica(
    simulated_spec: SweepSpec, simulated_run: Run, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """The longer sweep as one replica makes it."""
    spec = a_longer_sweep(simulated_spec, replicas=1)
    run = planned(spec, tmp_path_factory.mktemp("alone") / "run")
    generate.generate(run, spec, Reporter())
    return run


def test_two_replicas_of_which_one_is_killed_make_the_same_bytes_as_one(
    simulated_spec: SweepSpec, by_one_replica: Run, tmp_path: Path
) -> None:
    spec, said = a_longer_sweep(simulated_spec, replicas=2), Said()
    run = planned(spec, tmp_path / "run")
    with killing(run, at_shards=5) as killed:
        generate.generate(run, spec, said)
    assert killed, "it came to it"
    assert len(said.lines_with("died (ActorDiedError")) == 1
    assert files_of(run, "completions") == files_of(by_one_replica, "completions")
    assert {path.name for path in (run.folder / "logs").iterdir()} == {
        "engine-simulated-0.log",
        "engine-simulated-1.log",
    }


def test_shards_for_whose_replicas_no_node_is_left_are_an_error(
    copied_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied_run.completion_path("simulated", 0).unlink()
    monkeypatch.setattr(cluster, "nodes", lambda: ())  # all have gone since the session began
    with pytest.raises(EngineError, match="no node is left with room for a replica of simulated"):
        generate.generate(copied_run, simulated_spec, Reporter())


@pytest.mark.usefixtures("no_ray")
def test_replicas_on_three_nodes_make_every_completion_once(
    simulated_spec: SweepSpec, by_one_replica: Run, three_nodes: str, tmp_path: Path
) -> None:
    spec, said = a_longer_sweep(simulated_spec, replicas="auto"), Said()
    run = planned(spec, tmp_path / "run")
    generate.generate(run, spec, said, three_nodes)
    assert files_of(run, "completions") == files_of(by_one_replica, "completions")
    started = [
        line
        for log in (run.folder / "logs").glob("*.log")
        for line in log.read_text().splitlines()
        if "Ray node" in line
    ]
    assert len(started) == len({line.split("Ray node ")[1] for line in started}) == 3
    assert not said.lines_with("died")
    assert sum(t.requests for t in run.telemetry()) == run.requests().collect().height


@pytest.mark.usefixtures("no_ray")
def test_models_run_side_by_side_where_there_are_gpus_and_the_others_take_over_what_one_leaves(
    simulated_spec: SweepSpec, three_nodes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [model], said = simulated_spec.models, Said()
    many = [model.model_copy(update={"name": name}) for name in ("one", "two", "three")]
    spec = a_longer_sweep(simulated_spec, replicas="auto").model_copy(update={"models": many})
    run, on_cpus = planned(spec, tmp_path / "run"), cluster.layout

    def on_gpus(*args: Any) -> Layout:
        """GPUs that Ray counts and nobody touches."""
        return dataclasses.replace(on_cpus(*args), num_gpus=1)

    monkeypatch.setattr(cluster, "layout", on_gpus)
    generate.generate(run, spec, said, three_nodes)
    assert len(said.lines_with("starting 3 engines for one, two, three")) == 1
    assert len(said.lines_with("requests, done")) == 3, "each model is reported"
    made = {name: files_of(run, f"completions/{name}") for name in ("one", "two", "three")}
    assert all(len(files) == len(run.shard_sizes()) for files in made.values())


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
                log = (run.folder / "logs" / "engine-simulated-0.log").read_text()
                named = re.search(r"process (\d+) on", log)
                assert named
                os.kill(int(named[1]), signal.SIGKILL)
                killed.append(int(named[1]))
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        over.set()
        watcher.join()


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[str]:
    """The address of a Ray cluster of three nodes on this machine, each with a core and a GPU."""
    from ray.cluster_utils import Cluster

    has = {"num_cpus": 1, "num_gpus": 1}
    nodes = Cluster(initialize_head=True, head_node_args={**has, "include_dashboard": False})
    try:
        for _ in range(2):
            nodes.add_node(**has)
        yield nodes.address
    finally:
        nodes.shutdown()
