"""BLEU as sacrebleu computes it (13a tokens, exponential smoothing), from sums over segments."""

import numpy as np
import sacrebleu

from pipeline.metrics import Array
from pipeline.metrics._sacrebleu import CorpusMetric

_MAX_ORDER = 4


class Bleu(CorpusMetric):
    """Corpus BLEU, equal to `sacrebleu.corpus_bleu` to the last digit."""

    name = "bleu"
    title = "BLEU"
    stat_names = (
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
        score = self.scorer._compute_score_from_stats
        vectors = sums.reshape(-1, len(self.stat_names)).tolist()
        pairs = zip(vectors, np.ravel(counts > 0), strict=True)
        scores = [float(score(v).score) if there else np.nan for v, there in pairs]
        return np.array(scores).reshape(np.shape(counts))


METRIC = Bleu()
