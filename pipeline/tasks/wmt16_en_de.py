"""WMT16 news translation, English to German: the 2,999 pairs of newstest2016, as in the paper.

Bojar et al. 2016.
"""

from pipeline.tasks._translation import EnglishTo, newstest


class WMT16EnglishGerman(EnglishTo):
    """Translation into German. The Hub names the pair `de-en` for both directions."""

    name = "wmt16_en_de"
    title = "WMT16 en-de"
    source = newstest("wmt16", "de-en")
    language = "German"
    code = "de"
    paper_items = 2_999


TASK = WMT16EnglishGerman
