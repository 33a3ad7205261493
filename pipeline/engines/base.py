"""What generation needs of an engine, and the settings of one replica."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.core.records import Output, Request


class Engine(Protocol):
    """What generation needs of an engine."""

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """Outputs of `requests` as they finish.

        `requests` is pulled only while the window has room, so it may compose prompts lazily.
        """
        ...

    def facts(self) -> dict[str, Any]:
        """Everything that could change an output: versions, hardware, resolved settings."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Resolved settings of one replica.

    Nothing is left to vLLM's defaults that could differ between versions or platforms.
    """

    folder: Path
    device: str
    """`cpu` or `gpu`."""
    dtype: str
    tensor_parallel_size: int
    max_model_len: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    window: int
    """Requests given to vLLM at a time."""
    prefix_hash: str
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
