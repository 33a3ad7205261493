"""Ray, started when a stage needs it and always shut down: a local one by default, or a cluster
that is already there. What fits into it.

What Ray has is counted node by node, since a replica with all its GPUs sits on one node.
"""

import contextlib
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.cluster.placement import Node, Resources
from pipeline.core import cores
from pipeline.core.errors import EngineError

OBJECT_STORE_BYTES = 256 << 20
"""Little travels through the object store: outputs go to files, scoring gets its rows in chunks."""

CONNECT_TIMEOUT_S = 5.0


def task(work: Callable[..., Any], node_id: str) -> Any:
    """`work` as a task of Ray's on one core of a node, tried once.

    Elsewhere if that node has gone.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(node_id, soft=True)
    return ray.remote(num_cpus=1, max_retries=0)(work).options(scheduling_strategy=strategy)


def worker_deaths() -> tuple[type[Exception], ...]:
    """The errors with which Ray says that a task's process has gone, and not that the task raised."""
    import ray

    return (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.OutOfMemoryError,
        ray.exceptions.NodeDiedError,
    )


def nodes() -> tuple[Node, ...]:
    """The nodes that are alive, always in the same order."""
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    counts = [(node["NodeID"], node["Resources"]) for node in alive]
    found = [
        Node(node_id=name, num_cpus=int(has.get("CPU", 0)), num_gpus=int(has.get("GPU", 0)))
        for name, has in counts
    ]
    return tuple(sorted(found, key=lambda node: node.node_id))


@contextlib.contextmanager
def session(address: str | None, num_cpus: int | None = None) -> Iterator[Resources]:
    """While inside, Ray is up: the cluster at `address`, or a local one on this machine's cores
    (`num_cpus` of them if given).

    Without an address, a Ray that this process has up already is used and left up.

    Raises:
        EngineError: no cluster answers at `address`.
    """
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # By default workers give way to every other process; the engine is what the machine is here
        # for.
        "RAY_worker_niceness": "0",
    }
    import ray

    if address is None and ray.is_initialized():
        yield Resources(nodes=nodes())
        return
    quiet: dict[str, Any] = {
        "configure_logging": True,
        "logging_level": logging.ERROR,
        "log_to_driver": False,
    }
    if address:
        _check_reachable(address)
    local = {
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
        "num_cpus": num_cpus or cores.num_cores(),
    }
    try:
        context = (
            ray.init(address=address, **quiet)
            if address
            else ray.init(address="local", **quiet, **local)
        )
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


def _check_reachable(address: str) -> None:
    """Raise EngineError within seconds where nothing listens at `host:port`.

    Ray itself would wait for minutes.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # `auto` and the like: Ray knows
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> EngineError:
    return EngineError(
        f"no Ray cluster answers at {address!r} ({error}); start one with `ray start "
        "--head`, or leave --address out"
    )
