"""WMT14 news translation, English to Czech: the 3,003 pairs of newstest2014 (Bojar et al. 2014).

The paper's 3,003 items for this pair are this set's number; WMT16's 2,999 pairs are `wmt16_en_cs`.
"""

from pipeline.tasks._translation import EnglishTo, newstest


class WMT14EnglishCzech(EnglishTo):
    """Translation into Czech. The Hub names the pair `cs-en` for both directions."""

    name = "wmt14_en_cs"
    title = "WMT14 en-cs"
    source = newstest("wmt14", "cs-en")
    language = "Czech"
    code = "cs"
    paper_items = 3_003


TASK = WMT14EnglishCzech
