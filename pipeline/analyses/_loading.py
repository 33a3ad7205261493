"""Completions and scores of a run, as `Outcomes`: one model at a time, names as numbers, and no
text but the answers.

The two tables may be far larger than memory: they are read in a stream, and what stays of a
completion is one number.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline import metrics, tasks
from pipeline.analyses import _faults
from pipeline.analyses._outcomes import AXES, CONDITION_KEY, Outcomes
from pipeline.analyses._stats import Bools, Cells, Floats, Ints, nonzero, scores_by_date
from pipeline.core.records import STATUSES

_MODEL_RUN = ["engine", "task", "style"]
"""What makes one benchmark run among those of a model."""
_BATCH_ROWS = 2**17
"""Scores read at once; those of ECE have 30 numbers each."""

Outputs = npt.NDArray[np.uint64]
"""Output ids as the numbers that their 16 hexadecimal digits are."""


def load(
    completions: pl.LazyFrame, scores: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame
) -> Iterator[Outcomes]:
    """Everything measured in a run, series by series in the order of `SERIES_KEY`.

    Arguments as for `evidence`.

    Raises:
        StoreError: a completion has no score, or two, under one of its run's metrics; is stored
            twice; or its variant or item is unknown.
    """
    for model in completions.select("model").unique().collect(engine="streaming")["model"].sort():
        mine = completions.filter(pl.col("model") == model)
        theirs = scores.filter(pl.col("model") == model)
        judged = _judged(theirs, items)
        for run, asked in _asked(mine, variants, items).items():
            series = dict(zip(["model", *_MODEL_RUN], (model, *run), strict=True))
            grid = _grid(asked, variants, items, series)
            here = {
                metric: found for (*name, metric), found in judged.items() if tuple(name) == run
            }
            if not here:
                raise _faults.wrong_scores(mine, theirs, series | {"metric": None})
            own = tasks.get(series["task"], series["style"]).metrics
            first = next((metric for metric in own if metric in here), min(here))
            for metric in sorted(here):
                named, judged_here = series | {"metric": metric}, here[metric].arrays(grid.rank)
                outputs = _outputs(grid, judged_here)
                if outputs is None:
                    raise _faults.wrong_scores(mine, theirs, named)
                yield _outcomes(grid, judged_here, outputs, named, is_headline=metric == first)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """What one benchmark run asked, and which output it got."""

    item_ids: list[str]
    rank: Ints
    """(num_known_items,) the row of each item that the run folder knows; -1 where this run did not
    ask it."""
    columns: pl.DataFrame
    asked: Bools
    """(num_items, num_columns)"""
    outputs: Outputs
    """(num_items, num_columns)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrays:
    """Scores of one series, sorted by item and output."""

    item: Ints
    output: Outputs
    status: Ints
    answer: pl.Series
    values: Floats
    places: Ints


@dataclass(slots=True)
class _Judged:
    """Scores of one series, as they are read."""

    metric: str
    frames: list[pl.DataFrame] = field(default_factory=list)
    parts: list[tuple[Floats, Ints]] = field(default_factory=list)

    def add(self, batch: pl.DataFrame) -> None:
        """Take some more, and keep only what is not 0 of their statistics."""
        failed = pl.col("stats").is_null() | (pl.col("status") == "failed")
        if batch.select(failed.any()).item():
            none = pl.lit(
                [0.0] * len(metrics.get(self.metric).stat_names), dtype=pl.List(pl.Float64)
            )
            status = (
                pl.when(failed).then(pl.lit("failed", batch.schema["status"])).otherwise("status")
            )
            batch = batch.with_columns(
                pl.when(failed).then(none).otherwise("stats").alias("stats"), status.alias("status")
            )
        self.parts.append(nonzero(batch["stats"].explode().to_numpy().reshape(batch.height, -1)))
        self.frames.append(
            batch.select(
                "item", "output", pl.col("status").to_physical(), pl.col("answer").fill_null("")
            )
        )

    def arrays(self, rank: Ints) -> _Arrays:
        """All of them that are of items with a `rank`, sorted by it and by output."""
        width = max(values.shape[1] for values, _ in self.parts)
        values, places = (
            np.concatenate([_widened(part[i], width) for part in self.parts]) for i in (0, 1)
        )
        frame = pl.concat(self.frames)
        item, output = rank[frame["item"].to_numpy()], frame["output"].to_numpy()
        status, answer = frame["status"].to_numpy(), frame["answer"]
        if not _is_sorted(item, output):
            order = np.lexsort((output, item))
            order = order[item[order] >= 0]
            item = item[order]
            output = output[order]
            status = status[order]
            answer = answer.gather(order)
            values, places = values[order], places[order]
        return _Arrays(
            item=item, output=output, status=status, answer=answer, values=values, places=places
        )


