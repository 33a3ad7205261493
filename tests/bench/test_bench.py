"""Benchmarks measure what they say. Those that start an engine or take long run here on little."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from pipeline import bench, metrics, tasks
from pipeline.bench import Bench, _corpus, _human_eval, _plans, programs, scale, score
from pipeline.bench._trial import Trial, run
from pipeline.core import registry, tables
from pipeline.core.errors import ConfigError
from pipeline.core.progress import Reporter
from pipeline.core.records import Item
from pipeline.plan import benchmarks
from pipeline.settings.schema import EngineSpec, ModelSpec, SweepSpec, TaskSpec


@pytest.fixture
def small(simulated_spec: SweepSpec) -> Bench:
    return Bench(spec=simulated_spec, share=0.001, reporter=Reporter())


def test_every_benchmark_says_what_it_measures() -> None:
    assert registry.names("bench") == ["compose", "engine", "prefix", "programs", "scale", "score"]
    for name in registry.names("bench"):
        assert registry.module("bench", name).ABOUT


def test_an_unknown_benchmark_names_the_nearest(small: Bench) -> None:
    with pytest.raises(ConfigError, match="did you mean 'compose'"):
        bench.main(["compos"], small)


def test_the_last_line_is_json_with_units_in_the_keys(
    small: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_made_up_items_have_the_number_and_the_groups_of_the_real_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    rows = [
        json.loads(line)
        for line in (Path(scale.mirror(tmp_path)) / "cais/mmlu/all/test.jsonl").open()
    ]
    assert len(rows) == 14_042
    assert len({row["subject"] for row in rows}) == 57
    assert len({row["question"] for row in rows}) == 14_042


def test_a_trial_times_real_vllm_and_its_cache(
    tiny_model: ModelSpec, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    work = Bench(
        spec=simulated_spec.model_copy(update={"models": [tiny_model]}),
        share=1,
        reporter=Reporter(),
    )
    requests = _plans.requests(_plans.composer(work, tmp_path), 12, of_labels=True)
    spec = EngineSpec(max_num_seqs=16, kv_cache_gib=1)
    trial = Trial(model=tiny_model, engine=spec, batches={"label": requests}, also_bare=True)
    timed = run(trial, tmp_path / "log")["label"]
    assert timed.prompt_tokens == sum(len(r.token_ids) for r in requests)
    assert timed.output_tokens == len(requests)
    assert timed.over_bare is not None
    assert timed.seconds > 0


def test_the_scoring_benchmark_agrees_with_human_eval_and_sacrebleu(
    small: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    monkeypatch.setattr(score, "NUM_LABELS", 2_000)
    monkeypatch.setattr(score, "NUM_TRANSLATIONS", 50)
    figures = score.measure(small)
    assert (figures["score_programs_completions"], figures["score_programs_distinct"]) == (24, 10)
    assert figures["score_programs_unequal_verdicts"] == 0
    assert 0 < figures["score_programs_passed"] < 24
    assert (figures["score_texts_rows"], figures["score_texts_distinct"]) == (2 * 365, 2 * 73)
    for name in ("bleu", "chrf"):
        assert (
            figures[f"score_{name}_dates_compared"],
            figures[f"score_{name}_unequal_dates"],
        ) == (2, 0)
        assert figures[f"score_{name}_times_as_fast_as_corpus_score"] > 1
    for rate in (
        "humaneval_outputs_per_s",
        "mmlu_outputs_per_s",
        "mmlu_outputs_per_core_s",
        "wmt16_en_de_outputs_per_s",
    ):
        assert figures[f"score_{rate}"] > 0


def test_what_has_no_data_is_left_out_and_said(
    small: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    said: list[str] = []
    monkeypatch.setattr(Reporter, "say", lambda self, text: said.append(text))
    monkeypatch.setattr(
        score,
        "PARTS",
        {"mmlu": lambda *_: pytest.fail("measured"), "humaneval": lambda *_: {"figure": 1}},
    )
    nowhere = Bench(
        spec=small.spec.model_copy(update={"data_root": str(tmp_path)}),
        share=1,
        reporter=small.reporter,
    )
    assert score.measure(nowhere) == {"figure": 1}
    assert len(said) == 1
    assert "mmlu is left out: cais/mmlu is not in the mirror" in said[0]


def test_a_year_of_texts_has_every_date_once_and_a_fifth_of_its_texts_are_distinct() -> None:
    items = benchmarks.load(TaskSpec(name="wmt16_en_de"), "configs/demo").items
    rows = _corpus.year(items, [[item.target, item.target + " !"] for item in items])
    assert rows.group_by("item_id").len()["len"].to_list() == [365] * len(items)
    assert rows.select("item_id", "date").n_unique() == rows.height
    counts = rows.group_by("item_id", "answer").len()
    assert counts.height == 73 * len(items)
    assert counts["len"].max() > 40  # few outputs are common
    assert counts.filter(len=1).height > counts.height / 10  # and many are rare
    assert rows.equals(_corpus.year(items, [[item.target, item.target + " !"] for item in items]))


def test_a_benchmark_counts_dates_with_another_score(monkeypatch: pytest.MonkeyPatch) -> None:
    items = benchmarks.load(TaskSpec(name="wmt16_en_de"), "configs/demo").items[:3]
    rows = _corpus.year(items, [[item.target] for item in items])
    combine = type(metrics.get("bleu")).combine
    monkeypatch.setattr(
        type(metrics.get("bleu")),
        "combine",
        lambda self, sums, counts: combine(self, sums, counts) + 1e-9,
    )
    assert _corpus.compare("bleu", rows, tables.from_records(Item, items))["unequal_dates"] == 2


def test_programs_of_the_benchmark_are_edits_of_reference_solutions() -> None:
    items = benchmarks.load(TaskSpec(name="humaneval"), None).items
    rows = _human_eval.completions(items)
    assert rows.height == 12 * 164
    assert rows.select("item_id", "completion").n_unique() == round(0.4 * 12 * 164)
    assert {item.item_id for item in items} == set(rows["item_id"])
    task = tasks.get("humaneval")
    assert task.answers(rows.join(tables.from_records(Item, items), on="item_id"))[
        "rule"
    ].unique().to_list() == ["function"]


def test_two_sides_are_timed_in_turn() -> None:
    order: list[str] = []
    found = [
        bench.in_turn(
            number, lambda: order.append("ours") or 1, lambda: order.append("theirs") or 2
        )
        for number in range(3)
    ]
    assert found == [(1, 2)] * 3
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_a_benchmark_counts_verdicts_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    items = benchmarks.load(TaskSpec(name="humaneval"), None).items[:2]
    monkeypatch.setattr(
        _human_eval,
        "by_human_eval",
        lambda block, workers: (pl.repeat(value=True, n=block.height, eager=True), 1.0),
    )
    figures = _human_eval.measure(items)
    assert figures["score_programs_unequal_verdicts"] == 24 - figures["score_programs_passed"] > 0


def test_the_programs_benchmark_scores_every_completion_of_its_year(
    small: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "TaskSpec", lambda name: TaskSpec(name=name, limit=2))
    figures = programs.measure(replace(small, share=3 / 365))
    assert figures["programs_completions"] == 2 * 4
    assert 2 <= figures["programs_distinct"] <= 8
    assert figures["programs_passed"] > 0
    assert figures["programs_timeout"] == figures["programs_failed"] == 0
