"""What fits where. What Ray has is counted node by node, since a replica with all its GPUs sits on
one node.
"""

from dataclasses import dataclass

from pipeline.core.errors import EngineError
from pipeline.settings import ModelSpec, SweepSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of the cluster."""

    node_id: str
    num_cpus: int
    num_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What Ray has to give."""

    nodes: tuple[Node, ...]

    @property
    def num_cpus(self) -> int:
        """CPU cores of all nodes."""
        return sum(node.num_cpus for node in self.nodes)

    @property
    def num_gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.num_gpus for node in self.nodes)

    def fitting(self, num_cpus: int, num_gpus: int = 0) -> int:
        """How many processes that need `num_cpus` and `num_gpus` fit at once, each of them whole on
        one node.
        """
        return sum(_times(node.num_cpus, node.num_gpus, num_cpus, num_gpus) for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a model's replicas are laid over what Ray has."""

    device: str
    num_replicas: int
    """As many as may run at once; never more than the plan has shards."""
    threads: int
    num_cpus: int
    """CPU cores of one replica."""
    num_gpus: int
    """GPUs of one replica, all on one node."""


class Room:
    """What is free on each node while processes come and go.

    The books of one stage, which Ray's own agree with if nobody else is there.
    """

    def __init__(self, resources: Resources) -> None:
        """Everything is free."""
        self._free = {node.node_id: (node.num_cpus, node.num_gpus) for node in resources.nodes}

    def take(self, num_cpus: int, num_gpus: int) -> str | None:
        """The node on which `num_cpus` and `num_gpus` are now taken, or None where no node has as
        many left.

        GPUs come from the node with the fewest left that suffices, which keeps other nodes whole
        for models that need many; what needs no GPU goes where most cores are free.
        """
        fitting = [
            (gpus, -cpus, name)
            for name, (cpus, gpus) in self._free.items()
            if _times(cpus, gpus, num_cpus, num_gpus)
        ]
        if not fitting:
            return None
        name = min(fitting)[2] if num_gpus else min(fitting, key=lambda node: node[1:])[2]
        self.give(name, -num_cpus, -num_gpus)
        return name

    def give(self, node_id: str, num_cpus: int, num_gpus: int) -> None:
        """Free on `node_id` what was taken, unless the node has gone."""
        if node_id in self._free:
            cpus, gpus = self._free[node_id]
            self._free[node_id] = (cpus + num_cpus, gpus + num_gpus)

    def keep_only(self, node_ids: set[str]) -> None:
        """Forget the nodes that have gone."""
        self._free = {name: free for name, free in self._free.items() if name in node_ids}


def layout(
    spec: SweepSpec, model: ModelSpec, resources: Resources, num_shards: int, build: str
) -> Layout:
    """Replicas for `model`: as many as its tensor-parallel size fits into each node's GPUs, or one
    a node on CPU, never more than shards.

    It depends on the whole plan and not on what is left of it, so that a resumed run gets the
    threads it was begun with. `build` is what the installed vLLM is built for, `cpu` or `gpu`.

    Raises:
        EngineError: the machines have not got what the settings ask for.
    """
    setting, device = spec.engine, _device(spec, model, resources, build)
    size = 1 if model.backend == "simulated" else model.tensor_parallel_size
    gpus = size if device == "gpu" else 0
    count = min(
        _most(resources, size, gpus) if setting.replicas == "auto" else setting.replicas, num_shards
    )
    threads = (
        _threads(resources, size, gpus, count) if setting.threads == "auto" else setting.threads
    )
    cpus = threads if gpus else threads * size
    if (
        gpus
        and setting.threads == "auto"
        and resources.fitting(cpus, gpus) < resources.fitting(0, gpus)
    ):
        cpus = 0  # fewer cores than GPUs: they are shared
    if (most := resources.fitting(cpus, gpus)) < max(count, 1):
        each = f"{gpus} GPUs and {cpus} CPU cores" if gpus else f"{cpus} CPU cores"
        per_node = ", ".join(f"{node.num_gpus} and {node.num_cpus}" for node in resources.nodes)
        raise EngineError(
            f"engine: {max(count, 1)} replicas of {model.name} need {each} each, on one "
            f"node each; Ray has room for {most}: "
            f"its nodes have {per_node} GPUs and CPU cores. See engine.replicas, "
            "engine.threads and the model's tensor_parallel_size"
        )
    return Layout(device=device, num_replicas=count, threads=threads, num_cpus=cpus, num_gpus=gpus)


def _most(resources: Resources, size: int, gpus: int) -> int:
    """Replicas where the settings name no number: all that the GPUs allow.

    On CPU, one on each node, since more would share its memory.
    """
    return (
        resources.fitting(0, gpus)
        if gpus
        else max(1, sum(node.num_cpus >= size for node in resources.nodes))
    )


def _threads(resources: Resources, size: int, gpus: int, replicas: int) -> int:
    """Cores of one replica where the settings name no number: on GPU its GPUs' share of the node,
    on CPU the most that fits everywhere.
    """
    if gpus:
        return max(
            1,
            min(
                (n.num_cpus * gpus // n.num_gpus for n in resources.nodes if n.num_gpus), default=1
            ),
        )
    most = max((node.num_cpus for node in resources.nodes), default=1)
    return next((t for t in range(most, 0, -1) if resources.fitting(t * size) >= replicas), 1)


def _device(spec: SweepSpec, model: ModelSpec, resources: Resources, build: str) -> str:
    """`cpu` or `gpu`; with `auto`, what the installed vLLM can use of what Ray has."""
    wanted = spec.engine.device
    if model.backend == "simulated":
        return "cpu"
    if wanted == "auto":
        return "gpu" if build == "gpu" and resources.num_gpus else "cpu"
    if wanted != build:
        what = f"the installed vLLM is built for {build}"
        raise EngineError(
            f'engine.device: given {wanted!r}; {what}: install the extra [{wanted}], or say "auto"'
        )
    return wanted


def _times(num_cpus: int, num_gpus: int, cpus_each: int, gpus_each: int) -> int:
    """How often what needs `cpus_each` and `gpus_each`, of which one may be 0, fits into `num_cpus`
    and `num_gpus`.
    """
    return min(
        has // needed for has, needed in ((num_cpus, cpus_each), (num_gpus, gpus_each)) if needed
    )
