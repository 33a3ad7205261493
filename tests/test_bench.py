"""Benchmarks measure what they say. Those that start an engine or take long run here on little."""

import json
from pathlib import Path

import pytest

from pipeline import bench, registry
from pipeline.bench import Bench, _plans, scale
from pipeline.bench._trial import Trial, run
from pipeline.config import EngineSpec, ModelSpec, SweepSpec
from pipeline.errors import ConfigError
from pipeline.progress import Reporter


@pytest.fixture
def small(simulated_spec: SweepSpec) -> Bench:
    return Bench(spec=simulated_spec, share=0.001, reporter=Reporter())


def test_every_benchmark_says_what_it_measures() -> None:
    assert registry.names("bench") == ["compose", "engine", "prefix", "scale", "score"]
    for name in registry.names("bench"):
        assert registry.module("bench", name).ABOUT


def test_an_unknown_benchmark_names_the_nearest(small: Bench) -> None:
    with pytest.raises(ConfigError, match="did you mean 'compose'"):
        bench.main(["compos"], small)


def test_the_last_line_is_json_with_units_in_the_keys(small: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    figures = bench.main(["compose"], small)
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed == figures
    assert printed["compose_prompts_per_s"] > 30 * printed["render_and_tokenise_prompts_per_s"]
    assert printed["compose_prompts_compared"] == 160
    assert printed["cpu_cores"] >= 1


def test_the_scale_benchmark_goes_through_every_stage(small: Bench) -> None:
    figures = scale.measure(small)
    assert figures["scale_requests"] == 14 * (365 + 1 + 12)
    for name in ("plan", "generate", "score", "analyse"):
        assert figures[f"scale_{name}_s"] > 0
    assert figures["scale_worker_peak_gb"] > 0.05


def test_made_up_items_have_the_number_and_the_groups_of_the_real_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    rows = [json.loads(line) for line in (Path(scale._mirror(tmp_path)) / "cais/mmlu/all/test.jsonl").open()]
    assert len(rows) == 14_042
    assert len({row["subject"] for row in rows}) == 57
    assert len({row["question"] for row in rows}) == 14_042


def test_a_trial_times_real_vllm_and_its_cache(tiny_model: ModelSpec, simulated_spec: SweepSpec, tmp_path: Path) -> None:
    work = Bench(spec=simulated_spec.model_copy(update={"models": [tiny_model]}), share=1, reporter=Reporter())
    requests = _plans.requests(_plans.composer(work, tmp_path), 12, lambda r: bool(r.label_token_ids))
    spec = EngineSpec(max_num_seqs=16, kv_cache_gib=1)
    trial = Trial(model=tiny_model, engine=spec, max_model_len=256, batches={"label": requests}, also_bare=True)
    timed = run(trial, tmp_path / "log")["label"]
    assert timed.prompt_tokens == sum(len(r.token_ids) for r in requests)
    assert timed.output_tokens == len(requests)
    assert timed.over_bare is not None
    assert timed.seconds > 0
