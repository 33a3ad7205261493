"""MMLU: multiple choice over 57 subjects (Hendrycks et al. 2021, arXiv 2009.03300).

The paper's setting is `zero_shot`; its Table 4 is `five_shot`, its Figure 4 `cot`. Shots are the
five dev rows of the item's own subject, which the test split never repeats within a subject.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pipeline.core.records import Item
from pipeline.tasks import Source, Style
from pipeline.tasks._choice import COT, MultipleChoice, make_item
from pipeline.tasks._rows import Row

_NUM_OPTIONS = 4


def _source(split: str) -> Source:
    url = "https://huggingface.co/datasets/cais/mmlu"
    return Source(dataset="cais/mmlu", config="all", split=split, url=url, licence="MIT")


class MMLU(MultipleChoice):
    """MMLU over all subjects; an item's group is its subject."""

    name = "mmlu"
    title = "MMLU"
    version = 3
    extraction_version = 2
    source = _source("test")
    example_sources = (_source("dev"),)
    styles: ClassVar[Mapping[str, Style]] = {**MultipleChoice.styles, "cot": COT}
    chance = 100 / _NUM_OPTIONS
    paper_items = 14_042
    paper_subset = 285

    def item(self, row: Row, split: str) -> Item:
        """The item for `row`; ids are places in the split, for 27 test rows repeat others."""
        return make_item(
            self.name,
            row.item_id(split),
            group=row.text("subject"),
            question=row.text("question"),
            options=row.texts("choices", count=_NUM_OPTIONS),
            # By place: in 4 test rows the right option has a twin.
            gold=row.integer("answer", low=0, high=_NUM_OPTIONS - 1),
        )

    def suitable(self, item: Item, examples: Sequence[Item]) -> list[Item]:
        """The dev rows of the subject of `item`."""
        return [example for example in examples if example.group == item.group]


TASK = MMLU
