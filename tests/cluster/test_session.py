"""What Ray has, what fits into it, and that it is gone when a stage is over."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pipeline import cluster
from pipeline.cluster import Layout, Node, Resources, Room
from pipeline.core.errors import EngineError
from pipeline.settings.schema import EngineSpec, ModelSpec, SweepSpec


@pytest.mark.usefixtures("no_ray")
def test_a_local_cluster_is_started_and_always_shut_down() -> None:
    import ray

    with cluster.session(None, num_cpus=1) as resources:
        assert (resources.num_cpus, resources.num_gpus, len(resources.nodes)) == (1, 0, 1)
        session = Path(ray._private.worker._global_node.get_session_dir_path())
        assert session.is_dir()
    assert not ray.is_initialized()
    assert not session.exists(), "nothing stays in the temporary folder"
    with pytest.raises(RuntimeError), cluster.session(None, num_cpus=1):
        raise RuntimeError
    assert not ray.is_initialized()


def test_a_cluster_that_is_up_already_is_used_and_left_up(ray_session: Resources) -> None:
    import ray

    with cluster.session(None) as resources:
        assert resources == ray_session
    assert ray.is_initialized()


@pytest.mark.usefixtures("no_ray")
def test_an_address_without_a_cluster_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(EngineError, match="ray start --head"), cluster.session("127.0.0.1:1"):
        pass


def of(*nodes: tuple[int, int]) -> Resources:
    """Nodes of (cores, GPUs)."""
    return Resources(
        nodes=tuple(
            Node(node_id=f"n{i}", num_cpus=cpus, num_gpus=gpus)
            for i, (cpus, gpus) in enumerate(nodes)
        )
    )


CPU, GPUS = of((8, 0)), of((32, 8))
HEAD_AND_TWO, THREE_CPU = of((4, 0), (64, 8), (64, 8)), of((4, 0), (4, 0), (8, 0))


def place(
    engine: dict[str, object],
    model: dict[str, object],
    resources: Resources,
    shards: int = 100,
    build: str = "gpu",
) -> Layout:
    spec = SweepSpec.model_construct(engine=EngineSpec.model_validate(engine))
    raw = {"name": "m", "title": "m", "licence": "x", "weights": {"path": "m"}, **model}
    return cluster.layout(spec, ModelSpec.model_validate(raw), resources, shards, build)


@pytest.mark.parametrize(
    ("engine", "model", "resources", "expected"),
    [
        ({}, {}, CPU, ("cpu", 1, 8, 8, 0)),
        ({"replicas": 2}, {}, CPU, ("cpu", 2, 4, 4, 0)),
        ({"replicas": 3, "threads": 2}, {}, CPU, ("cpu", 3, 2, 2, 0)),
        ({}, {"tensor_parallel_size": 2}, CPU, ("cpu", 1, 4, 8, 0)),
        ({}, {}, THREE_CPU, ("cpu", 3, 4, 4, 0)),
        ({"replicas": 4}, {}, THREE_CPU, ("cpu", 4, 4, 4, 0)),
        ({"replicas": 5}, {}, THREE_CPU, ("cpu", 5, 2, 2, 0)),
        ({}, {}, GPUS, ("gpu", 8, 4, 4, 1)),
        ({}, {"tensor_parallel_size": 4}, GPUS, ("gpu", 2, 16, 16, 4)),
        ({}, {"tensor_parallel_size": 3}, HEAD_AND_TWO, ("gpu", 4, 24, 24, 3)),
        (
            {"replicas": 3},
            {"tensor_parallel_size": 8},
            of((1, 8), (1, 8), (1, 8)),
            ("gpu", 3, 1, 1, 8),
        ),
        ({}, {"tensor_parallel_size": 4}, of((1, 8)), ("gpu", 2, 1, 0, 4)),
        ({}, {"backend": "simulated"}, GPUS, ("cpu", 1, 32, 32, 0)),
    ],
)
def test_replicas_are_gpus_over_tensor_parallel_size_node_by_node_and_one_a_node_on_cpu(
    engine: dict[str, object],
    model: dict[str, object],
    resources: Resources,
    expected: tuple[object, ...],
) -> None:
    placed = place(engine, model, resources)
    assert (
        placed.device,
        placed.num_replicas,
        placed.threads,
        placed.num_cpus,
        placed.num_gpus,
    ) == expected


def test_the_device_is_what_the_installed_vllm_is_built_for() -> None:
    assert place({}, {}, GPUS, build="cpu").device == "cpu", (
        "a GPU is of no use to vLLM's CPU build"
    )
    assert place({"device": "cpu"}, {}, GPUS, build="cpu").device == "cpu"
    for wanted, build in (("gpu", "cpu"), ("cpu", "gpu")):
        with pytest.raises(EngineError, match=rf"built for {build}.*extra \[{wanted}\]"):
            place({"device": wanted}, {}, GPUS, build=build)


def test_there_are_never_more_replicas_than_shards() -> None:
    assert place({}, {}, GPUS, shards=3).num_replicas == 3


@pytest.mark.parametrize(
    ("engine", "model", "resources"),
    [
        ({"replicas": 9}, {}, GPUS),
        ({"device": "gpu"}, {}, CPU),
        ({}, {"tensor_parallel_size": 16}, GPUS),
        ({}, {"tensor_parallel_size": 16}, HEAD_AND_TWO),
        ({"replicas": 4, "threads": 4}, {}, CPU),
        ({"replicas": 2, "threads": 6}, {}, of((8, 0), (4, 0))),
    ],
)
def test_more_than_the_machines_have_is_refused(
    engine: dict[str, object], model: dict[str, object], resources: Resources
) -> None:
    with pytest.raises(EngineError, match=r"need \d+ .*Ray has room for \d+: its nodes have"):
        place(engine, model, resources)


def aside(
    scoring_cpus: object,
    resources: Resources,
    build: str = "gpu",
    writes_text: bool = True,
    **engine: object,
) -> tuple[list[int], int]:
    """Cores left to engines on each node, and cores kept for scoring."""
    spec = SweepSpec.model_construct(
        engine=EngineSpec.model_validate({"scoring_cpus": scoring_cpus, **engine})
    )
    left, kept = cluster.set_aside(spec, resources, build, writes_text=writes_text)
    assert [node.num_gpus for node in left.nodes] == [node.num_gpus for node in resources.nodes]
    assert all(
        node.num_cpus + kept[node.node_id] == old.num_cpus
        for node, old in zip(left.nodes, resources.nodes, strict=True)
    )
    return [node.num_cpus for node in left.nodes], sum(kept.values())


@pytest.mark.parametrize(
    ("scoring_cpus", "resources", "build", "expected"),
    [
        ("auto", CPU, "cpu", ([8], 0)),
        ("auto", GPUS, "gpu", ([24], 8)),
        ("auto", GPUS, "cpu", ([32], 0)),
        ("auto", HEAD_AND_TWO, "gpu", ([3, 48, 48], 33)),
        (0, GPUS, "gpu", ([32], 0)),
        (1, of((2, 0)), "cpu", ([1], 1)),
        (3, THREE_CPU, "cpu", ([4, 4, 5], 3)),
        (7, THREE_CPU, "cpu", ([3, 3, 3], 7)),
    ],
)
def test_cores_for_scoring_are_kept_from_engines(
    scoring_cpus: object, resources: Resources, build: str, expected: tuple[list[int], int]
) -> None:
    assert aside(scoring_cpus, resources, build) == expected


def test_engines_on_cpu_of_a_gpu_node_keep_all_cores() -> None:
    assert aside("auto", GPUS, device="cpu") == ([32], 0)


def test_labels_alone_need_no_cores_beside_the_engines() -> None:
    assert aside("auto", GPUS, writes_text=False) == ([32], 0)
    assert aside(4, GPUS, writes_text=False) == ([28], 4), "who asks for it gets it"


def test_every_node_keeps_a_core_for_an_engine() -> None:
    with pytest.raises(
        EngineError, match=r"scoring_cpus: given 14; Ray has 16 CPU cores on 3 nodes.*at most 13"
    ):
        aside(14, THREE_CPU, "cpu")


def test_room_is_taken_where_it_leaves_other_nodes_whole() -> None:
    room = Room(of((8, 8), (8, 4)))
    assert [room.take(1, gpus) for gpus in (2, 2, 8, 1)] == ["n1", "n1", "n0", None]
    room.give("n1", 1, 2)
    assert room.take(1, 2) == "n1"


def test_what_needs_no_gpu_goes_where_most_cores_are_free() -> None:
    room = Room(of((4, 0), (8, 0)))
    assert [room.take(3, 0) for _ in range(4)] == ["n1", "n1", "n0", None]


def test_a_node_that_has_gone_has_no_room_and_gets_none_back() -> None:
    room = Room(of((4, 0), (8, 0)))
    room.take(8, 0)
    room.keep_only({"n0"})
    room.give("n1", 8, 0)
    assert [room.take(4, 0), room.take(4, 0)] == ["n0", None]


@given(
    st.lists(st.tuples(st.integers(0, 64), st.integers(0, 8)), min_size=1, max_size=5),
    st.integers(0, 8),
    st.integers(1, 4),
)
def test_as_many_can_be_taken_as_are_said_to_fit(
    nodes: list[tuple[int, int]], cpus: int, gpus: int
) -> None:
    resources = of(*nodes)
    room, taken = Room(resources), 0
    while room.take(cpus, gpus):
        taken += 1
    assert taken == resources.fitting(cpus, gpus)
