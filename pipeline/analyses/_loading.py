"""Completions and scores of a run become `Outcomes`, one model at a time.

For each model, first its scores are read (`_scores`), then its completions (`_grid`). Each
benchmark run has a grid of outputs; under each metric, every output of the grid is looked up among
the scores.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline import metrics, tasks
from pipeline.analyses import _faults
from pipeline.analyses._grid import BENCHMARK_KEY, Grid, grid_of, read_completions
from pipeline.analyses._outcomes import Outcomes
from pipeline.analyses._scores import Scores, read_scores
from pipeline.analyses._stats import Cells, Ints, scores_by_date
from pipeline.core.records import STATUSES


def load(
    completions: pl.LazyFrame, scores: pl.LazyFrame, variants: pl.DataFrame, items: pl.DataFrame
) -> Iterator[Outcomes]:
    """Everything measured in a run, series by series in the order of `SERIES_KEY`.

    Arguments as for `evidence`.

    Raises:
        StoreError: a completion has no score, or two, under one of its run's metrics; is stored
            twice; or its variant or item is unknown.
    """
    models = completions.select("model").unique().collect(engine="streaming")["model"].sort()
    for model in models:
        of_model = pl.col("model") == model
        model_completions, model_scores = completions.filter(of_model), scores.filter(of_model)
        scored = read_scores(model_scores, items)
        asked = read_completions(model_completions, variants, items)
        for benchmark, rows in asked.items():
            run = dict(zip(["model", *BENCHMARK_KEY], (model, *benchmark), strict=True))
            grid = grid_of(rows, variants, items, run)
            by_metric = scored.get(benchmark, {})
            if not by_metric:
                raise _faults.wrong_scores(model_completions, model_scores, run)
            for metric in sorted(by_metric):
                series = run | {"metric": metric}
                metric_scores = by_metric[metric].scores(grid.item_rows)
                score_rows = _score_rows(grid, metric_scores)
                if score_rows is None:
                    raise _faults.wrong_scores(model_completions, model_scores, series)
                is_headline = metric == _headline(run, set(by_metric))
                yield _outcomes(grid, metric_scores, score_rows, series, is_headline=is_headline)


def _headline(run: dict[str, str], scored: set[str]) -> str:
    """The first of the task's own metrics among those that were `scored`."""
    own = tasks.get(run["task"], run["style"]).metrics
    return next((metric for metric in own if metric in scored), min(scored))


def _score_rows(grid: Grid, scores: Scores) -> Ints | None:
    """(num_items, num_columns) row of the scores for each output, -1 where it was not asked.

    None where an output has no score, or two.
    """
    same_item, same_output = (a[1:] == a[:-1] for a in (scores.item, scores.output))
    if (same_item & same_output).any():
        return None
    ends = np.searchsorted(scores.item, np.arange(len(grid.item_ids) + 1)).tolist()
    rows = np.empty(grid.outputs.shape, dtype=np.int32)
    for item, (start, stop) in enumerate(itertools.pairwise(ends)):
        rows[item] = start + np.searchsorted(scores.output[start:stop], grid.outputs[item])
    # What has no score lands on the next output, which may be another item's or lie beyond the end.
    is_scored = rows < np.array(ends[1:], dtype=np.int32)[:, None]
    is_scored &= np.append(scores.output, np.uint64(0))[rows] == grid.outputs
    if (grid.is_asked & ~is_scored).any():
        return None
    return np.where(grid.is_asked, rows, np.int32(-1))


def _outcomes(
    grid: Grid, scores: Scores, score_rows: Ints, series: dict[str, str], *, is_headline: bool
) -> Outcomes:
    """The series of a benchmark run under one metric."""
    metric = metrics.get(series["metric"])
    is_failed = scores.status == STATUSES.index("failed")
    texts = scores.answer.unique().sort()
    number = scores.answer.cast(pl.Enum(texts)).to_physical().to_numpy()
    number = number.astype(np.min_scalar_type(-texts.len()))
    answers = np.append(np.where(is_failed, -1, number), -1).astype(number.dtype)
    cells = Cells(
        index=np.where(answers[score_rows] >= 0, score_rows, -1) if is_failed.any() else score_rows,
        values=scores.values,
        stat_numbers=scores.stat_numbers,
        num_stats=len(metric.stat_names),
    )
    statuses = np.append(scores.status, len(STATUSES))[score_rows]
    counts = [np.count_nonzero(statuses == status, axis=0) for status in range(len(STATUSES))]
    return Outcomes(
        series=series,
        item_ids=grid.item_ids,
        columns=grid.columns,
        outputs=score_rows,
        output_answers=answers,
        answer_texts=texts,
        values=scores.values,
        stat_numbers=scores.stat_numbers,
        scores=scores_by_date(cells, metric.combine),
        is_headline=is_headline,
        status_counts=np.stack(counts, axis=1),
    )
