"""Ray, started when a stage needs it and always shut down, and what stages need of it.

By default it is a local one; a cluster that is already there can be joined.
"""

import contextlib
import logging
import os
import shutil
import socket
from collections.abc import Iterator
from typing import Any

from pipeline.cluster.placement import Node, Resources
from pipeline.core import cores
from pipeline.core.errors import EngineError

OBJECT_STORE_BYTES = 256 << 20
"""Little travels through the object store: outputs go to files, scoring gets its rows in chunks."""

CONNECT_TIMEOUT_S = 5.0

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Workers would give way to every other process; the engine is what the machine is here for.
    "RAY_worker_niceness": "0",
}


@contextlib.contextmanager
def session(address: str | None, num_cpus: int | None = None) -> Iterator[Resources]:
    """While inside, Ray is up: the cluster at `address`, or a local one on this machine's cores.

    `num_cpus` gives a local one fewer or more cores than there are. Without an address, a Ray that
    this process has up already is used and left up.

    Raises:
        EngineError: no cluster answers at `address`.
    """
    os.environ |= _ENVIRONMENT
    import ray

    if address is None and ray.is_initialized():
        yield Resources(nodes=nodes())
        return
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address:
        _check_reachable(address)
    else:
        options |= {
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "num_cpus": num_cpus or cores.num_cores(),
        }
    try:
        context = ray.init(address=address or "local", **options)
    except ConnectionError as error:
        raise _unreachable(str(address), error) from error
    try:
        yield Resources(nodes=nodes())
    finally:
        ray.shutdown()
    if not address:
        # A session that went well leaves nothing in the temporary folder; after an error, Ray's own
        # logs stay for whoever looks into it.
        shutil.rmtree(context.address_info["session_dir"], ignore_errors=True)


def nodes() -> tuple[Node, ...]:
    """The nodes that are alive, always in the same order."""
    import ray

    return tuple(
        Node(
            node_id=node["NodeID"],
            num_cpus=int(node["Resources"].get("CPU", 0)),
            num_gpus=int(node["Resources"].get("GPU", 0)),
        )
        for node in sorted(ray.nodes(), key=lambda node: str(node["NodeID"]))
        if node["Alive"]
    )


def own_node() -> str:
    """The id of the node that this process runs on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def actor(kind: type, node_id: str, **resources: int) -> Any:
    """`kind` as an actor on a node, or on another if that one has gone."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(node_id, soft=True)
    return ray.remote(kind).options(scheduling_strategy=strategy, **resources)


def worker_deaths() -> tuple[type[Exception], ...]:
    """The errors with which Ray says that a task's process has gone, not that the task raised."""
    import ray

    return (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.OutOfMemoryError,
        ray.exceptions.NodeDiedError,
    )


def _check_reachable(address: str) -> None:
    """Nothing, or EngineError within seconds where nothing listens; Ray would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # `auto` and the like: Ray knows
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> EngineError:
    return EngineError(
        f"no Ray cluster answers at {address!r} ({error}); "
        "start one with `ray start --head`, or leave --address out"
    )
