"""Outputs in, scores out: extraction and metrics, as a worker applies them to a chunk.

An output on which our own code raises does not take its chunk with it: the chunk is halved until
the bad output stands alone, which then gets a row with status `failed` and the cause.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import polars as pl

from pipeline import metrics, tasks
from pipeline.core import tables
from pipeline.core.errors import ConfigError
from pipeline.core.records import Score
from pipeline.sandbox.run import Sandbox

MOST_BAD = 64
"""Single outputs on which our code raises, before the rest of a chunk is given up: by then it is
not the outputs' fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """How outputs of one benchmark become rows of `Score`.

    Outputs are as `distinct` gives them. For each metric there is one row for each output, in their
    order.
    """

    items: pl.DataFrame
    """The items of the outputs."""
    signatures: Mapping[str, str]
    """Of the metrics, by name."""
    sandbox: Sandbox | None = None
    """Where programs run."""

    def scores(self, outputs: pl.DataFrame) -> pl.DataFrame:
        """Rows of `Score` for `outputs`.

        Raises:
            ConfigError: a metric does not fit the task.
        """

        def give_up(rows: pl.DataFrame, error: Exception) -> pl.DataFrame:
            return _without_answer(rows, describe(error))

        return self._score(halving(_answer, self._with_items(outputs), give_up))

    def failed(self, outputs: pl.DataFrame, cause: str) -> pl.DataFrame:
        """Rows of `Score` for `outputs` that could not be scored."""
        return self._score(_without_answer(self._with_items(outputs), cause))

    def _with_items(self, outputs: pl.DataFrame) -> pl.DataFrame:
        return outputs.join(self.items, on=["task", "item_id"], how="left", maintain_order="left")

    def _score(self, answered: pl.DataFrame) -> pl.DataFrame:
        """Rows of `Score` for outputs with `answer`, `rule` and why there is none, `cause`."""
        numbered, parts = answered.with_row_index("row"), []
        for name, signature in self.signatures.items():
            metric = metrics.get(name)
            if self.sandbox:
                metric = metric.within(self.sandbox)
            rows = halving(partial(_apply, metric), numbered, partial(_give_up, metric))
            parts.append(rows.with_columns(metric=pl.lit(name), signature=pl.lit(signature)))
        version = pl.lit(_task(answered).extraction_version, pl.Int64)
        columns = tables.schema(Score).names()
        return pl.concat(parts).with_columns(extraction_version=version).select(columns)


def halving(
    work: Callable[[pl.DataFrame], pl.DataFrame],
    rows: pl.DataFrame,
    give_up: Callable[[pl.DataFrame, Exception], pl.DataFrame],
    most: int = MOST_BAD,
) -> pl.DataFrame:
    """`work` of `rows`; where it raises, of both halves, down to single rows, which are given up.

    After `most` of those, the machine is to blame rather than the rows, and `give_up` gets the rest
    of the parts that raise as they are.

    Raises:
        ConfigError: `work` raised it: then no row is to blame.
    """
    num_bad = 0

    def attempt(part: pl.DataFrame) -> pl.DataFrame:
        nonlocal num_bad
        try:
            return work(part)
        except ConfigError:
            raise
        except Exception as error:  # whatever it is, its cause is in the row that it leaves
            if part.height <= 1 or num_bad >= most:
                num_bad += 1
                return give_up(part, error)
        middle = part.height // 2
        return pl.concat([attempt(part[:middle]), attempt(part[middle:])])

    return attempt(rows)


def describe(error: Exception) -> str:
    """Type and first line of an error, for the detail of a score."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"[:300]


def _task(rows: pl.DataFrame) -> tasks.Task:
    return tasks.get(rows["task"][0], rows["style"][0])


def _answer(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.hstack(_task(rows).answers(rows)).with_columns(cause=pl.lit(""))


def _without_answer(rows: pl.DataFrame, cause: str) -> pl.DataFrame:
    return rows.with_columns(answer=pl.lit(""), rule=pl.lit(""), cause=pl.lit(cause))


def _apply(metric: metrics.Metric, answered: pl.DataFrame) -> pl.DataFrame:
    """Columns of `Score` but for those that are the same in all rows."""
    is_good = pl.col("cause") == ""
    good, bad = answered.filter(is_good), answered.filter(~is_good)
    parts = [good.hstack(metric.segments(good))] if good.height else []
    if bad.height:
        no_stats = pl.lit(None, dtype=pl.List(pl.Float64))
        parts.append(bad.with_columns(status=pl.lit("failed"), stats=no_stats, detail="cause"))
    rows = pl.concat(parts).sort("row")
    return rows.select(*tables.OUTPUT_KEY, "status", "answer", "rule", "detail", "stats")


def _give_up(metric: metrics.Metric, answered: pl.DataFrame, error: Exception) -> pl.DataFrame:
    return _apply(metric, answered.with_columns(cause=pl.lit(describe(error))))
