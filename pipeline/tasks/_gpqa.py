"""GPQA: graduate-level questions in biology, physics and chemistry; what its subsets share.

Rein et al. 2023, arXiv 2311.12022.

The data set is gated and under CC BY 4.0; its authors ask that no one publishes its questions in
plain text or images online. To use it, log in to the Hub and accept its terms. Keep run folders,
which hold items and outputs, out of public places.

Rows have the right answer and three wrong ones in separate columns. Their order is a hash of the
Record ID, so it is the same for every date, model, machine and subset.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.records import Item
from pipeline.tasks import Source
from pipeline.tasks._choice import MultipleChoice, make_item
from pipeline.tasks._rows import Row

_COLUMNS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def subset(config: str) -> Source:
    """The rows of a subset; the Hub calls the only split of each `train`."""
    return Source(
        dataset="Idavidrein/gpqa",
        config=config,
        split="train",
        url="https://huggingface.co/datasets/Idavidrein/gpqa",
        licence="CC BY 4.0; gated, and its authors ask that its text is not published",
    )


class GPQA(MultipleChoice):
    """One subset of GPQA; a subclass sets `name`, `title`, `source` and `example_sources`.

    An item's group is its domain.
    """

    version = 1
    extraction_version = 2
    chance = 100 / len(_COLUMNS)

    def item(self, row: Row, split: str) -> Item:
        """The item for `row`, under its Record ID, whose hash orders its options."""
        record = row.text("Record ID").strip()
        order = sorted(range(len(_COLUMNS)), key=lambda i: _hash(f"option:{record}:{i}"))
        answers = [row.text(column) for column in _COLUMNS]
        return make_item(
            self.name,
            record,
            group=row.text("High-level domain").strip(),
            question=row.text("Question"),
            options=[answers[i] for i in order],
            gold=order.index(0),
        )

    def examples(self, rows: Iterable[Mapping[str, Any]], items: Sequence[Item]) -> Iterator[Item]:
        """Items of a larger subset that are not among `items`, by a hash of their ids."""
        own = {item.item_id for item in items}
        others = (e for e in super().examples(rows, items) if e.item_id not in own)
        return iter(sorted(others, key=lambda example: _hash(f"shot:{example.item_id}")))


def _hash(text: str) -> bytes:
    return hashlib.sha256(f"gpqa:{text}".encode()).digest()
