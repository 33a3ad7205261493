"""WMT16 news translation, English to Finnish: all 6,000 rows of newstest2016 (Bojar et al. 2016),
as the paper counts them.

They are 3,000 sentences, each asked twice: rows 3,000 to 5,999 repeat them with a second reference.
`wmt16_en_fi_3000` asks each once.
"""

from typing import ClassVar

from pipeline.tasks import Source
from pipeline.tasks._translation import EnglishTo


class WMT16EnglishFinnish(EnglishTo):
    """Translation into Finnish.

    The Hub names the pair `fi-en` for both directions, and each row is an item with its own
    reference.
    """

    name = "wmt16_en_fi"
    title = "WMT16 en-fi"
    source = Source(
        dataset="wmt/wmt16",
        config="fi-en",
        split="test",
        url="https://huggingface.co/datasets/wmt/wmt16",
        licence="CC BY 4.0",
    )
    language = "Finnish"
    code = "fi"
    paper_items: ClassVar[int | None] = 6_000


TASK = WMT16EnglishFinnish
