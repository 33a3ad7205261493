"""Stage 2: completions become scores, each distinct output once.

In: completions of all shards. Out: `scores/<model>/<task>.<style>/<chunk>.parquet`.
"""

from pipeline.score.stage import Work as Work
from pipeline.score.stage import check_generated as check_generated
from pipeline.score.stage import confinement as confinement
from pipeline.score.stage import progress as progress
from pipeline.score.stage import score as score
from pipeline.score.stage import signatures as signatures
