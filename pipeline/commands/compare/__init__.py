"""Two runs side by side, pair by pair.

What changes in a score when the same items are asked on the same dates in another run. Outcomes are
joined by key: task, style, metric, item, variant. Two runs of one model may differ in anything else
(engine, checkpoint, prompts, a version of this tool), and two models may be set against each other.
`_paired` says what the intervals and p-values mean.
"""

from pipeline.commands.compare._comparison import (
    Comparison as Comparison,
    compare as compare,
    compare_evidence as compare_evidence,
)
from pipeline.commands.compare._match import SCHEMA as SCHEMA
from pipeline.commands.compare._table import table_of as table_of
