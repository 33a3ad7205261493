"""WMT16 news translation, English to Czech: the 2,999 pairs of newstest2016 (Bojar et al. 2016).

The paper counts 3,003 items for this pair, which is the size of WMT14's test set: see
`wmt14_en_cs`.
"""

from pipeline.tasks import Source
from pipeline.tasks._translation import EnglishTo


class WMT16EnglishCzech(EnglishTo):
    """Translation into Czech. The Hub names the pair `cs-en` for both directions."""

    name = "wmt16_en_cs"
    title = "WMT16 en-cs"
    source = Source(
        dataset="wmt/wmt16",
        config="cs-en",
        split="test",
        url="https://huggingface.co/datasets/wmt/wmt16",
        licence="not stated on the Hub; WMT news test sets are given for research",
    )
    language = "Czech"
    code = "cs"


TASK = WMT16EnglishCzech
