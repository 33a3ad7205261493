"""What BLEU and chrF share: sacrebleu's statistics for single segments, and its signature.

sacrebleu keeps statistics of single segments behind underscores: its public scores hold none for
chrF. The tests compare with its public `corpus_score`, so a release that changes them shows at
once.
"""

import functools
from array import array
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl

from pipeline import tasks
from pipeline.core.errors import DataError
from pipeline.core.records import Item
from pipeline.metrics import Metric, Reads, Segment, judged


class CorpusMetric(Metric):
    """A metric of sacrebleu.

    An output without a translation is an empty hypothesis and counts with the statistics of one.
    """

    reads: ClassVar[Reads] = "references"
    scorer: ClassVar[Any]
    """sacrebleu's metric object, which holds the settings."""

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """Statistics of sacrebleu for `answer` against all references of `item`.

        Raises:
            DataError: the item has no reference.
        """
        if not item.references:
            raise self._no_reference(item.task, item.item_id)
        stats = [float(s) for s in self._statistics(answer.answer, self._prepared(item.references))]
        return Segment(status="scored" if answer.answer else "no_answer", stats=stats)

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """As `segment`, for whole columns.

        Outputs of one item should follow one another, as its references are then prepared once.

        Raises:
            DataError: an item has no reference.
        """
        bare = answers.filter(pl.col("references").list.len() == 0)
        if bare.height:
            raise self._no_reference(bare["task"][0], bare["item_id"][0])
        is_new = answers.select(
            (pl.col("references") != pl.col("references").shift()).fill_null(value=True)
        ).to_series()
        known, different = None, iter(answers.filter(is_new)["references"].to_list())
        stats = array(
            "d"
        )  # not a list of lists, which the garbage collector would go through again and again
        for answer, starts in zip(answers["answer"].to_list(), is_new.to_list(), strict=True):
            known = self._prepared(next(different)) if starts else known
            stats.extend(self._statistics(answer, known))
        return judged(answers, np.array(stats).reshape(answers.height, len(self.stat_names)))

    def signature(self, num_references: int = 1) -> str:
        """The signature that sacrebleu gives for items with `num_references` references each (-1
        where the number varies).

        Every translation task here has one reference per item, hence the default; `signature_for`
        counts them.
        """
        settings = {**vars(self.scorer), "num_refs": num_references}
        return str(self.scorer._SIGNATURE_TYPE(settings))

    def signature_for(self, items: pl.DataFrame) -> str:
        """The signature with the number of references that `items` have."""
        found = items["references"].list.len().unique()
        return self.signature(found[0] if len(found) == 1 else -1)

    def _prepared(self, references: Sequence[str]) -> Any:
        """What sacrebleu needs to know of the references."""
        return _reference_statistics(self.scorer, tuple(references))

    def _statistics(self, hypothesis: str, prepared: Any) -> list[int]:
        stats: list[int] = self.scorer._compute_segment_statistics(
            self.scorer._preprocess_segment(hypothesis), prepared
        )
        return stats

    def _no_reference(self, task: str, item_id: str) -> DataError:
        return DataError(
            f"{task} item {item_id} has no reference, which {self.name} needs; see "
            "`references` in its task's items()"
        )


@functools.lru_cache(maxsize=64)
def _reference_statistics(scorer: Any, references: tuple[str, ...]) -> Any:
    """n-grams of the references, kept for the next outputs of the same item, which mostly follow
    each other.
    """
    return scorer._extract_reference_info([scorer._preprocess_segment(r) for r in references])
