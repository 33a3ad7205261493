"""What a worker does with a chunk: scores, and bad outputs that stand alone."""

import polars as pl
import pytest

from pipeline import metrics, tasks
from pipeline.core import tables
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.records import Item, Score
from pipeline.plan import benchmarks, signatures
from pipeline.sandbox.launch import Launcher
from pipeline.sandbox.run import Sandbox
from pipeline.score import distinct, evaluate
from pipeline.settings.schema import SweepSpec, TaskSpec
from pipeline.store.run_folder import Run


def outputs_of(run: Run, spec: SweepSpec, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The outputs of the one chunk of a task, and its items."""
    [chunk] = [c for c in distinct.chunks(run, spec) if c.task.name == name]
    [(_, outputs)] = distinct.with_outputs(run, [chunk])
    return outputs, run.plan_table("items").filter(task=name)


def scorer(items: pl.DataFrame, *names: str) -> evaluate.Scorer:
    """What scores by the metrics `names`."""
    signatures = {name: metrics.get(name).signature() for name in names}
    return evaluate.Scorer(items=items, signatures=signatures)


def breaking(on: set[str], error: Exception) -> object:
    """`Task.extract` that raises for some texts."""
    original = type(tasks.get("gsm8k")).extract

    def extract(self: tasks.Task, item: tasks.Item, text: str) -> tasks.Answer:
        if text in on:
            raise error
        return original(self, item, text)

    return extract


def test_scores_have_a_row_for_each_output_in_its_order_under_each_metric(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    outputs, items = outputs_of(simulated_run, simulated_spec, "mmlu")
    found = scorer(items, "ece", "accuracy").scores(outputs)
    assert found.schema == tables.schema(Score)
    assert found["metric"].unique(maintain_order=True).to_list() == ["ece", "accuracy"]
    for name in ("ece", "accuracy"):
        mine = found.filter(metric=name)
        assert mine.select(tables.OUTPUT_KEY).equals(outputs.select(tables.OUTPUT_KEY))
        assert mine["signature"].unique().to_list() == [metrics.get(name).signature()]
        assert mine["extraction_version"].unique().to_list() == [
            tasks.get("mmlu").extraction_version
        ]


@pytest.mark.parametrize("num_bad", [1, 2, 3])
def test_an_output_on_which_extraction_breaks_is_the_only_one_that_fails(
    simulated_run: Run, simulated_spec: SweepSpec, monkeypatch: pytest.MonkeyPatch, num_bad: int
) -> None:
    outputs, items = outputs_of(simulated_run, simulated_spec, "gsm8k")
    whole = scorer(items, "accuracy").scores(outputs)
    bad = set(outputs["text"].unique(maintain_order=True)[:num_bad])
    monkeypatch.setattr(
        type(tasks.get("gsm8k")), "extract", breaking(bad, RuntimeError("a bug\nsecond line"))
    )
    found = scorer(items, "accuracy").scores(outputs)
    is_bad = outputs["text"].is_in(list(bad))
    assert found.filter(~is_bad).equals(whole.filter(~is_bad))
    failed = found.filter(is_bad)
    assert failed["status"].unique().to_list() == ["failed"]
    assert failed["detail"].unique().to_list() == ["RuntimeError: a bug"]
    assert failed["stats"].is_null().all()


def test_a_metric_that_breaks_on_an_output_leaves_the_other_metrics_alone(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    outputs, items = outputs_of(simulated_run, simulated_spec, "mmlu")
    is_first = pl.row_index() == 0
    spoilt = outputs.with_columns(
        label_logprobs=pl.when(is_first).then([float("nan")] * 4).otherwise("label_logprobs")
    )
    whole, found = (scorer(items, "accuracy", "ece").scores(rows) for rows in (outputs, spoilt))
    assert found.filter(metric="ece")[1:].equals(whole.filter(metric="ece")[1:])
    assert found.filter(metric="accuracy")[1:].equals(whole.filter(metric="accuracy")[1:])
    assert found.filter(metric="ece")["status"][0] == "failed"
    assert DataError.__name__ in found.filter(metric="ece")["detail"][0]


def test_a_metric_that_does_not_fit_the_task_is_no_fault_of_an_output(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    outputs, items = outputs_of(simulated_run, simulated_spec, "gsm8k")
    with pytest.raises(ConfigError, match="ece"):
        scorer(items, "ece").scores(outputs)


def test_failed_outputs_have_a_row_under_each_metric_with_the_cause(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    outputs, items = outputs_of(simulated_run, simulated_spec, "wmt16_en_de")
    found = scorer(items, "bleu", "chrf").failed(outputs[:2], "ended its worker")
    assert found.schema == tables.schema(Score)
    assert found.select("metric", "status", "detail").rows() == [
        (m, "failed", "ended its worker") for m in ("bleu", "bleu", "chrf", "chrf")
    ]


def test_naming_the_metrics_of_the_task_changes_nothing(simulated_run: Run) -> None:
    items, named = (
        simulated_run.plan_table("items").filter(task="mmlu"),
        TaskSpec(name="mmlu", metrics=["accuracy", "ece"]),
    )
    assert distinct.how_scored(named, items) == distinct.how_scored(TaskSpec(name="mmlu"), items)
    assert distinct.how_scored(
        TaskSpec(name="mmlu", metrics=["accuracy"]), items
    ) != distinct.how_scored(named, items)


def test_a_signature_counts_the_references_of_all_items_of_the_task(simulated_run: Run) -> None:
    items = simulated_run.plan_table("items").filter(task="wmt16_en_de")
    two = items.with_columns(references=pl.concat_list("references", "references"))
    assert "nrefs:1|" in signatures(TaskSpec(name="wmt16_en_de"), items)["bleu"]
    assert "nrefs:2|" in signatures(TaskSpec(name="wmt16_en_de"), two)["bleu"]
    assert (
        "nrefs:var|"
        in signatures(TaskSpec(name="wmt16_en_de"), pl.concat([items[:1], two[1:]]))["bleu"]
    )


def test_where_everything_breaks_the_machine_is_to_blame_and_not_each_row() -> None:
    rows, calls = pl.DataFrame({"row": range(1000)}), 0

    def broken(part: pl.DataFrame) -> pl.DataFrame:
        nonlocal calls
        calls += 1
        raise OSError("no memory")

    found = evaluate.halving(
        broken, rows, lambda part, error: part.with_columns(cause=pl.lit(str(error))), 4
    )
    assert found["row"].to_list() == list(range(1000))
    assert found["cause"].unique().to_list() == ["no memory"]
    assert calls < 40


@pytest.mark.parametrize(
    ("sandbox", "status"),
    [
        (Sandbox(layers=()), "scored"),
        (Sandbox(layers=("bubblewrap",), launcher=Launcher(bwrap="/nonexistent/bwrap")), "failed"),
    ],
)
def test_programs_run_in_the_sandbox_that_was_chosen_and_in_no_weaker_one(
    sandbox: Sandbox, status: str
) -> None:
    asked = benchmarks.load(TaskSpec(name="humaneval", limit=2), "configs/demo")
    items = tables.from_records(Item, asked.items)
    outputs = right_outputs(asked.task, items)
    signatures = {"pass_at_1": "pass_at_1|version:3"}
    scorer = evaluate.Scorer(items=items, signatures=signatures, sandbox=sandbox)
    rows = scorer.scores(outputs)
    assert rows["status"].unique().to_list() == [status]
    assert rows["stats"].to_list() == [[1.0] if status == "scored" else None] * 2


def right_outputs(task: tasks.Task, items: pl.DataFrame) -> pl.DataFrame:
    """Outputs in which each item got its right answer."""
    texts = [task.gold_output(item) for item in tables.to_records(Item, items)]
    return items.select(
        model=pl.lit("m"),
        engine=pl.lit("e"),
        task="task",
        style=pl.lit("zero_shot"),
        item_id="item_id",
        output_id="item_id",
        text=pl.Series(texts),
        label_logprobs=pl.lit([], dtype=pl.List(pl.Float64)),
        option_order=pl.lit(0),
    )
