"""Outputs in, scores out: extraction, metrics, and the sums by variant that tables are made of.

What a worker does with a chunk.

An output on which our own code raises does not take its chunk with it: the chunk is halved until
the bad output stands alone, which then gets a row with status `failed` and the cause.
"""

from collections.abc import Callable, Mapping
from functools import partial

import polars as pl

from pipeline import metrics, tasks
from pipeline.core import tables
from pipeline.core.errors import ConfigError
from pipeline.core.records import Score

MOST_BAD = 64
"""Single outputs on which our code raises, before the rest of a chunk is given up: by then it is
not the outputs' fault."""


def scores(rows: pl.DataFrame, items: pl.DataFrame, signatures: Mapping[str, str]) -> pl.DataFrame:
    """Rows of `Score` for outputs (`Outputs.rows`) of one benchmark run: for each metric, one for
    each output in its order.

    `signatures` are those of the metrics, by name (`chunks.signatures`).

    Raises:
        ConfigError: a metric does not fit the task.
    """
    task = _task(rows)
    asked = rows.join(items, on=["task", "item_id"], how="left", maintain_order="left")
    answered = halving(
        lambda part: part.hstack(task.answers(part)).with_columns(cause=pl.lit("")),
        asked,
        _unanswered,
    )
    return _under(signatures, task, answered)


def failed(
    rows: pl.DataFrame, items: pl.DataFrame, signatures: Mapping[str, str], cause: str
) -> pl.DataFrame:
    """Rows of `Score` for outputs that could not be scored; arguments as for `scores`."""
    asked = rows.join(items, on=["task", "item_id"], how="left", maintain_order="left")
    return _under(
        signatures,
        _task(rows),
        asked.with_columns(answer=pl.lit(""), rule=pl.lit(""), cause=pl.lit(cause)),
    )


def halving(
    work: Callable[[pl.DataFrame], pl.DataFrame],
    rows: pl.DataFrame,
    give_up: Callable[[pl.DataFrame, Exception], pl.DataFrame],
    most: int = MOST_BAD,
) -> pl.DataFrame:
    """`work` of `rows`; where it raises, of both halves, down to single rows, for which `give_up`
    stands in.

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
        except Exception as error:
            if part.height <= 1 or num_bad >= most:
                num_bad += 1
                return give_up(part, error)
        middle = part.height // 2
        return pl.concat([attempt(part[:middle]), attempt(part[middle:])])

    return attempt(rows)


def told(error: Exception) -> str:
    """Type and first line of an error, for the detail of a score."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"[:300]


def _task(rows: pl.DataFrame) -> tasks.Task:
    return tasks.get(rows["task"][0], rows["style"][0])


def _unanswered(asked: pl.DataFrame, error: Exception) -> pl.DataFrame:
    return asked.with_columns(answer=pl.lit(""), rule=pl.lit(""), cause=pl.lit(told(error)))


def _under(signatures: Mapping[str, str], task: tasks.Task, answered: pl.DataFrame) -> pl.DataFrame:
    """Rows of `Score` under each metric, for outputs with `answer`, `rule` and `cause`.

    The cause is empty where an answer was read.
    """
    numbered = answered.with_row_index("row")
    judged = [
        halving(
            partial(_judged, metrics.get(name)), numbered, partial(_unjudged, metrics.get(name))
        )
        for name in signatures
    ]
    named = pl.col("metric").replace_strict(dict(signatures), return_dtype=pl.String)
    columns = tables.schema(Score).names()
    return (
        pl.concat(judged)
        .with_columns(signature=named, extraction_version=pl.lit(task.extraction_version, pl.Int64))
        .select(columns)
    )


def _judged(metric: metrics.Metric, answered: pl.DataFrame) -> pl.DataFrame:
    """Columns of `Score` but for the versions of task and metric, row by row."""
    good, bad = answered.filter(pl.col("cause") == ""), answered.filter(pl.col("cause") != "")
    parts = [good.hstack(metric.segments(good))] if good.height else []
    if bad.height:
        unscored = pl.lit(None, dtype=pl.List(pl.Float64))
        parts.append(bad.with_columns(status=pl.lit("failed"), stats=unscored, detail="cause"))
    together = pl.concat(parts).sort("row") if len(parts) > 1 else parts[0]
    texts = [pl.col(name) for name in ("status", "answer", "rule", "detail", "stats")]
    return together.select(*tables.OUTPUT_KEY, *texts, metric=pl.lit(metric.name))


def _unjudged(metric: metrics.Metric, answered: pl.DataFrame, error: Exception) -> pl.DataFrame:
    return _judged(metric, answered.with_columns(cause=pl.lit(told(error))))
