"""A year of translations under BLEU and chrF, by us and by sacrebleu.

From rows to a score for each date. Each segment gets as many different hypotheses as a fifth of the
dates, made from its reference by small edits; few of them are common and most are rare, as outputs
over dates are. Seeds are fixed. Blocks of segments are timed one after another, both sides in turn.
The statistics alone are compared by CPU time, which other work on the machine hardly changes; all
other times are the wall clock's.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import sacrebleu

from pipeline import metrics
from pipeline.bench import Figures, in_turn
from pipeline.core import tables
from pipeline.core.records import Item
from pipeline.metrics import Metric

NUM_DATES, SHARE_DISTINCT = 365, 0.2
NUM_BLOCKS = 10
FULL_AFTER = {0: 0, 1: 90, 4: 180, 6: 270, 9: 364}
"""Block -> the date on which sacrebleu's `corpus_score` is called after it; its time for the year
is that for a date times 365."""
SCORERS: dict[str, Callable[[], Any]] = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF}
_ITEM = ["task", "item_id"]


def measure(items: Sequence[Item]) -> Figures:
    """Times, ratios and numbers of dates whose score is not sacrebleu's, for all metrics."""
    rows, asked = year(items, [[i.target] for i in items]), tables.from_records(Item, items)
    figures: Figures = {
        "score_texts_rows": rows.height,
        "score_texts_distinct": rows.select(*_ITEM, "answer").n_unique(),
        "score_texts_dates": NUM_DATES,
    }
    for name in SCORERS:
        compared = compare(name, rows, asked)
        figures |= {f"score_{name}_{key}": value for key, value in compared.items()}
    return figures


def year(items: Sequence[Item], bases: Sequence[Sequence[str]], seed: int = 5) -> pl.DataFrame:
    """Columns `task`, `item_id`, `date` (0 to 364) and `answer`; a row for each item and date.

    Answers are edits of the item's `bases`.
    """
    words = [word for base in bases for text in base for word in text.split()]
    rng = np.random.default_rng(seed)
    count = round(SHARE_DISTINCT * NUM_DATES)
    rare = 1 / np.arange(1, count + 1)
    parts = []
    for item, base in zip(items, bases, strict=True):
        times = 1 + rng.multinomial(NUM_DATES - count, rare / rare.sum())
        texts = pl.Series("answer", edits(base, count, words, rng))
        answers = texts[rng.permutation(np.repeat(np.arange(count), times))]
        dates = pl.int_range(NUM_DATES, dtype=pl.Int64, eager=True).alias("date")
        names = {"task": pl.lit(item.task), "item_id": pl.lit(item.item_id)}
        parts.append(pl.DataFrame([dates, answers]).with_columns(**names))
    return pl.concat(parts)


def edits(
    base: Sequence[str], count: int, words: Sequence[str], rng: np.random.Generator
) -> list[str]:
    """`count` different texts: those of `base`, and others made of them.

    In these a word is lost, doubled, moved or replaced by one of `words`.
    """
    texts = dict.fromkeys(base[:count])
    while len(texts) < count:
        text = [*texts][rng.integers(len(texts))].split() or [""]
        kind, here, there = rng.integers([4, len(text), len(text)])
        if kind == 0 and len(text) > 1:
            del text[here]
        elif kind == 1:
            text.insert(there, text[here])
        elif kind == 2:
            text[here], text[there] = text[there], text[here]
        else:
            text[here] = words[int(rng.integers(len(words)))]
        texts[" ".join(text)] = None
    return [*texts]


