"""Outputs of an engine -> shards of completions on disk.

Outputs come in any order; a shard is written when its last one is in.
"""

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.core import tables
from pipeline.core.records import Completion, Output
from pipeline.generate.loaded_plan import LoadedPlan, PlannedShard
from pipeline.store import Run, Telemetry, write_parquet


@dataclass(slots=True)
class Tally:
    """What a replica has done since it started, or several together."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    @classmethod
    def sum(cls, tallies: Iterable["Tally"]) -> "Tally":
        """Several together."""
        rows = [dataclasses.astuple(tally) for tally in tallies]
        return cls(*(sum(column) for column in zip(*rows, strict=True)))

    def add(self, output: Output) -> None:
        """Count one output."""
        self.requests += 1
        self.prompt_tokens += output.num_prompt_tokens
        self.cached_tokens += output.num_cached_tokens
        self.output_tokens += output.num_output_tokens

    def text(self, seconds: float) -> str:
        """Tokens per second, prompt and output together, and the cached share; for people."""
        rate = (self.prompt_tokens + self.output_tokens) / max(seconds, 1e-9)
        cached = 100 * self.cached_tokens / max(self.prompt_tokens, 1)
        return f"{rate:,.0f} tokens/s, {cached:.0f}% from cache"


class _OpenShard:
    """A shard whose outputs are still coming in."""

    def __init__(self, planned: PlannedShard) -> None:
        self.planned = planned
        self.prompt_hashes: list[str] = []
        """In plan order, as prompts are composed."""
        self.outputs: list[Output | None] = [None] * len(planned.items)
        self.num_missing = len(planned.items)

    def expects(self, position: int) -> bool:
        return 0 <= position - self.planned.start < len(self.outputs)

    def add(self, output: Output) -> None:
        self.outputs[output.position - self.planned.start] = output
        self.num_missing -= 1


class ShardWriter:
    """Writes each shard when it is whole, in plan order: the order of work leaves no trace."""

    def __init__(self, run: Run, plan: LoadedPlan, model: str, engine: str) -> None:
        """`model` and `engine` are the names in the key of what is written."""
        self.run, self.plan, self.model, self.engine = run, plan, model, engine
        self.open_shards: list[_OpenShard] = []
        self.written = time.monotonic()
        """When the last shard was written. Shards overlap in the engine; spans between writes add
        up to the replica's time."""

    def open(self, planned: PlannedShard) -> list[str]:
        """The list that is to be filled with the prompts' hashes; outputs are expected from now."""
        self.open_shards.append(_OpenShard(planned))
        return self.open_shards[-1].prompt_hashes

    def add(self, output: Output) -> None:
        """Take one output, and write its shard if it was the last."""
        shard = next(s for s in self.open_shards if s.expects(output.position))
        shard.add(output)
        if not shard.num_missing:
            self.open_shards.remove(shard)
            outputs = [output for output in shard.outputs if output is not None]
            self._write_telemetry(shard.planned.number, outputs)
            frame = self._frame(shard.planned, shard.prompt_hashes, outputs)
            path = self.run.completion_path(self.model, shard.planned.number)
            write_parquet(frame, path, tables.schema(Completion))

    def _write_telemetry(self, shard: int, outputs: list[Output]) -> None:
        tally, now = Tally(), time.monotonic()
        for output in outputs:
            tally.add(output)
        seconds, self.written = now - self.written, now
        counts = dataclasses.asdict(tally)
        self.run.write_telemetry(
            Telemetry(model=self.model, shard=shard, **counts, replica_s=round(seconds, 3))
        )

    def _frame(
        self, planned: PlannedShard, prompt_hashes: list[str], outputs: list[Output]
    ) -> pl.DataFrame:
        """The shard's completions, a row for each, in plan order."""
        orders = [self.plan.arms[arm].option_order for arm in planned.arms]
        own = pl.DataFrame(
            {
                "prompt_hash": prompt_hashes,
                "output_id": [
                    tables.output_id(o.text, o.label_logprobs, order)
                    for o, order in zip(outputs, orders, strict=True)
                ],
                "text": [o.text for o in outputs],
                "label_logprobs": _lists([o.label_logprobs for o in outputs]),
                "finish_reason": [o.finish_reason for o in outputs],
                "num_prompt_tokens": [o.num_prompt_tokens for o in outputs],
                "num_output_tokens": [o.num_output_tokens for o in outputs],
            }
        )
        keys = [self.plan.asked[planned.items], self.plan.arm_names[planned.arms]]
        frame = pl.concat([*keys, own], how="horizontal").with_columns(
            model=pl.lit(self.model), engine=pl.lit(self.engine)
        )
        schema = tables.schema(Completion)
        return frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _lists(rows: list[list[float]]) -> pl.Series:
    """A list column; where all rows have as many numbers, as mostly, made from one array."""
    width = len(rows[0])
    if not width or any(len(row) != width for row in rows):
        return pl.Series(rows, dtype=pl.List(pl.Float64))
    return pl.Series(np.array(rows, dtype=np.float64)).arr.to_list()
