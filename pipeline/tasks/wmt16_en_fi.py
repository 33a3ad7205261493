"""WMT16 news translation, English to Finnish: all 6,000 rows of newstest2016, as in the paper.

Bojar et al. 2016. Rows 3,000 to 5,999 repeat the 3,000 sentences with a second reference;
`wmt16_en_fi_3000` asks each once.
"""

from typing import ClassVar

from pipeline.tasks._translation import EnglishTo, newstest


class WMT16EnglishFinnish(EnglishTo):
    """Translation into Finnish: each row of the Hub's pair `fi-en` is an item of its own."""

    name = "wmt16_en_fi"
    title = "WMT16 en-fi"
    source = newstest("wmt16", "fi-en", licence="CC BY 4.0")
    language = "Finnish"
    code = "fi"
    paper_items: ClassVar[int | None] = 6_000


TASK = WMT16EnglishFinnish
