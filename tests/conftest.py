"""Shared fixtures: one real vLLM engine, one Ray and one finished run serve the whole session."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Before anything imports a library that would look for a network.
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

from pipeline import cluster, engines, settings
from pipeline.core.progress import Reporter
from pipeline.data import checkpoints
from pipeline.settings.schema import EngineSpec, ModelSpec, SweepSpec
from pipeline.store.run_folder import Run
from pipeline.sweep import run_sweep
from tests.runs import copy_of

REPOSITORY = Path(__file__).parent.parent
# How long an example takes says nothing on a machine that has other work.
hypothesis.settings.register_profile("no_deadline", deadline=None)
hypothesis.settings.load_profile("no_deadline")


@pytest.fixture(autouse=True)
def _in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests find `configs` wherever pytest was started."""
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture(scope="session")
def demo_model() -> ModelSpec:
    """The demo's model file."""
    return settings.model_file(settings.model_path("smollm2-135m-instruct"))


@pytest.fixture(scope="session")
def demo_folder(demo_model: ModelSpec) -> Path:
    """The demo model in Hugging Face layout: real weights, tokenizer and chat template."""
    return checkpoints.folder(demo_model)


@pytest.fixture(scope="session")
def tiny_model_folder(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two small random layers with the demo model's tokenizer: real, and quick."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    folder = tmp_path_factory.mktemp("tiny") / "tiny-llama"
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    AutoTokenizer.from_pretrained(demo_folder).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_model_folder: Path) -> ModelSpec:
    """Settings of the tiny model."""
    raw = {
        "name": "tiny",
        "title": "tiny",
        "licence": "none",
        "weights": {"path": str(tiny_model_folder)},
    }
    return ModelSpec.model_validate(raw)


@pytest.fixture(scope="session")
def tiny_engine(tiny_model: ModelSpec, tiny_model_folder: Path) -> engines.VllmEngine:
    """The one real vLLM engine of the session, in this process."""
    resolved = engines.resolve(
        EngineSpec(max_num_seqs=16, kv_cache_gib=1),
        tiny_model,
        tiny_model_folder,
        device="cpu",
        threads=2,
        max_model_len=512,
    )
    return engines.VllmEngine(resolved)


SIMULATED_SWEEP = """
name = "small"
title = "A small simulated sweep"
models = ["simulated"]
data_root = "{configs}/demo"

[calendar]
first = 2024-01-01
last = 2024-12-31
step = 61
placebo = 1

[[tasks]]
name = "mmlu"
limit = 12

[[tasks]]
name = "gsm8k"
limit = 4

[[tasks]]
name = "wmt16_en_de"
limit = 4

[engine]
shard_rows = 32
"""


@pytest.fixture(scope="session")
def simulated_spec(tmp_path_factory: pytest.TempPathFactory) -> SweepSpec:
    """A small sweep of three tasks on the simulated engine."""
    path = tmp_path_factory.mktemp("sweep") / "small.toml"
    path.write_text(SIMULATED_SWEEP.format(configs=(REPOSITORY / "configs").resolve()))
    return settings.load_sweep(str(path))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that want no Ray come last, so that the session's is started once."""
    items.sort(key=lambda item: "no_ray" in getattr(item, "fixturenames", ()))


class SharedRay:
    """The one Ray of the test session, since a start takes seconds: stages leave it up."""

    def __init__(self) -> None:
        self._session = contextlib.ExitStack()

    def start(self) -> cluster.Resources:
        """Up from here on, if it is not yet."""
        return self._session.enter_context(cluster.session(None))

    def stop(self) -> None:
        """Down, until somebody asks for it again."""
        self._session.close()


@pytest.fixture(scope="session")
def shared_ray() -> Iterator[SharedRay]:
    """The session's Ray, not necessarily up; for fixtures of the session."""
    ray = SharedRay()
    yield ray
    ray.stop()


@pytest.fixture
def ray_session(shared_ray: SharedRay) -> cluster.Resources:
    """What the session's Ray, which is up, has to give."""
    return shared_ray.start()


@pytest.fixture
def no_ray(shared_ray: SharedRay) -> None:
    """No Ray is up: for tests of its start and end, and for those with a cluster of their own."""
    shared_ray.stop()


@pytest.fixture(scope="session")
def simulated_run(
    simulated_spec: SweepSpec, shared_ray: SharedRay, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """A finished run of the simulated sweep; read it, or change a `copied_run`."""
    shared_ray.start()
    return run_sweep(simulated_spec, tmp_path_factory.mktemp("runs") / "small", Reporter())


@pytest.fixture
def copied_run(simulated_run: Run, tmp_path: Path) -> Run:
    """A copy of the simulated run, to change."""
    return copy_of(simulated_run, tmp_path / "run")
