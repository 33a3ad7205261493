"""Proofs before an engine is started: every prompt carries its date and nothing else moves, and every right answer gets full marks."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from pipeline import checkpoints, frames, metrics, tasks
from pipeline.asked import Asked, max_tokens
from pipeline.config import ModelSpec
from pipeline.errors import DataError, PromptError
from pipeline.prompts import ItemPrompt, PromptBuilder, check_only_date, check_treatment
from pipeline.records import Item, Variant

GOLD_TOLERANCE = 1e-6
"""Distance from a perfect score that rounding may leave in a sum of logarithms."""


def check_prompts(model: ModelSpec, asked: list[Asked], variants: list[Variant], say: Callable[[str], None]) -> dict[str, Any]:
    """What the replica needs to know of one model's prompts, having rendered every item under every condition and checked it.

    Raises:
        PromptError: a prompt loses, repeats or moves its date, is too long, or has labels that are not single tokens.
    """
    say(f"checking the prompts of {sum(len(a.items) for a in asked):,} items for {model.name}")
    builder = PromptBuilder(model, checkpoints.folder(model, say, weights=False))
    placements = sorted({v.placement for v in variants if v.placement} or {"system_start"})
    own_dates = sorted({date for placement in placements for date in builder.own_dates(placement)})
    check = _PromptCheck(builder, variants)
    longest, total = 0, 0
    for benchmark in asked:
        output = max_tokens(benchmark.spec, benchmark.task, model)
        for item in benchmark.items:
            length = check.item(benchmark, item)
            _check_length(model, item, length + output)
            longest, total = max(longest, length + output), total + length
    return {
        "label_token_ids": check.labels,
        "max_model_len": longest,
        "num_item_tokens": total,
        "template_hash": frames.short_hash(f"{model.template.paper or ''}{builder.tokenizer.chat_template}".encode()),
        "template_dates": own_dates,
    }


class _PromptCheck:
    """Checks of one model's prompts: the first item of each task and condition under every date, every other under two."""

    def __init__(self, builder: PromptBuilder, asked: list[Variant]) -> None:
        self.builder = builder
        self.conditions: dict[str, list[Variant]] = {}
        for variant in asked:
            self.conditions.setdefault(variant.condition, []).append(variant)
        self.labels: dict[str, dict[str, int]] = {}
        """Task and style -> label -> its token."""
        self.date_tokens: dict[tuple[str, str], int] = {}
        """Task and style, and condition -> most tokens that a date takes there."""

    def item(self, asked: Asked, item: Item) -> int:
        """Tokens of the longest prompt of `item` over all variants."""
        shots = asked.task.shots(item, asked.examples)
        return max(self._condition(asked, item, shots, variants) for variants in self.conditions.values())

    def _condition(self, asked: Asked, item: Item, shots: list[Item], variants: list[Variant]) -> int:
        where, name = f"task {item.task}, item {item.item_id}", asked.name
        prompt = self.builder.item_prompt(asked.task, item, variants[0], shots)
        self._keep_labels(asked, item, prompt, variants[0], name)
        if variants[0].date is None:
            control = self.builder.encode(prompt.text(""))
            self.builder.check_bos(control, where)
            return len(control)
        texts, key = [v.date_text for v in variants], (name, variants[0].condition)
        check_only_date(self.builder, prompt, texts, where)
        probes = texts[:: max(1, len(texts) - 1)] if key in self.date_tokens else texts
        outside, date = check_treatment(self.builder, prompt, probes, where)
        return outside + self.date_tokens.setdefault(key, date)

    def _keep_labels(self, asked: Asked, item: Item, prompt: ItemPrompt, variant: Variant, name: str) -> None:
        known, wanted = self.labels.setdefault(name, {}), self.builder.labels(asked.task, item)
        for label, token in zip(wanted, self.builder.label_token_ids(prompt, variant.date_text, wanted), strict=True):
            if known.setdefault(label, token) != token:
                where = f"model {self.builder.model}, task {name}, item {item.item_id}"
                raise PromptError(f"{where}: label {label!r} is another token than elsewhere")


def _check_length(model: ModelSpec, item: Item, needed: int) -> None:
    if model.max_model_len is not None and needed > model.max_model_len:
        raise PromptError(
            f"model {model.name}, task {item.task}, item {item.item_id}: prompt and output need {needed} tokens, max_model_len is "
            f"{model.max_model_len}; prompts are never truncated: raise it in the model file, or lower the task's max_tokens in the sweep"
        )


def check_gold(asked: Asked, option_orders: list[int]) -> dict[str, float]:
    """Metric -> score of the right answer of every item, through the real extraction and the real metrics; all are perfect.

    Raises:
        DataError: an item's right answer does not get full marks; names the first, and what was read out of it.
    """
    outputs = pl.concat([_gold_outputs(asked, order) for order in option_orders])
    answers = outputs.hstack(asked.task.answers(outputs))
    return {name: _gold_score(asked, metrics.get(name), answers) for name in asked.task.metrics}


def _gold_outputs(asked: Asked, option_order: int) -> pl.DataFrame:
    """What a perfect model gives for every item shown in an order of its options, in the columns that scoring reads."""
    task, shown = asked.task, [tasks.reordered(item, option_order) for item in asked.items]
    is_label = task.kind == "label"
    logprobs = [[0.0 if label.strip() == i.target else -math.inf for label in task.labels(i)] if is_label else [] for i in shown]
    return frames.from_records(Item, asked.items).with_columns(
        option_order=pl.lit(option_order, dtype=pl.Int64),
        text=pl.Series(["" if is_label else task.gold_output(i) for i in shown], dtype=pl.String),
        label_logprobs=pl.Series(logprobs, dtype=pl.List(pl.Float64)),
    )


def _gold_score(asked: Asked, metric: metrics.Metric, answers: pl.DataFrame) -> float:
    segments = metric.segments(answers)
    stats = np.array(segments["stats"].to_list(), dtype=np.float64)
    score = float(metric.combine(stats.sum(axis=0), np.array(len(stats))))
    if abs(score - (100.0 if metric.higher_is_better else 0.0)) > GOLD_TOLERANCE:
        singles = metric.combine(stats, np.ones(len(stats)))
        worst = int(np.argmin(singles) if metric.higher_is_better else np.argmax(singles))
        row = {**answers.row(worst, named=True), **segments.row(worst, named=True)}
        raise DataError(
            f"task {asked.name}: the right answers get {score:.4f} in {metric.name}; the worst is item {row['item_id']}: "
            f"{row['status']} {row['detail']} with the answer {row['answer'][:80]!r} by rule {row['rule']}, right is {row['target'][:80]!r}"
        )
    return score
