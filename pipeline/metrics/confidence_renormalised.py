"""Mean confidence in the choice between the options: the raw one divided by the label mass."""

from pipeline.metrics.confidence import Confidence


class ConfidenceRenormalised(Confidence):
    """Mean probability of the chosen label among the labels alone, in percent.

    From 100 / number of labels to 100. It describes and does not judge.
    """

    name = "confidence_renormalised"
    title = "confidence renormalised"
    probabilities = "renormalised"


METRIC = ConfidenceRenormalised()
