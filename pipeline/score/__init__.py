"""Stage 2: completions become scores, each distinct output once.

In: completions of all shards. Out: `scores/<model>/<task>.<style>/<chunk>.parquet`.
"""

from pipeline.score.stage import progress as progress, score as score
