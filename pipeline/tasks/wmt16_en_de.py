"""WMT16 news translation, English to German: the 2,999 pairs of newstest2016 (Bojar et al. 2016),
as in the paper.
"""

from pipeline.tasks import Source
from pipeline.tasks._translation import EnglishTo


class WMT16EnglishGerman(EnglishTo):
    """Translation into German. The Hub names the pair `de-en` for both directions."""

    name = "wmt16_en_de"
    title = "WMT16 en-de"
    source = Source(
        dataset="wmt/wmt16",
        config="de-en",
        split="test",
        url="https://huggingface.co/datasets/wmt/wmt16",
        licence="not stated on the Hub; WMT news test sets are given for research",
    )
    language = "German"
    code = "de"
    paper_items = 2_999


TASK = WMT16EnglishGerman
