"""What BLEU and chrF share: sacrebleu's statistics for single segments, and its signature.

sacrebleu keeps statistics of single segments behind underscores: its public scores hold none for
chrF. The tests compare with its public `corpus_score`, so a release that changes them shows at
once.
"""

import functools
from array import array
from typing import Any, ClassVar

import numpy as np
import polars as pl

from pipeline.core.errors import DataError
from pipeline.metrics import Metric, Reads, scored


class CorpusMetric(Metric):
    """A metric of sacrebleu.

    An output without a translation is an empty hypothesis and counts with the statistics of one.
    """

    reads: ClassVar[Reads] = "references"
    scorer: ClassVar[Any]
    """sacrebleu's metric object, which holds the settings."""

    def segments(self, answers: pl.DataFrame) -> pl.DataFrame:
        """Statistics of each answer against all references of its item.

        Outputs of one item should follow one another, as its references are then prepared once.

        Raises:
            DataError: an item has no reference.
        """
        bare = answers.filter(pl.col("references").list.len() == 0)
        if bare.height:
            raise DataError(
                f"{bare['task'][0]} item {bare['item_id'][0]} has no reference, which {self.name} "
                "needs; see `references` in its task's items()"
            )
        is_new = (answers["references"] != answers["references"].shift()).fill_null(value=True)
        known, references = None, iter(answers["references"].filter(is_new).to_list())
        # Not a list of lists, which the garbage collector would go through again and again.
        stats = array("d")
        for answer, starts in zip(answers["answer"].to_list(), is_new.to_list(), strict=True):
            if starts:
                known = prepared(self.scorer, tuple(next(references)))
            hypothesis = self.scorer._preprocess_segment(answer)
            stats.extend(self.scorer._compute_segment_statistics(hypothesis, known))
        return scored(answers, np.array(stats).reshape(answers.height, len(self.stat_names)))

    def signature(self, num_references: int = 1) -> str:
        """The signature of sacrebleu for `num_references` to each item; -1 where the number varies.

        Every translation task here has one, hence the default; `signature_for` counts them.
        """
        settings = {**vars(self.scorer), "num_refs": num_references}
        return str(self.scorer._SIGNATURE_TYPE(settings))

    def signature_for(self, items: pl.DataFrame) -> str:
        """The signature with the number of references that `items` have."""
        counts = items["references"].list.len().unique()
        return self.signature(counts[0] if len(counts) == 1 else -1)


@functools.lru_cache(maxsize=64)
def prepared(scorer: Any, references: tuple[str, ...]) -> Any:
    """n-grams of references, kept for the next outputs of the same item."""
    return scorer._extract_reference_info([scorer._preprocess_segment(r) for r in references])
