"""GPQA Diamond: the 198 questions that experts answer and others do not; the paper's set.

Gated, CC BY 4.0: see `_gpqa.py` before use.

The paper's setting is `zero_shot`; its Table 4 is `five_shot`, with five rows of gpqa_main that are
not in Diamond.
"""

from pipeline.tasks._gpqa import GPQA, subset


class GPQADiamond(GPQA):
    """The subset on which both expert validators agree and most others fail."""

    name = "gpqa_diamond"
    title = "GPQA Diamond"
    source = subset("gpqa_diamond")
    example_sources = (subset("gpqa_main"),)
    paper_items = 198


TASK = GPQADiamond
