"""What is fetched from elsewhere: rows of data sets, weights and tokenizers.

In: a task's `Source`, a model's settings. Out: rows as dictionaries, folders with models in them,
and what a machine lacks, told before work begins.
"""

from pipeline.data.rows import (
    first_available as first_available,
    origin_of as origin_of,
    read_rows as read_rows,
    to_fetch as to_fetch,
)
from pipeline.data.splits import fetch_split as fetch_split, pinned as pinned
