"""A year of translations under BLEU and chrF: from rows to a score for each date, by us and by
sacrebleu.

Each segment gets as many different hypotheses as a fifth of the dates, made from its reference by
small edits; few of them are common and most are rare, as outputs over dates are. Seeds are fixed.
Blocks of segments are timed one after another, both sides in turn. The statistics alone are
compared by CPU time, which other work on the machine hardly changes; all other times are the wall
clock's.
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
from pipeline.bench import Figures
from pipeline.bench._sides import in_turn
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
    distinct = rows.select(*_ITEM, "answer").n_unique()
    figures: Figures = {
        "score_texts_rows": rows.height,
        "score_texts_distinct": distinct,
        "score_texts_dates": NUM_DATES,
    }
    for name in SCORERS:
        figures |= {
            f"score_{name}_{key}": value for key, value in compare(name, rows, asked).items()
        }
    return figures


def year(items: Sequence[Item], bases: Sequence[Sequence[str]], seed: int = 5) -> pl.DataFrame:
    """Columns `task`, `item_id`, `date` (0 to 364) and `answer`: a row for each item and date.

    Answers are edits of the item's `bases`.
    """
    words = [word for base in bases for text in base for word in text.split()]
    rng = np.random.default_rng(seed)
    count = round(SHARE_DISTINCT * NUM_DATES)
    rare = 1 / np.arange(1, count + 1)
    parts = []
    for item, base in zip(items, bases, strict=True):
        times = 1 + rng.multinomial(NUM_DATES - count, rare / rare.sum())
        answers = pl.Series("answer", edits(base, count, words, rng))[
            rng.permutation(np.repeat(np.arange(count), times))
        ]
        dates = pl.int_range(NUM_DATES, dtype=pl.Int64, eager=True).alias("date")
        parts.append(
            pl.DataFrame([dates, answers]).with_columns(
                task=pl.lit(item.task), item_id=pl.lit(item.item_id)
            )
        )
    return pl.concat(parts)


def edits(
    base: Sequence[str], count: int, words: Sequence[str], rng: np.random.Generator
) -> list[str]:
    """`count` different texts: those of `base`, and others with a word lost, doubled, moved or
    replaced by one of `words`.
    """
    found = list(dict.fromkeys(base))[:count]
    known = set(found)
    while len(found) < count:
        text = found[rng.integers(len(found))].split() or [""]
        kind, here, there = rng.integers([4, len(text), len(text)])
        if kind == 0 and len(text) > 1:
            del text[here]
        elif kind == 1:
            text.insert(there, text[here])
        elif kind == 2:
            text[here], text[there] = text[there], text[here]
        else:
            text[here] = words[int(rng.integers(len(words)))]
        if (edited := " ".join(text)) not in known:
            known.add(edited)
            found.append(edited)
    return found


def compare(name: str, rows: pl.DataFrame, items: pl.DataFrame) -> Figures:
    """Our time for the year of `rows`, sacrebleu's, and the ratios; for one metric."""
    metric, scorer, full = metrics.get(name), SCORERS[name](), _InFull(name, rows, items)
    sums, seconds = np.zeros((NUM_DATES, len(metric.stat_names))), 0.0
    ratios: list[float] = []
    for number, asked in enumerate(items.iter_slices(-(-items.height // NUM_BLOCKS))):
        mine = rows.join(asked.select(_ITEM), on=_ITEM, how="semi")
        ours, theirs_cpu_s = in_turn(
            number,
            partial(_ours, metric, mine, asked),
            partial(_statistics_cpu_s, scorer, mine, asked),
        )
        sums, seconds = sums + ours[0], seconds + ours[1]
        ratios.append(ours[2] / theirs_cpu_s)
        if number in FULL_AFTER:
            full.score(FULL_AFTER[number])
    started = time.perf_counter()
    scores = metric.combine(sums, np.full(NUM_DATES, items.height)).tolist()
    seconds += time.perf_counter() - started
    return {
        "year_s": seconds,
        "year_by_corpus_score_s": full.date_s * NUM_DATES,
        "times_as_fast_as_corpus_score": full.date_s * NUM_DATES / seconds,
        "times_as_fast_as_one_kept_scorer": full.date_kept_s * NUM_DATES / seconds,
        "segments_over_sacrebleu_cpu": statistics.median(ratios),
        "dates_compared": len(full.scores),
        "unequal_dates": sum(scores[date] != found for date, found in full.scores.items()),
    }


def _ours(
    metric: Metric, rows: pl.DataFrame, items: pl.DataFrame
) -> tuple[metrics.Array, float, float]:
    """(num_dates, num_stats) sums by date, the seconds for all of it, and the CPU seconds for the
    statistics of distinct pairs.
    """
    started = time.perf_counter()
    distinct = (
        rows.select(*_ITEM, "answer")
        .unique(maintain_order=True)
        .join(items, on=_ITEM, how="left", maintain_order="left")
    )
    before = time.process_time()
    segments = metric.segments(distinct)
    segments_cpu_s = time.process_time() - before
    stats = segments.select(pl.col("stats").list.to_struct(fields=metric.stat_names)).unnest(
        "stats"
    )
    given = rows.join(
        distinct.select(*_ITEM, "answer").hstack(stats), on=[*_ITEM, "answer"], how="left"
    )
    sums = (
        given.group_by("date").agg(pl.sum(*metric.stat_names)).sort("date").drop("date").to_numpy()
    )
    return sums, time.perf_counter() - started, segments_cpu_s


def _statistics_cpu_s(scorer: Any, rows: pl.DataFrame, items: pl.DataFrame) -> float:
    """CPU seconds that sacrebleu's own functions need for the distinct pairs, with the references
    prepared before.
    """
    known = {
        i: scorer._extract_reference_info([*map(scorer._preprocess_segment, r)])
        for i, r in items.select("item_id", "references").rows()
    }
    pairs = rows.select("item_id", "answer").unique(maintain_order=True).rows()
    started = time.process_time()
    for item_id, answer in pairs:
        scorer._compute_segment_statistics(scorer._preprocess_segment(answer), known[item_id])
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
        self.kept_s: list[float] = []

    def score(self, date: int) -> None:
        """Score a date with a new scorer, as `sacrebleu.corpus_bleu` does, and with one kept for
        all dates.
        """
        answers = self.items.join(
            self.rows.filter(date=date), on=_ITEM, how="left", maintain_order="left"
        )["answer"].to_list()
        for scorer, seconds in ((self.new(), self.new_s), (self.kept, self.kept_s)):
            started = time.perf_counter()
            self.scores[date] = scorer.corpus_score(answers, self.streams).score
            seconds.append(time.perf_counter() - started)

    @property
    def date_s(self) -> float:
        """Median seconds for a date with a new scorer."""
        return statistics.median(self.new_s)

    @property
    def date_kept_s(self) -> float:
        """Median seconds for a date with the kept scorer, but for the first: its tokenizer
        remembers 65,536 texts.
        """
        return statistics.median(self.kept_s[1:] or self.kept_s)
