"""Ray, started when a stage needs it and always shut down: a local one by default, or a cluster that is already there."""

import contextlib
import logging
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.errors import EngineError

OBJECT_STORE_BYTES = 256 << 20
"""Little travels through the object store: outputs go to files, scoring gets its rows in chunks."""

CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What Ray has to give."""

    num_cpus: int
    num_gpus: int


@contextlib.contextmanager
def session(address: str | None, num_cpus: int | None = None) -> Iterator[Resources]:
    """While inside, Ray is up: the cluster at `address`, or a local one on this machine's cores (`num_cpus` of them if given).

    Raises:
        EngineError: no cluster answers at `address`.
    """
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # By default workers give way to every other process; the engine is what the machine is here for.
        "RAY_worker_niceness": "0",
    }
    import ray

    quiet: dict[str, Any] = {"configure_logging": True, "logging_level": logging.ERROR, "log_to_driver": False}
    if address:
        _check_reachable(address)
    local = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, "num_cpus": num_cpus or os.cpu_count()}
    try:
        context = ray.init(address=address, **quiet) if address else ray.init(**quiet, **local)
    except ConnectionError as error:
        raise _unreachable(str(address), error) from error
    try:
        found = ray.cluster_resources()
        yield Resources(num_cpus=int(found.get("CPU", 1)), num_gpus=int(found.get("GPU", 0)))
    finally:
        ray.shutdown()
    if not address:
        # A session that went well leaves nothing in the temporary folder; after an error, Ray's own logs stay for whoever looks into it.
        shutil.rmtree(context.address_info["session_dir"], ignore_errors=True)


def _check_reachable(address: str) -> None:
    """Raise EngineError within seconds where nothing listens at `host:port`; Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # `auto` and the like: Ray knows
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> EngineError:
    return EngineError(f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head`, or leave --address out")
