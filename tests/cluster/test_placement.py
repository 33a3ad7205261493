"""What fits into what Ray has."""

import pytest
from hypothesis import given, strategies as st

from pipeline import cluster
from pipeline.cluster import Layout, Node, Resources
from pipeline.core.errors import EngineError
from pipeline.settings.schema import EngineSpec, ModelSpec, SweepSpec


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


def taken(resources: Resources, *needs: tuple[int, int]) -> list[str | None]:
    """The node on which each process of (cores, GPUs) is started, one after another."""
    nodes: list[str | None] = []
    for cpus, gpus in needs:
        nodes.append(resources.best_node(cpus, gpus))
        if nodes[-1]:
            resources = resources.without(nodes[-1], cpus, gpus)
    return nodes


def test_gpus_are_taken_where_it_leaves_other_nodes_whole() -> None:
    needs = [(1, gpus) for gpus in (2, 2, 8, 1)]
    assert taken(of((8, 8), (8, 4)), *needs) == ["n1", "n1", "n0", None]


def test_what_needs_no_gpu_goes_where_most_cores_are_free() -> None:
    assert taken(of((4, 0), (8, 0)), *[(3, 0)] * 4) == ["n1", "n1", "n0", None]


@given(
    st.lists(st.tuples(st.integers(0, 64), st.integers(0, 8)), min_size=1, max_size=5),
    st.integers(0, 8),
    st.integers(1, 4),
)
def test_as_many_can_be_taken_as_are_said_to_fit(
    nodes: list[tuple[int, int]], cpus: int, gpus: int
) -> None:
    resources = of(*nodes)
    fitting = resources.fitting(cpus, gpus)
    started = taken(resources, *[(cpus, gpus)] * (fitting + 1))
    assert started.count(None) == 1
    assert started[-1] is None