def _widened(array: npt.NDArray[np.generic], width: int) -> npt.NDArray[np.generic]:
    return (
        array if array.shape[1] == width else np.pad(array, ((0, 0), (0, width - array.shape[1])))
    )


def _is_sorted(item: Ints, output: Outputs) -> bool:
    """Whether scores are sorted by item and output, none of an item that was not asked."""
    if item.size and item[0] < 0:
        return False
    return bool(
        ((item[1:] > item[:-1]) | ((item[1:] == item[:-1]) & (output[1:] >= output[:-1]))).all()
    )


def _item_number(items: pl.DataFrame) -> pl.Expr:
    """`item`: the place of `item_id` among all that the run folder knows, sorted.

    Null for others.
    """
    return pl.col("item_id").cast(_item_names(items), strict=False).to_physical().alias("item")


def _item_names(items: pl.DataFrame) -> pl.Enum:
    return pl.Enum(items["item_id"].unique().sort())


_OUTPUT = pl.col("output_id").str.to_integer(base=16, dtype=pl.UInt64).alias("output")


def _judged(scores: pl.LazyFrame, items: pl.DataFrame) -> dict[tuple[str, ...], _Judged]:
    """Scores of a model, for each benchmark run and metric."""
    names = [pl.col(name).cast(pl.Categorical) for name in [*_MODEL_RUN, "metric"]]
    wanted = scores.select(
        *names,
        _item_number(items),
        _OUTPUT,
        pl.col("status").cast(pl.Enum(STATUSES)),
        "answer",
        "stats",
    )
    found: dict[tuple[str, ...], _Judged] = {}
    for batch in wanted.drop_nulls("item").collect_batches(
        chunk_size=_BATCH_ROWS, engine="streaming"
    ):
        kinds = batch.select(*_MODEL_RUN, "metric").unique()
        for kind in kinds.iter_rows(named=True):
            # Most batches are of one kind, and lists are slow to copy.
            part = (
                batch
                if kinds.height == 1
                else batch.filter(pl.col(name) == value for name, value in kind.items())
            )
            found.setdefault(tuple(kind.values()), _Judged(kind["metric"])).add(part)
    return found


def _asked(
    completions: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame
) -> dict[tuple[str, ...], pl.DataFrame]:
    """For each benchmark run of a model, sorted: `item`, `variant`, `replicate` and `output` of its
    completions, all of them numbers.
    """
    variant = pl.col("variant").cast(pl.Enum(variants["variant"]), strict=False).to_physical()
    names = [pl.col(name).cast(pl.Categorical) for name in _MODEL_RUN]
    frame = completions.select(*names, _item_number(items), variant, "replicate", _OUTPUT).collect(
        engine="streaming"
    )
    for column, known, key in (
        ("variant", variants, ["variant"]),
        ("item", items, ["task", "item_id"]),
    ):
        if frame[column].has_nulls():
            raise _faults.unknown(completions, known, key)
    runs = frame.partition_by(_MODEL_RUN, include_key=False, as_dict=True)
    found = {tuple(map(str, run)): part for run, part in runs.items()}
    for (_, task, _), part in found.items():
        of_task = items.filter(task=task).select(_item_number(items)).to_series()
        if not part["item"].unique().is_in(of_task.implode()).all():
            raise _faults.unknown(completions, items, ["task", "item_id"])
    return dict(sorted(found.items()))


