"""ARC-Challenge: grade-school science questions that simple retrieval gets wrong.

Clark et al. 2018, arXiv 1803.05457.

The paper's setting is `zero_shot`; its Table 4 is `five_shot`, with the first five rows of the
train split, or of the validation split where a mirror has no train split.
"""

from pipeline.core.records import Item
from pipeline.tasks import Source
from pipeline.tasks._choice import MultipleChoice, make_item
from pipeline.tasks._rows import Row


def _source(split: str) -> Source:
    return Source(
        dataset="allenai/ai2_arc",
        config="ARC-Challenge",
        split=split,
        url="https://huggingface.co/datasets/allenai/ai2_arc",
        licence="CC BY-SA 4.0",
    )


class ARCChallenge(MultipleChoice):
    """ARC-Challenge with its options under letters, also where the row labels them 1 to 4.

    Some rows have three options or five.
    """

    name = "arc_challenge"
    title = "ARC-Challenge"
    version = 1
    extraction_version = 2
    source = _source("test")
    example_sources = (_source("train"), _source("validation"))
    # 4 of the 1,172 test rows have three options, 3 have five.
    chance = 100 * (4 / 3 + 1165 / 4 + 3 / 5) / 1172
    paper_items = 1_172
    paper_subset = 298

    def item(self, row: Row, split: str) -> Item:
        """The item for `row`, under the row's own id; its labels say which option the key means."""
        choices = row.mapping("choices")
        labels = choices.texts("label")
        key = row.text("answerKey")
        if key not in labels:
            raise row.fault("answerKey", f"one of the row's labels ({', '.join(labels)})", key)
        return make_item(
            self.name,
            row.text("id"),
            group="",
            question=row.text("question"),
            options=choices.texts("text", count=len(labels)),
            gold=labels.index(key),
        )


TASK = ARCChallenge
