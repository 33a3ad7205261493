"""Stage 1: the plan's missing shards become completions.

In: the plan's tables. Out: `completions/<model>/<shard>.parquet`, each whole or absent, and its
telemetry.
"""

from pipeline.generate.pool import RESTARTS as RESTARTS
from pipeline.generate.requests import Composer as Composer
from pipeline.generate.stage import generate as generate
