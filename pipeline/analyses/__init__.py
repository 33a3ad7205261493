"""Analyses: one file per question asked of a run's completions and scores.

In: the completions, scores, variants and items of a run. Out: tables, one for each question.

To add one, write `pipeline/analyses/<name>.py` with

    SCHEMA  the columns of its table
    table   function of an `Evidence` that returns a Polars frame

and the question as its docstring. It is found by its file name. Start from `Evidence.outcomes()`,
which gives one benchmark run under one metric at a time as arrays over items and dates. The
contract tests (`tests/analyses/test_contract.py`) then check that its table has its columns, does
not depend on the order of the rows and comes out equal to the byte each time; so sort it by a key,
and add up floats with `Outcomes.stats.sums()`, which goes by a fixed order of items. All scores are
0 to 100. Dates are compared only within one condition (`Outcomes.conditions()`), in which nothing
but the date differs.
"""

from pipeline.analyses import _stats
from pipeline.analyses._evidence import (
    BY_VARIANT as BY_VARIANT,
    COUNTS as COUNTS,
    Evidence as Evidence,
    evidence as evidence,
    evidence_of_run as evidence_of_run,
)
from pipeline.analyses._outcomes import (
    AXES as AXES,
    CONDITION as CONDITION,
    CONDITION_KEY as CONDITION_KEY,
    SERIES_KEY as SERIES_KEY,
    Outcomes as Outcomes,
)
from pipeline.analyses._spread import SPREAD as SPREAD, mean_score as mean_score, spread as spread
from pipeline.analyses._stage import Analysis as Analysis, analyse as analyse, get as get
from pipeline.analyses._stats import (
    Bools as Bools,
    Cells as Cells,
    Combine as Combine,
    Floats as Floats,
    Ints as Ints,
)

stats = _stats
"""Pure statistics on arrays, for other rooms."""
