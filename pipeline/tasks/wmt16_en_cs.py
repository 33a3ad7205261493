"""WMT16 news translation, English to Czech: the 2,999 pairs of newstest2016 (Bojar et al. 2016).

The paper counts 3,003 items for this pair, which is the size of WMT14's test set: see
`wmt14_en_cs`.
"""

from pipeline.tasks._translation import EnglishTo, newstest


class WMT16EnglishCzech(EnglishTo):
    """Translation into Czech. The Hub names the pair `cs-en` for both directions."""

    name = "wmt16_en_cs"
    title = "WMT16 en-cs"
    source = newstest("wmt16", "cs-en")
    language = "Czech"
    code = "cs"


TASK = WMT16EnglishCzech
