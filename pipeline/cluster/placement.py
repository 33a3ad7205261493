"""What fits where, counted node by node, since a replica with all its GPUs sits on one node."""

from collections.abc import Set
from dataclasses import dataclass

from pipeline.core.errors import EngineError
from pipeline.core.records import Device
from pipeline.settings import ModelSpec, SweepSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of the cluster: all that it has, or what is free of it."""

    node_id: str
    num_cpus: int
    num_gpus: int

    def fitting(self, num_cpus: int, num_gpus: int) -> int:
        """How many processes that need `num_cpus` and `num_gpus` fit; one of the two may be 0."""
        pairs = ((self.num_cpus, num_cpus), (self.num_gpus, num_gpus))
        return min(has // needed for has, needed in pairs if needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a cluster has, or what is free of it."""

    nodes: tuple[Node, ...]

    @property
    def num_cpus(self) -> int:
        """CPU cores of all nodes."""
        return sum(node.num_cpus for node in self.nodes)

    @property
    def num_gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.num_gpus for node in self.nodes)

    def fitting(self, num_cpus: int, num_gpus: int) -> int:
        """How many processes that need `num_cpus` and `num_gpus` fit at once, each on one node."""
        return sum(node.fitting(num_cpus, num_gpus) for node in self.nodes)

    def best_node(self, num_cpus: int, num_gpus: int) -> str | None:
        """The id of the node to start a process on, or None where no node has as many left.

        GPUs come from the node with the fewest left that suffices, which keeps other nodes whole
        for models that need many; what needs no GPU goes where most cores are free.
        """

        def rank(node: Node) -> tuple[int, int, str]:
            return node.num_gpus if num_gpus else 0, -node.num_cpus, node.node_id

        fitting = [node for node in self.nodes if node.fitting(num_cpus, num_gpus)]
        return min(fitting, key=rank).node_id if fitting else None

    def only(self, node_ids: Set[str]) -> "Resources":
        """What is on some of the nodes."""
        return Resources(nodes=tuple(node for node in self.nodes if node.node_id in node_ids))

    def without(self, node_id: str, num_cpus: int, num_gpus: int) -> "Resources":
        """What is left once `num_cpus` and `num_gpus` of a node are taken."""
        nodes = list(self.nodes)
        for i, node in enumerate(nodes):
            if node.node_id == node_id:
                cpus, gpus = node.num_cpus - num_cpus, node.num_gpus - num_gpus
                nodes[i] = Node(node_id=node_id, num_cpus=cpus, num_gpus=gpus)
        return Resources(nodes=tuple(nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a model's replicas are laid over what Ray has."""

    device: Device
    num_replicas: int
    """As many as may run at once; never more than the plan has shards."""
    threads: int
    num_cpus: int
    """CPU cores of one replica."""
    num_gpus: int
    """GPUs of one replica, all on one node."""


def layout(
    spec: SweepSpec, model: ModelSpec, resources: Resources, num_shards: int, build: Device
) -> Layout:
    """Replicas for `model`: all that its nodes' GPUs allow, or one a node on CPU.

    It depends on the whole plan and not on what is left of it, so that a resumed run gets the
    threads it was begun with. `build` is what the installed vLLM is built for.

    Raises:
        EngineError: the machines have not got what the settings ask for.
    """
    setting, device = spec.engine, _device(spec, model, resources, build)
    size = model.tensor_parallel_size if model.backend == "vllm" else 1
    gpus = size if device == "gpu" else 0
    most = _most(resources, size, gpus) if setting.replicas == "auto" else setting.replicas
    count = min(most, num_shards)
    auto = setting.threads == "auto"
    threads = (
        _threads(resources, size, gpus, count) if setting.threads == "auto" else setting.threads
    )
    cpus = threads if gpus else threads * size
    if gpus and auto and resources.fitting(cpus, gpus) < resources.fitting(0, gpus):
        cpus = 0  # fewer cores than GPUs: they are shared
    if (room := resources.fitting(cpus, gpus)) < max(count, 1):
        each = f"{gpus} GPUs and {cpus} CPU cores" if gpus else f"{cpus} CPU cores"
        per_node = ", ".join(f"{node.num_gpus} and {node.num_cpus}" for node in resources.nodes)
        raise EngineError(
            f"engine: {max(count, 1)} replicas of {model.name} need {each} each, on one node "
            f"each; Ray has room for {room}: its nodes have {per_node} GPUs and CPU cores. "
            "See engine.replicas, engine.threads and the model's tensor_parallel_size"
        )
    return Layout(device=device, num_replicas=count, threads=threads, num_cpus=cpus, num_gpus=gpus)


def _most(resources: Resources, size: int, gpus: int) -> int:
    """Replicas where the settings name no number: all that the GPUs allow.

    On CPU, one on each node, since more would share its memory.
    """
    if gpus:
        return resources.fitting(0, gpus)
    return max(1, sum(node.num_cpus >= size for node in resources.nodes))


def _threads(resources: Resources, size: int, gpus: int, replicas: int) -> int:
    """Cores of one replica where the settings name no number.

    On GPU its GPUs' share of the node, on CPU the most that fits everywhere.
    """
    if gpus:
        shares = [n.num_cpus * gpus // n.num_gpus for n in resources.nodes if n.num_gpus]
        return max(1, min(shares, default=1))
    most = max((node.num_cpus for node in resources.nodes), default=1)
    return next((t for t in range(most, 0, -1) if resources.fitting(t * size, 0) >= replicas), 1)


def _device(spec: SweepSpec, model: ModelSpec, resources: Resources, build: Device) -> Device:
    """What `model` runs on; with `auto`, what the installed vLLM can use of what Ray has."""
    wanted = spec.engine.device
    if model.backend != "vllm":
        return "cpu"
    if wanted == "auto":
        return "gpu" if build == "gpu" and resources.num_gpus else "cpu"
    if wanted != build:
        raise EngineError(
            f"engine.device: given {wanted!r}; the installed vLLM is built for {build}: "
            f'install the extra [{wanted}], or say "auto"'
        )
    return wanted
