"""Stage 2: completions become scores, each distinct output once.

In: completions of all shards. Out: `scores/<model>/<task>.<style>/<chunk>.parquet`.
"""

from pipeline.score.stage import (
    Work as Work,
    check_generated as check_generated,
    confinement as confinement,
    progress as progress,
    score as score,
    signatures as signatures,
)
