"""What is proved before an engine starts: prompts and lengths, and that right answers get full
marks.
"""

import dataclasses
import datetime
from pathlib import Path

import pytest

from pipeline import tasks
from pipeline.core import cores
from pipeline.core.errors import DataError, PromptError
from pipeline.plan import benchmarks, checks, gold
from pipeline.plan.stage import gather
from pipeline.prompts import variants
from pipeline.prompts.render import PromptBuilder
from pipeline.settings import CalendarSpec, ConditionsSpec, ModelSpec, SweepSpec, TaskSpec
from pipeline.store import Run
from pipeline.tasks import Answer

DATES = CalendarSpec(first=datetime.date(2024, 1, 1), last=datetime.date(2024, 1, 3))


def load(
    spec: SweepSpec, name: str, style: str = "zero_shot", limit: int = 4
) -> benchmarks.Benchmark:
    return benchmarks.load(TaskSpec(name=name, style=style, limit=limit), spec.data_root)


def test_the_longest_prompt_counts_the_control_and_every_date(
    simulated_run: Run, simulated_spec: SweepSpec, demo_folder: Path
) -> None:
    builder, planned = (
        PromptBuilder(simulated_spec.models[0], demo_folder),
        gather(simulated_spec),
    )

    def length(one: benchmarks.Benchmark, item: tasks.Item, variant: variants.Variant) -> int:
        text = builder.item_prompt(one.task, item, variant).text(variant.date_text)
        return len(builder.tokenizer.encode(text)) + one.task.max_tokens

    needed = max(
        length(a, i, v) for a in planned.benchmarks for i in a.items for v in planned.variants
    )
    assert simulated_run.prompts()["simulated"].max_model_len == needed


def test_every_condition_of_a_sweep_is_checked(simulated_spec: SweepSpec) -> None:
    [model] = simulated_spec.models
    conditions = ConditionsSpec(
        placements=["system_start", "system_end", "user_start", "user_end"],
        wordings=["none", "expert"],
        option_orders=[0, 1],
        locations=["none", "lima"],
    )
    benchmarks = [
        load(simulated_spec, "mmlu", style, 2) for style in ("zero_shot", "five_shot", "cot")
    ]
    report = checks.check_prompts(model, benchmarks, variants.variants(DATES, conditions), [])
    assert set(report.label_token_ids) == {"mmlu.zero_shot", "mmlu.five_shot", "mmlu.cot"}
    assert report.label_token_ids["mmlu.five_shot"] == {" A": 330, " B": 389, " C": 340, " D": 422}


def test_a_condition_that_the_model_has_no_place_for_is_an_error(simulated_spec: SweepSpec) -> None:
    [model], slot = simulated_spec.models, ConditionsSpec(placements=["template"])
    with pytest.raises(
        PromptError, match="placement `template` needs a template with a date of its own"
    ):
        checks.check_prompts(
            model, [load(simulated_spec, "mmlu")], variants.variants(DATES, slot), []
        )


@pytest.mark.parametrize(
    ("name", "style", "scores"),
    [
        ("mmlu", "zero_shot", {"accuracy": 100.0, "ece": 0.0}),
        ("mmlu", "five_shot", {"accuracy": 100.0, "ece": 0.0}),
        ("mmlu", "cot", {"accuracy": 100.0}),
        ("gsm8k", "zero_shot", {"accuracy": 100.0}),
        ("humaneval", "zero_shot", {"pass_at_1": 100.0}),
        ("wmt16_en_de", "zero_shot", {"bleu": 100.0, "chrf": 100.0}),
    ],
)
def test_right_answers_get_full_marks_in_every_order_of_options(
    simulated_spec: SweepSpec, name: str, style: str, scores: dict[str, float]
) -> None:
    right = gold.gold_scores(load(simulated_spec, name, style), [0, 1, 2])
    assert right == pytest.approx(scores)


def test_a_right_answer_that_is_not_recognised_is_named(
    simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = load(simulated_spec, "gsm8k")
    hard, real = benchmark.items[2].item_id, type(benchmark.task).extract

    def blind(self: tasks.Task, item: tasks.Item, text: str) -> Answer:
        answer = real(self, item, text)
        return dataclasses.replace(answer, answer="1234") if item.item_id == hard else answer

    monkeypatch.setattr(type(benchmark.task), "extract", blind)
    message = r"gsm8k\.zero_shot: the right answers get 75\.0000 in accuracy; the worst is item "
    with pytest.raises(DataError, match=rf"{message}{hard}.*'1234'"):
        gold.gold_scores(benchmark, [0])


def test_models_are_checked_side_by_side_to_the_same_end(
    simulated_spec: SweepSpec, demo_model: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmarks = [load(simulated_spec, "gsm8k")]
    spaced = demo_model.model_copy(update={"name": "spaced", "label_form": "spaced"})
    again = demo_model.model_copy(update={"name": "again"})
    arguments = (
        [demo_model, spaced, again],
        benchmarks,
        variants.variants(DATES, ConditionsSpec()),
        [],
        lambda text: None,
    )
    one_by_one = checks.check_all(*arguments)
    assert list(one_by_one) == [demo_model.name, "spaced", "again"]
    assert one_by_one["again"] == one_by_one[demo_model.name]
    monkeypatch.setattr(cores, "num_cores", lambda: 2)
    assert checks.check_all(*arguments, many_items=0) == one_by_one


def test_a_fault_found_in_another_process_is_told_as_one_found_here(
    simulated_spec: SweepSpec, demo_model: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = demo_model.model_copy(update={"name": "short", "max_model_len": 8})
    arguments = (
        [demo_model, short],
        [load(simulated_spec, "gsm8k")],
        variants.variants(DATES, ConditionsSpec()),
        [],
        lambda text: None,
    )
    with pytest.raises(PromptError) as here:
        checks.check_all(*arguments)
    monkeypatch.setattr(cores, "num_cores", lambda: 2)
    with pytest.raises(PromptError) as there:
        checks.check_all(*arguments, many_items=0)
    assert str(there.value) == str(here.value)
    assert "short" in str(here.value)
