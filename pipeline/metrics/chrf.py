"""chrF2 as sacrebleu computes it (character n-grams up to 6, no words), from sums over segments."""

import numpy as np
import sacrebleu

from pipeline.metrics import Array
from pipeline.metrics._sacrebleu import CorpusMetric

_CHAR_ORDER = 6
_BETA = 2


class Chrf(CorpusMetric):
    """Corpus chrF2, equal to `sacrebleu.corpus_chrf` to the last digit."""

    name = "chrf"
    title = "chrF2"
    stat_names = tuple(
        f"{part}_{n}" for n in range(1, _CHAR_ORDER + 1) for part in ("hyp", "ref", "match")
    )
    scorer = sacrebleu.CHRF(char_order=_CHAR_ORDER, word_order=0, beta=_BETA)

    def combine(self, sums: Array, counts: Array) -> Array:
        """chrF2 of each vector of sums: F of precision and recall, averaged over the orders.

        Orders that one side lacks do not count. The operations and their order are those of
        sacrebleu's `CHRF._compute_f_score` (version 2.6), so that no digit differs.
        """
        shape = np.broadcast_shapes(sums.shape[:-1], np.shape(counts))
        precision, recall, num_orders = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for n in range(_CHAR_ORDER):
            hyp, ref, match = (sums[..., 3 * n + part] for part in range(3))
            usable = (hyp > 0) & (ref > 0)
            precision += np.divide(match, hyp, out=np.zeros(shape), where=usable)
            recall += np.divide(match, ref, out=np.zeros(shape), where=usable)
            num_orders += usable
        score = _f_score(precision / np.maximum(num_orders, 1), recall / np.maximum(num_orders, 1))
        return np.where(np.asarray(counts) > 0, score, np.nan)


def _f_score(precision: Array, recall: Array) -> Array:
    factor = _BETA**2
    weighted = factor * precision + recall
    product = (1 + factor) * precision * recall
    return 100 * np.divide(product, weighted, out=np.zeros_like(product), where=weighted > 0)


METRIC = Chrf()
