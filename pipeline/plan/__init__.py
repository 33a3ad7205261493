"""What a sweep asks, as columns in prefix order, and the proof that it can be asked.

In: a `SweepSpec`. Out: the plan's tables in the run folder, what was learned about each model's
prompts, and what the work will cost. No engine is started.
"""

from pipeline.plan.benchmarks import Benchmark as Benchmark, load as load
from pipeline.plan.checks import rendered as rendered
from pipeline.plan.cost import (
    Rate as Rate,
    foreseen_tokens as foreseen_tokens,
    keep_rate as keep_rate,
    stated_rate as stated_rate,
)
from pipeline.plan.gold import check_gold as check_gold, gold_outputs as gold_outputs
from pipeline.plan.scoring import (
    as_scored as as_scored,
    check_consent as check_consent,
    fitting_metrics as fitting_metrics,
    scored_by as scored_by,
    signatures as signatures,
    with_metrics as with_metrics,
)
from pipeline.plan.stage import Plan as Plan, make_plan as make_plan, planned_spec as planned_spec
from pipeline.plan.summary import (
    cost_table as cost_table,
    plan_line as plan_line,
    plan_notes as plan_notes,
    plan_table as plan_table,
    task_table as task_table,
)
