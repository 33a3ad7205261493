"""Outputs of an engine -> shards of completions on disk.

Outputs come in any order; a shard is written when its last one is in.
"""

import time
from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.core import tables
from pipeline.core.records import Completion, Output
from pipeline.generate.requests import Composer, PlannedShard
from pipeline.store import Run, write_json, write_parquet


@dataclass(slots=True)
class Tally:
    """What a replica has done since it started, or several together."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def add(self, output: Output) -> None:
        """Count one output."""
        self.requests += 1
        self.prompt_tokens += output.num_prompt_tokens
        self.cached_tokens += output.num_cached_tokens
        self.output_tokens += output.num_output_tokens

    def text(self, seconds: float) -> str:
        """Tokens per second, prompt and output together, and the share of prompt tokens that came
        from the cache; for people.
        """
        rate = (self.prompt_tokens + self.output_tokens) / max(seconds, 1e-9)
        return (
            f"{rate:,.0f} tokens/s, "
            f"{100 * self.cached_tokens / max(self.prompt_tokens, 1):.0f}% from cache"
        )


class ShardWriter:
    """Collects outputs and writes each shard when it is whole, in plan order, so that the order of
    work leaves no trace.
    """

    def __init__(self, run: Run, composer: Composer) -> None:
        """`composer` knows the plan."""
        self.run, self.composer = run, composer
        self.asked, self.arms = run.plan_table("asked"), run.plan_table("arms")
        self.open_shards: list[_OpenShard] = []
        self.written = time.monotonic()
        """When the last shard was written. Shards overlap in the engine; spans between writes add
        up to the replica's time."""

    def open(self, shard: PlannedShard) -> None:
        """Expect the outputs of `shard`."""
        self.open_shards.append(_OpenShard(shard))

    def add(self, output: Output) -> None:
        """Take one output, and write its shard if it was the last."""
        shard = next(
            s for s in self.open_shards if 0 <= output.position - s.planned.start < len(s.outputs)
        )
        shard.outputs[output.position - shard.planned.start] = output
        shard.num_missing -= 1
        if not shard.num_missing:
            self.open_shards.remove(shard)
            self._write(shard.planned, [one for one in shard.outputs if one is not None])

    def _write(self, planned: PlannedShard, outputs: list[Output]) -> None:
        model, tally = self.composer.model.name, Tally()
        for output in outputs:
            tally.add(output)
        now = time.monotonic()
        figures = {name: getattr(tally, name) for name in Tally.__slots__} | {
            "replica_s": round(now - self.written, 3)
        }
        self.written = now
        write_json(
            {"model": model, "shard": planned.number, **figures},
            self.run.telemetry_path(model, planned.number),
        )
        write_parquet(
            self._frame(planned, outputs), self.run.completion_path(model, planned.number)
        )

    def _frame(self, planned: PlannedShard, outputs: list[Output]) -> pl.DataFrame:
        """The shard's completions, a row for each, in plan order."""
        orders = self.composer.option_orders(planned.arms)
        ids = [
            tables.output_id(o.text, o.label_logprobs, order)
            for o, order in zip(outputs, orders, strict=True)
        ]
        schema = tables.schema(Completion)
        own = pl.DataFrame(
            {
                "prompt_hash": planned.prompt_hashes,
                "output_id": ids,
                "text": [o.text for o in outputs],
                "label_logprobs": _lists([o.label_logprobs for o in outputs]),
                "finish_reason": [o.finish_reason for o in outputs],
                "num_prompt_tokens": [o.num_prompt_tokens for o in outputs],
                "num_output_tokens": [o.num_output_tokens for o in outputs],
            }
        )
        keys = pl.concat(
            [self.asked[planned.items], self.arms[planned.arms], own], how="horizontal"
        )
        named = keys.with_columns(
            model=pl.lit(self.composer.model.name), engine=pl.lit(self.composer.spec.engine.name)
        )
        return named.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _lists(rows: list[list[float]]) -> pl.Series:
    """A list column; where all rows have as many numbers, which they mostly do, made from one
    array.
    """
    width = len(rows[0])
    if not width or any(len(row) != width for row in rows):
        return pl.Series(rows, dtype=pl.List(pl.Float64))
    return pl.Series(np.array(rows, dtype=np.float64)).arr.to_list()


class _OpenShard:
    """A shard whose outputs are still coming in."""

    def __init__(self, planned: PlannedShard) -> None:
        self.planned = planned
        self.outputs: list[Output | None] = [None] * len(planned.items)
        self.num_missing = len(planned.items)
