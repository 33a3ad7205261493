"""WMT16 news translation, English to Finnish: the first 3,000 rows, each sentence once.

The usual setting of this test set; the paper counts all 6,000 rows, which is `wmt16_en_fi`.
"""

from pipeline.tasks.wmt16_en_fi import WMT16EnglishFinnish


class WMT16EnglishFinnish3000(WMT16EnglishFinnish):
    """Translation into Finnish without the repeated sentences."""

    name = "wmt16_en_fi_3000"
    title = "WMT16 en-fi, first 3,000"
    num_rows = 3_000
    paper_items = None


TASK = WMT16EnglishFinnish3000
