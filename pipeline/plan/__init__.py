"""What a sweep asks, as columns in prefix order, and the proof that it can be asked.

In: a `SweepSpec`. Out: the plan's tables in the run folder, what was learned about each model's
prompts, and what the work will cost. No engine is started.
"""

from pipeline.plan.benchmarks import (
    Benchmark as Benchmark,
    check_consent as check_consent,
    judged_by as judged_by,
    layers as layers,
    load as load,
    max_tokens as max_tokens,
)
from pipeline.plan.checks import rendered as rendered
from pipeline.plan.cost import Rate as Rate, keep_rate as keep_rate
from pipeline.plan.stage import Plan as Plan