def compare(name: str, rows: pl.DataFrame, items: pl.DataFrame) -> Figures:
    """Our time for the year of `rows`, sacrebleu's, and the ratios; for one metric."""
    metric, full = metrics.get(name), _InFull(name, rows, items)
    sums, year_s = np.zeros((NUM_DATES, len(metric.stat_names))), 0.0
    ratios: list[float] = []
    for number, block in enumerate(items.iter_slices(-(-items.height // NUM_BLOCKS))):
        block_rows = rows.join(block.select(_ITEM), on=_ITEM, how="semi")
        (block_sums, block_s, cpu_s), sacrebleu_cpu_s = in_turn(
            number,
            partial(_ours, metric, block_rows, block),
            partial(_statistics_cpu_s, SCORERS[name](), block_rows, block),
        )
        sums += block_sums
        year_s += block_s
        ratios.append(cpu_s / sacrebleu_cpu_s)
        if number in FULL_AFTER:
            full.score(FULL_AFTER[number])
    started = time.perf_counter()
    scores = metric.combine(sums, np.full(NUM_DATES, items.height)).tolist()
    year_s += time.perf_counter() - started
    full_year_s = statistics.median(full.new_s) * NUM_DATES
    # But for the first: a scorer that is kept remembers how it has tokenised.
    kept_year_s = statistics.median(full.kept_s[1:] or full.kept_s) * NUM_DATES
    return {
        "year_s": year_s,
        "year_by_corpus_score_s": full_year_s,
        "times_as_fast_as_corpus_score": full_year_s / year_s,
        "times_as_fast_as_one_kept_scorer": kept_year_s / year_s,
        "segments_over_sacrebleu_cpu": statistics.median(ratios),
        "dates_compared": len(full.scores),
        "unequal_dates": sum(scores[date] != score for date, score in full.scores.items()),
    }


def _ours(
    metric: Metric, rows: pl.DataFrame, items: pl.DataFrame
) -> tuple[metrics.Array, float, float]:
    """(num_dates, num_stats) sums by date, their seconds, and CPU seconds for the statistics."""
    started = time.perf_counter()
    distinct = (
        rows.select(*_ITEM, "answer")
        .unique(maintain_order=True)
        .join(items, on=_ITEM, how="left", maintain_order="left")
    )
    cpu_started = time.process_time()
    segments = metric.segments(distinct)
    cpu_s = time.process_time() - cpu_started
    as_fields = pl.col("stats").list.to_struct(fields=metric.stat_names)
    stats = distinct.select(*_ITEM, "answer").hstack(segments.select(as_fields).unnest("stats"))
    dated = rows.join(stats, on=[*_ITEM, "answer"], how="left").group_by("date")
    sums = dated.agg(pl.sum(*metric.stat_names)).sort("date").drop("date").to_numpy()
    return sums, time.perf_counter() - started, cpu_s


def _statistics_cpu_s(scorer: Any, rows: pl.DataFrame, items: pl.DataFrame) -> float:
    """CPU seconds of sacrebleu's own functions for the distinct pairs, without the references."""
    references = {
        item_id: scorer._extract_reference_info([*map(scorer._preprocess_segment, texts)])
        for item_id, texts in items.select("item_id", "references").rows()
    }
    pairs = rows.select("item_id", "answer").unique(maintain_order=True).rows()
    started = time.process_time()
    for item_id, answer in pairs:
        scorer._compute_segment_statistics(scorer._preprocess_segment(answer), references[item_id])
    return time.process_time() - started


class _InFull:
    """sacrebleu's `corpus_score` of a few dates, called between the blocks."""

    def __init__(self, name: str, rows: pl.DataFrame, items: pl.DataFrame) -> None:
        self.new, self.kept, self.rows, self.items = SCORERS[name], SCORERS[name](), rows, items
        references = items["references"].to_list()
        self.streams = [
            [texts[k] if k < len(texts) else None for texts in references]
            for k in range(max(map(len, references)))
        ]
        self.scores: dict[int, float] = {}
        """Date -> score."""
        self.new_s: list[float] = []
        """Seconds for a date with a new scorer, as `sacrebleu.corpus_bleu` has."""
        self.kept_s: list[float] = []
        """Seconds for a date with one scorer for all dates."""

    def score(self, date: int) -> None:
        rows = self.rows.filter(date=date)
        answers = self.items.join(rows, on=_ITEM, how="left", maintain_order="left")["answer"]
        for scorer, seconds in ((self.new(), self.new_s), (self.kept, self.kept_s)):
            started = time.perf_counter()
            self.scores[date] = scorer.corpus_score(answers.to_list(), self.streams).score
            seconds.append(time.perf_counter() - started)
