"""What a sweep asks, as columns in prefix order, and the proof that it can be asked.

In: a `SweepSpec`. Out: the plan's tables in the run folder, what was learned about each model's
prompts, and what the work will cost. No engine is started.
"""

from pipeline.plan.benchmarks import (
    Benchmark as Benchmark,
    as_scored as as_scored,
    check_consent as check_consent,
    layers as layers,
    load as load,
    max_tokens as max_tokens,
    scored_by as scored_by,
    signatures as signatures,
    with_metrics as with_metrics,
)
from pipeline.plan.checks import rendered as rendered
from pipeline.plan.cost import Rate as Rate, keep_rate as keep_rate
from pipeline.plan.gold import check_gold as check_gold, gold_outputs as gold_outputs
from pipeline.plan.stage import Plan as Plan, make_plan as make_plan, planned_spec as planned_spec
from pipeline.plan.summary import (
    plan_line as plan_line,
    plan_notes as plan_notes,
    plan_table as plan_table,
    task_table as task_table,
)
