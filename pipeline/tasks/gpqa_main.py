"""GPQA main: 448 questions, Diamond's among them; not a set of the paper.

Gated, CC BY 4.0: see `_gpqa.py` before use.

Shots of `five_shot` are five rows of gpqa_extended that are not in main.
"""

from pipeline.tasks._gpqa import GPQA, subset


class GPQAMain(GPQA):
    """The authors' main subset."""

    name = "gpqa_main"
    title = "GPQA main"
    source = subset("gpqa_main")
    example_sources = (subset("gpqa_extended"),)


TASK = GPQAMain
