"""What generation needs of an engine, and the settings of one replica."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipeline.core.records import Device, Output, Request
from pipeline.settings import EngineSpec, ModelSpec
from pipeline.store import EngineFacts


class Engine(Protocol):
    """What generation needs of an engine."""

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """Outputs of `requests` as they finish.

        `requests` is pulled only while the window has room, so it may compose prompts lazily.
        """
        ...

    def facts(self) -> EngineFacts:
        """Everything that could change an output: versions, hardware, resolved settings."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Resolved settings of one replica.

    Nothing is left to vLLM's defaults that could differ between versions or platforms.
    """

    folder: Path
    device: Device
    dtype: str
    tensor_parallel_size: int
    max_model_len: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    window: int
    """Requests given to vLLM at a time."""
    keeps_all_blocks: bool
    """Whether blocks of sliding-window layers stay in the prefix cache densely; vLLM's default
    keeps the ends of prompts only."""
    threads: int
    kv_cache_gib: int
    gpu_memory_utilization: float
    prefix_caching: bool
    batch_invariant: bool
    reads_images: bool
    seed: int


def resolve(
    spec: EngineSpec,
    model: ModelSpec,
    folder: Path,
    *,
    device: Device,
    threads: int,
    max_model_len: int,
) -> EngineSettings:
    """Settings for `model` on `device`; no value is `auto` any more.

    `max_model_len` is the longest prompt plus output of the plan, in tokens. GPU values are vLLM's
    own or from its source.
    """
    cpu = device == "cpu"
    # vLLM's CPU attention knows only multiples of 32, and its default of 128 would never find a
    # short prompt in the cache.
    block = _or(spec.block_size, 32 if cpu else 16)
    length = model.max_model_len or math.ceil(max_model_len / block) * block
    # On GPU, short label prompts with a cached prefix need many sequences to fill a step.
    num_seqs = _or(spec.max_num_seqs, 64 if cpu else 1024)
    dtype = model.dtype if spec.dtype == "auto" else spec.dtype
    # Prompts are not split on CPU (see `vllm.py`), so a step must hold the longest.
    batched = max(_or(spec.max_num_batched_tokens, 2048 if cpu else 16384), length, num_seqs)
    invariant = spec.batch_invariant
    return EngineSettings(
        folder=folder,
        device=device,
        dtype={"auto": "float32" if cpu else "bfloat16"}.get(dtype, dtype),
        tensor_parallel_size=model.tensor_parallel_size,
        max_model_len=length,
        block_size=block,
        max_num_seqs=num_seqs,
        max_num_batched_tokens=batched,
        # With fewer, places in the batch wait for requests.
        window=_or(spec.window, 2 * num_seqs),
        # Else the cache would keep the ends of prompts, and dates share their beginnings.
        keeps_all_blocks=model.has_sliding_window,
        threads=threads,
        kv_cache_gib=spec.kv_cache_gib,
        gpu_memory_utilization=spec.gpu_memory_utilization,
        prefix_caching=spec.prefix_caching,
        batch_invariant=not cpu and model.batch_invariant if invariant == "auto" else invariant,
        reads_images=model.reads_images,
        seed=spec.seed,
    )


def _or(value: int | str, default: int) -> int:
    return value if isinstance(value, int) else default