def _grid(
    asked: pl.DataFrame, variants: pl.DataFrame, items: pl.DataFrame, series: dict[str, str]
) -> _Grid:
    """Items and variants of one benchmark run, with the outputs in their places."""
    names, number = _item_names(items).categories, asked["item"].to_numpy()
    here = np.flatnonzero(np.bincount(number, minlength=names.len()))
    rank = np.full(names.len(), -1, dtype=np.int32)
    rank[here] = np.arange(here.size)
    columns, place = _columns(asked, variants)
    shape = (here.size, columns.height)
    cell = rank[number].astype(np.int64) * shape[1] + place
    times = np.bincount(cell, minlength=shape[0] * shape[1])
    if times.max(initial=0) > 1:
        first = np.flatnonzero(times > 1)[0]
        where = {
            "item": names[int(here[first // shape[1]])],
            **columns.row(int(first % shape[1]), named=True),
        }
        raise _faults.stored_twice(int((times - 1).clip(0).sum()), where, series)
    outputs = np.zeros(cell.size if not times.size else times.size, dtype=np.uint64)
    outputs[cell] = asked["output"].to_numpy()
    return _Grid(
        item_ids=names.gather(here).to_list(),
        rank=rank,
        columns=columns,
        asked=(times > 0).reshape(shape),
        outputs=outputs.reshape(shape),
    )


def _columns(asked: pl.DataFrame, variants: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """`Outcomes.columns`, and for each completion the place of its variant and replicate there."""
    per_variant = int(asked["replicate"].max()) + 1  # type: ignore[arg-type] # never empty
    code = (
        asked["variant"].to_numpy().astype(np.int64) * per_variant + asked["replicate"].to_numpy()
    )
    codes = np.flatnonzero(np.bincount(code))
    rows = variants.select("variant", "date", *CONDITION_KEY)[codes // per_variant]
    distinct = rows.with_columns(
        replicate=pl.Series(codes % per_variant, dtype=pl.Int64), code=pl.Series(codes)
    )
    ordered = distinct.sort(
        pl.col("date").is_not_null(), *AXES, "date", "variant", "replicate", nulls_last=False
    )
    places = np.empty(int(codes[-1]) + 1, dtype=np.int64)
    places[ordered["code"].to_numpy()] = np.arange(ordered.height)
    return ordered.select("variant", "replicate", "date", *CONDITION_KEY), places[code]


def _outputs(grid: _Grid, judged: _Arrays) -> Ints | None:
    """(num_items, num_columns) row of the scores for each output, -1 where the item was not asked.

    None where scores lack or are double.
    """
    outputs = _numbered(grid, judged)
    twice = (judged.item[1:] == judged.item[:-1]) & (judged.output[1:] == judged.output[:-1])
    return None if twice.any() or ((outputs >= 0) != grid.asked).any() else outputs


def _outcomes(
    grid: _Grid, judged: _Arrays, outputs: Ints, series: dict[str, str], *, is_headline: bool
) -> Outcomes:
    """The series of a benchmark run under one metric."""
    metric = metrics.get(series["metric"])
    failed = judged.status == STATUSES.index("failed")
    texts = judged.answer.unique().sort()
    answers = (
        judged.answer.cast(pl.Enum(texts))
        .to_physical()
        .to_numpy()
        .astype(np.min_scalar_type(-texts.len()))
    )
    answers = np.append(np.where(failed, -1, answers), -1).astype(answers.dtype)
    index = np.where(answers[outputs] >= 0, outputs, -1) if failed.any() else outputs
    cells = Cells(
        index=index, values=judged.values, places=judged.places, num_stats=len(metric.stat_names)
    )
    statuses = np.append(judged.status, len(STATUSES))[outputs]
    return Outcomes(
        series=series,
        item_ids=grid.item_ids,
        columns=grid.columns,
        outputs=outputs,
        output_answers=answers,
        answer_texts=texts,
        values=judged.values,
        places=judged.places,
        scores=scores_by_date(cells, metric.combine),
        is_headline=is_headline,
        status_counts=np.stack(
            [np.count_nonzero(statuses == number, axis=0) for number in range(len(STATUSES))],
            axis=1,
        ),
    )


def _numbered(grid: _Grid, judged: _Arrays) -> Ints:
    """(num_items, num_columns) row of the scores for each output.

    -1 where the item was not asked, or its output has no score.
    """
    num_items = len(grid.item_ids)
    ends = np.searchsorted(judged.item, np.arange(num_items + 1)).tolist()
    index = np.empty(grid.outputs.shape, dtype=np.int32)
    for item, (start, stop) in enumerate(itertools.pairwise(ends)):
        index[item] = start + np.searchsorted(judged.output[start:stop], grid.outputs[item])
    # What has no score lands on the next output, which may be another item's or lie beyond the end.
    found = grid.asked & (index < np.array(ends[1:], dtype=np.int32)[:, None])
    return np.where(
        found & (np.append(judged.output, np.uint64(0))[index] == grid.outputs), index, np.int32(-1)
    )
