"""The streaming window on real vLLM with a tiny random model."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline import engines
from pipeline.core.errors import EngineError
from pipeline.core.records import Output, Request, Sampling
from pipeline.engines.vllm import VllmEngine
from pipeline.settings.schema import EngineSpec, ModelSpec

GREEDY = Sampling(max_tokens=12, temperature=0.0, top_p=1.0, top_k=0, seed=None)
LABELS = (330, 389, 340, 422)


def prompt(seed: int, length: int) -> list[int]:
    return [1, *np.random.default_rng(seed).integers(10, 49_000, length).tolist()]


def label_request(position: int, length: int = 50) -> Request:
    one = Sampling(max_tokens=1, temperature=0.0, top_p=1.0, top_k=0, seed=None)
    return Request(
        position=position, token_ids=prompt(position, length), sampling=one, label_token_ids=LABELS
    )


def text_request(position: int, sampling: Sampling = GREEDY) -> Request:
    return Request(
        position=position, token_ids=prompt(position, 40), sampling=sampling, label_token_ids=()
    )


def run(tiny_engine: VllmEngine, requests: list[Request]) -> dict[int, tuple[str, list[float]]]:
    return {o.position: (o.text, o.label_logprobs) for o in tiny_engine.generate(iter(requests))}


@pytest.fixture(scope="module")
def mixed() -> list[Request]:
    return [label_request(i) if i % 2 else text_request(i) for i in range(40)]


@pytest.fixture(scope="module")
def outputs(tiny_engine: VllmEngine, mixed: list[Request]) -> list[Output]:
    return list(tiny_engine.generate(iter(mixed)))


def test_every_request_comes_back_once(outputs: list[Output]) -> None:
    assert sorted(o.position for o in outputs) == list(range(40))


def test_label_requests_give_raw_log_probabilities_over_the_whole_vocabulary(
    outputs: list[Output], mixed: list[Request], tiny_model_folder: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder, dtype=torch.float32)
    for output in [o for o in outputs if o.position % 2][:5]:
        with torch.no_grad():
            logits = model(torch.tensor([mixed[output.position].token_ids])).logits[0, -1]
        expected = torch.log_softmax(logits, dim=-1)[list(LABELS)].tolist()
        assert output.label_logprobs == pytest.approx(expected, abs=2e-4), (
            "in the order of the request's labels"
        )
        assert output.text == ""
        assert output.num_output_tokens == 1


def test_generated_text_is_greedy_decoding(
    outputs: list[Output], mixed: list[Request], tiny_model_folder: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    output = next(o for o in outputs if o.position == 0)
    ids = torch.tensor([mixed[0].token_ids])
    expected = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    assert output.text == tokenizer.decode(expected, skip_special_tokens=True)
    assert output.label_logprobs == []


@pytest.mark.parametrize("order", ["reversed", "one by one", "shuffled"])
def test_outputs_do_not_depend_on_the_order_of_work(
    tiny_engine: VllmEngine, mixed: list[Request], outputs: list[Output], order: str
) -> None:
    first = {o.position: (o.text, o.label_logprobs) for o in outputs}
    if order == "one by one":
        again = {
            position: value
            for request in mixed[:12]
            for position, value in run(tiny_engine, [request]).items()
        }
    else:
        picked = (
            mixed[::-1]
            if order == "reversed"
            else [mixed[i] for i in np.random.default_rng(1).permutation(40)]
        )
        again = run(tiny_engine, picked)
    assert again == {position: first[position] for position in again}


def test_the_prefix_cache_is_used_and_counted(tiny_engine: VllmEngine) -> None:
    shared = prompt(77, 96)
    requests = [
        Request(position=i, token_ids=[*shared, 100 + i], sampling=GREEDY, label_token_ids=())
        for i in range(500, 506)
    ]
    found = list(tiny_engine.generate(iter(requests)))
    assert sum(o.num_cached_tokens for o in found) >= 5 * 96


def test_seeded_sampling_belongs_to_the_request_and_not_to_the_batch(
    tiny_engine: VllmEngine,
) -> None:
    requests = [
        text_request(
            i, Sampling(max_tokens=10, temperature=0.9, top_p=0.95, top_k=0, seed=1000 + i)
        )
        for i in range(600, 620)
    ]
    assert run(tiny_engine, requests) == run(tiny_engine, requests[::-1])


def test_only_a_window_of_requests_is_pulled_ahead(tiny_engine: VllmEngine) -> None:
    pulled, finished, ahead = 0, 0, 0

    def source() -> Iterator[Request]:
        nonlocal pulled
        for i in range(700, 700 + 150):
            pulled += 1
            yield label_request(i, 20)

    for _ in tiny_engine.generate(source()):
        ahead = max(ahead, pulled - finished)
        finished += 1
    assert finished == 150
    assert ahead <= tiny_engine.settings.window


def test_an_empty_stream_ends_at_once(tiny_engine: VllmEngine) -> None:
    assert list(tiny_engine.generate(iter([]))) == []


def test_a_prompt_that_vllm_refuses_names_its_position(tiny_engine: VllmEngine) -> None:
    with pytest.raises(EngineError, match="position 4242"):
        list(tiny_engine.generate(iter([label_request(4242, 600)])))


def test_the_facts_name_versions_and_every_resolved_setting(tiny_engine: VllmEngine) -> None:
    facts = tiny_engine.facts()
    assert facts.versions["vllm"].startswith("0.")
    assert facts.settings["block_size"] == 32
    assert facts.settings["dtype"] == "float32"
    assert facts.settings["stop_token_ids"] == [2]
    assert "folder" not in facts.settings
    assert facts.honoured is not None
    assert facts.environment is not None
    assert facts.honoured["block_size"] == 32, "read back from vLLM's own configuration"
    assert facts.honoured["chunked_prefill"] is False
    assert facts.honoured["prefix_hash"] == "sha256"
    assert facts.environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"


def test_settings_for_a_gpu_ask_for_batch_invariance(tiny_model: ModelSpec, tmp_path: Path) -> None:
    resolved = engines.resolve(
        EngineSpec(), tiny_model, tmp_path, device="gpu", threads=4, max_model_len=300
    )
    assert (
        resolved.batch_invariant,
        resolved.dtype,
        resolved.block_size,
        resolved.max_model_len,
    ) == (True, "bfloat16", 16, 304)
