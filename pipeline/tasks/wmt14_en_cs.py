"""WMT14 news translation, English to Czech: the 3,003 pairs of newstest2014 (Bojar et al. 2014).

The paper's 3,003 items for this pair are this set's number; WMT16's 2,999 pairs are `wmt16_en_cs`.
"""

from pipeline.tasks import Source
from pipeline.tasks._translation import EnglishTo


class WMT14EnglishCzech(EnglishTo):
    """Translation into Czech. The Hub names the pair `cs-en` for both directions."""

    name = "wmt14_en_cs"
    title = "WMT14 en-cs"
    source = Source(
        dataset="wmt/wmt14",
        config="cs-en",
        split="test",
        url="https://huggingface.co/datasets/wmt/wmt14",
        licence="not stated on the Hub; WMT news test sets are given for research",
    )
    language = "Czech"
    code = "cs"
    paper_items = 3_003


TASK = WMT14EnglishCzech
