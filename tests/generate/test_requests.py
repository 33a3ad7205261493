"""What is composed of a plan's rows."""

from pathlib import Path

import polars as pl

from pipeline import tasks
from pipeline.core import tables
from pipeline.engines import SimulatedEngine
from pipeline.generate import Composer
from pipeline.plan import stage as plan_stage
from pipeline.prompts import PromptBuilder
from pipeline.settings import SweepSpec
from pipeline.settings.schema import SamplingSpec
from pipeline.store import Run


def test_the_stored_prompt_hash_is_that_of_the_prompt_rendered_anew(
    simulated_run: Run, simulated_spec: SweepSpec, demo_folder: Path
) -> None:
    builder = PromptBuilder(simulated_spec.models[0], demo_folder)
    planned = plan_stage.gather(simulated_spec)
    items = {i.item_id: i for i in planned.items}
    completions = simulated_run.completions().sort(tables.ROW_KEY).collect()
    row = completions.filter(pl.col("variant") == "iso:2024-03-03").row(3, named=True)
    prompt = builder.item_prompt(
        tasks.get(row["task"]), items[row["item_id"]], planned.variants[-1]
    )
    assert row["prompt_hash"] == tables.prompt_hash(
        builder.tokenizer.encode(prompt.text("2024-03-03"))
    )


def test_the_loaded_plan_has_the_benchmarks_of_the_sweep(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    loaded = Composer(simulated_run, simulated_spec, simulated_spec.models[0]).plan
    assert loaded.benchmarks == plan_stage.gather(simulated_spec).benchmarks
    rows = simulated_run.requests().collect().to_dicts()
    for position in (0, 17, len(rows) - 1):
        benchmark, item, variant = loaded.named(*loaded.row(position))
        named = (benchmark.spec.name, benchmark.spec.style, item.item_id, variant.variant)
        assert named == tuple(
            rows[position][key] for key in ("task", "style", "item_id", "variant")
        )


def test_seeds_belong_to_the_item_and_not_to_the_date(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    drawn = simulated_spec.models[0].model_copy(update={"sampling": SamplingSpec(temperature=0.7)})
    composer = Composer(simulated_run, simulated_spec, drawn)
    rows = simulated_run.requests().filter(task="gsm8k").collect().to_dicts()
    seeds = {(r["item_id"], composer.request(r["position"]).sampling.seed) for r in rows}
    assert len(seeds) == len({item for item, _ in seeds}) == 4
    assert len({seed for _, seed in seeds}) == 4
    label_task = simulated_run.requests().filter(task="mmlu").collect().row(0, named=True)
    assert composer.request(label_task["position"]).sampling.temperature == 0, (
        "label tasks never draw"
    )


def test_a_simulated_engine_is_told_what_stands_at_a_position(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    composer = Composer(simulated_run, simulated_spec, simulated_spec.models[0])
    request, simulated = composer.request(0), simulated_spec.models[0].simulated
    assert simulated is not None
    [output] = SimulatedEngine(simulated, composer.pretended).generate(iter([request]))
    assert output.num_prompt_tokens == len(request.token_ids)
