"""What BLEU and chrF share: sacrebleu's statistics for one segment, and its signature.

sacrebleu keeps statistics of single segments behind underscores: its public scores hold none for chrF. The tests compare with its public
`corpus_score`, so a release that changes them shows at once.
"""

import functools
from typing import Any, ClassVar

from pipeline import tasks
from pipeline.errors import DataError
from pipeline.metrics import Metric, Segment
from pipeline.records import Item


class CorpusMetric(Metric):
    """A metric of sacrebleu. An output without a translation is an empty hypothesis and counts with the statistics of one."""

    scorer: ClassVar[Any]
    """sacrebleu's metric object, which holds the settings."""

    def segment(self, item: Item, answer: tasks.Answer) -> Segment:
        """Statistics of sacrebleu for `answer` against all references of `item`.

        Raises:
            DataError: the item has no reference.
        """
        if not item.references:
            raise DataError(
                f"{item.task} item {item.item_id} has no reference, which {self.name} needs; see `references` in its task's items()"
            )
        references = _reference_statistics(self.scorer, tuple(item.references))
        hypothesis = self.scorer._preprocess_segment(answer.answer)
        stats = self.scorer._compute_segment_statistics(hypothesis, references)
        return Segment(status="scored" if answer.answer else "no_answer", stats=[float(s) for s in stats])

    def signature(self, num_references: int = 1) -> str:
        """The signature that sacrebleu gives for items with `num_references` references each (-1 where the number varies).

        Every translation task here has one reference per item, hence the default.
        """
        settings = {**vars(self.scorer), "num_refs": num_references}
        return str(self.scorer._SIGNATURE_TYPE(settings))


@functools.lru_cache(maxsize=64)
def _reference_statistics(scorer: Any, references: tuple[str, ...]) -> Any:
    """n-grams of the references, kept for the next outputs of the same item, which mostly follow each other."""
    return scorer._extract_reference_info([scorer._preprocess_segment(r) for r in references])
