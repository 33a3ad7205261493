"""BLEU as sacrebleu computes it (13a tokens, exponential smoothing): corpus scores from summed
statistics of segments.
"""

from typing import ClassVar

import numpy as np
import sacrebleu

from pipeline.metrics import Array
from pipeline.metrics._sacrebleu import CorpusMetric

_MAX_ORDER = 4


class Bleu(CorpusMetric):
    """Corpus BLEU, equal to `sacrebleu.corpus_bleu` to the last digit."""

    name: ClassVar[str] = "bleu"
    title: ClassVar[str] = "BLEU"
    version: ClassVar[int] = 1
    stat_names: ClassVar[tuple[str, ...]] = (
        "sys_len",
        "ref_len",
        *(f"correct_{n}" for n in range(1, _MAX_ORDER + 1)),
        *(f"total_{n}" for n in range(1, _MAX_ORDER + 1)),
    )
    scorer = sacrebleu.BLEU(max_ngram_order=_MAX_ORDER)

    def combine(self, sums: Array, counts: Array) -> Array:
        """BLEU of each vector of sums.

        sacrebleu is called once for each: its logarithms come from the C library, and NumPy's
        differ from those in the last digit.
        """
        vectors, present = sums.reshape(-1, len(self.stat_names)).tolist(), np.ravel(counts > 0)
        scores = [
            self._score(v) if there else np.nan for v, there in zip(vectors, present, strict=True)
        ]
        return np.array(scores).reshape(np.shape(counts))

    def _score(self, vector: list[float]) -> float:
        return float(self.scorer._compute_score_from_stats(vector).score)


METRIC = Bleu()
