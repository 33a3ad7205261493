"""Expected calibration error of the choice between the options: with renormalised confidence.

The paper (arXiv 2609.36931) does not say whether it reports this or `ece`; where the label mass is
near 1 they are the same.
"""

from pipeline.metrics.ece import Ece


class EceRenormalised(Ece):
    """Calibration error with renormalised confidence in points, from 0 (perfect) to 100."""

    name = "ece_renormalised"
    title = "ECE renormalised"
    probabilities = "renormalised"


METRIC = EceRenormalised()
