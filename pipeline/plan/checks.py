"""Proofs before an engine is started: every prompt carries its date and nothing else moves, and
every right answer gets full marks.
"""

import functools
import hashlib
import itertools
import math
import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Literal

import numpy as np
import polars as pl

from pipeline import metrics, tasks
from pipeline.core import cores, tables
from pipeline.core.errors import DataError, PromptError
from pipeline.core.records import Item, Variant
from pipeline.data import checkpoints
from pipeline.plan.benchmarks import Benchmark, max_tokens, scored_by
from pipeline.prompts import (
    CONTEXT,
    ItemPrompt,
    Prefixes,
    PromptBuilder,
    Spliced,
    Splicer,
    check_only_date,
    check_treatment,
)
from pipeline.settings import ModelSpec

SAMPLE = 24
"""Items of each task and condition whose prompts are also rendered and tokenised in full, and
compared."""
GOLD_TOLERANCE = 1e-6
"""Distance from a perfect score that rounding may leave in a sum of logarithms."""


_MANY_ITEMS = 4_000
"""From so many on, models are checked side by side; a process of its own takes seconds to start."""


def check_all(
    models: Sequence[ModelSpec],
    asked: Sequence[Benchmark],
    variants: Sequence[Variant],
    placebo: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, dict[str, Any]]:
    """For each model, what `check_prompts` found.

    Models with the same tokenizer, template and settings of prompts are checked once.
    """
    keys = {model.name: _prompts_key(model, say) for model in models}
    firsts = [
        model
        for number, model in enumerate(models)
        if keys[model.name] not in [keys[m.name] for m in models[:number]]
    ]
    num_items = sum(len(a.items) for a in asked)
    for model in firsts:
        say(f"checking the prompts of {num_items:,} items for {model.name}")
    check = functools.partial(check_prompts, asked=asked, variants=variants, placebo=placebo)
    num_workers = min(len(firsts), cores.num_cores()) if num_items >= _MANY_ITEMS else 1
    if num_workers > 1:
        # Processes of their own and not forks: tokenizers have threads.
        with ProcessPoolExecutor(num_workers, multiprocessing.get_context("spawn")) as pool:
            checked = list(pool.map(check, firsts))
    else:
        checked = list(map(check, firsts))
    by_key = {keys[model.name]: found for model, found in zip(firsts, checked, strict=True)}
    return {model.name: by_key[keys[model.name]] for model in models}


def _prompts_key(model: ModelSpec, say: Callable[[str], None]) -> str:
    """Equal for models whose prompts are the same, token by token."""
    folder = checkpoints.folder(model, say, weights=False)
    files = [path for name in checkpoints.PROMPT_FILES if (path := folder / name).is_file()]
    own = model.model_dump_json(
        include={"template", "label_form", "thinking_tokens", "max_model_len"}
    )
    return tables.short_hash(
        b"".join(
            [
                own.encode(),
                str(checkpoints.max_length(folder)).encode(),
                *(path.read_bytes() for path in files),
            ]
        )
    )


def check_prompts(
    model: ModelSpec,
    asked: Sequence[Benchmark],
    variants: Sequence[Variant],
    placebo: Sequence[str],
) -> dict[str, Any]:
    """What replicas and readers need to know of one model's prompts, having made and checked all of
    them.

    Raises:
        PromptError: a prompt loses, repeats or moves its date, is too long, or has labels that are
            not single tokens.
    """
    folder = checkpoints.folder(model, weights=False)
    builder = PromptBuilder(model, folder)
    check = _PromptCheck(model, builder, placebo, checkpoints.max_length(folder))
    # Dated prompts first: a control ends as they do, and is then tokenised with them.
    for benchmark, same in itertools.product(
        asked, sorted(conditions(variants).values(), key=lambda same: same[0].date is None)
    ):
        check.part(benchmark, same)
    return {
        "label_token_ids": check.labels,
        "max_model_len": check.longest,
        "tokens": check.tokens(),
        "rendered_in_full": sorted(check.in_full),
        "tokenised_whole": check.num_whole,
        "template_hash": tables.short_hash(
            f"{model.template.paper or ''}{builder.tokenizer.chat_template}".encode()
        ),
        "template_dates": sorted(check.own_dates),
    }


def conditions(variants: Sequence[Variant]) -> dict[str, list[Variant]]:
    """Condition -> its variants."""
    found: dict[str, list[Variant]] = {}
    for variant in variants:
        found.setdefault(variant.condition, []).append(variant)
    return found


def rendered(
    builder: PromptBuilder, asked: Benchmark, variant: Variant, *, in_full: bool
) -> list[ItemPrompt]:
    """The prompts of all items of a benchmark under the condition of `variant`."""
    how: Literal["in_full", "by_skeleton"] = "in_full" if in_full else "by_skeleton"
    task = asked.task
    return [
        builder.item_prompt(task, item, variant, task.shots(item, asked.examples), render=how)
        for item in asked.items
    ]


class _PromptCheck:
    """Checks of one model's prompts, a benchmark under a condition at a time, and what they found."""

    def __init__(
        self, model: ModelSpec, builder: PromptBuilder, placebo: Sequence[str], limit: int | None
    ) -> None:
        self.model, self.builder, self.placebo = model, builder, Counter(placebo)
        self.limit = model.max_model_len or limit
        """Longest prompt with output, in tokens, that the model can take."""
        self.own_dates: set[str] = set()
        """Dates that the chat template writes beside the swept one."""
        self.labels: dict[str, dict[str, int]] = {}
        """Task and style -> label -> its token."""
        self.endings: set[tuple[str, str, tuple[str, ...]]] = set()
        """Task and style, how a prompt ends, and its labels: what decides the labels' tokens."""
        self.longest = 0
        """Tokens of the longest prompt with the longest output that it may get."""
        self.in_full: set[str] = set()
        """Tasks and styles whose texts the chat template looks into."""
        self.num_whole = 0
        """Items under a condition whose prompts cannot be spliced."""
        self.output_tokens = 0
        """Of the whole plan, if no answer ends before its limit."""
        self.splicer, self.prefixes = Splicer(builder), Prefixes()
        self.copies = Prefixes()
        """Placebo copies. They come after the whole sweep, which no cache keeps, so they are
        computed anew."""

    def part(self, asked: Benchmark, same: Sequence[Variant]) -> None:
        """Check `asked` under the variants of one condition."""
        first = asked.items[0]
        self.own_dates |= {
            *self.builder.own_dates(
                asked.task, first, same[0], asked.task.shots(first, asked.examples)
            )
        }
        prompts = self._rendered(asked, same[0])
        texts = [v.date_text for v in same]
        self._check_only_date(asked, prompts, texts)
        spliced = self.splicer.splice(prompts, texts)
        for number in _sample(asked.items):
            self._check_exactly(asked.items[number], prompts[number], spliced, number, texts)
        output, dates = max_tokens(asked.spec, asked.task, self.model), (texts[0], texts[-1])
        for number, (item, prompt) in enumerate(zip(asked.items, prompts, strict=True)):
            self._check_length(item, spliced, number, texts, output)
            for text in dates:
                self._keep_labels(asked, item, prompt, text)
        again = [v.date_text for v in same if self.placebo[v.variant]]
        self.num_whole += len(spliced.whole)
        self.output_tokens += len(prompts) * (len(texts) + len(again)) * output
        self.prefixes.add(spliced, texts)
        self.copies.add(spliced, again)

    def tokens(self) -> dict[str, int]:
        """Tokens of the whole plan, and the floors of `floor.py` for the block sizes of GPUs and of
        CPUs.
        """
        floors = {
            block: self.prefixes.floor(block) + self.copies.floor(block) for block in (16, 32)
        }
        blocks = {f"blocks_of_{block}": found.blocks for block, found in floors.items()}
        return {
            "prompt": floors[16].prompt,
            "tree": floors[16].tree,
            **blocks,
            "output": self.output_tokens,
        }

    def _rendered(self, asked: Benchmark, variant: Variant) -> list[ItemPrompt]:
        """All prompts, by a skeleton where a sample of them comes out the same when rendered in
        full.
        """
        prompts = rendered(self.builder, asked, variant, in_full=asked.name in self.in_full)
        for number in _sample(asked.items):
            item = asked.items[number]
            whole = self.builder.item_prompt(
                asked.task, item, variant, asked.task.shots(item, asked.examples)
            )
            if whole != prompts[number]:
                self.in_full.add(asked.name)
                return rendered(self.builder, asked, variant, in_full=True)
        return prompts

    def _check_only_date(
        self, asked: Benchmark, prompts: list[ItemPrompt], texts: list[str]
    ) -> None:
        if texts == [""]:
            return
        rest = pl.Series([f"{p.before}\n{p.after}" for p in prompts], dtype=pl.String)
        for number in rest.str.contains_any(texts).arg_true():
            check_only_date(
                self.builder,
                prompts[number],
                texts,
                f"task {asked.name}, item {asked.items[number].item_id}",
            )

    def _check_exactly(
        self, item: Item, prompt: ItemPrompt, spliced: Spliced, number: int, texts: list[str]
    ) -> None:
        """The ids of one item's prompts are those of its whole texts, and differ between dates only
        inside the date.
        """
        where = f"task {item.task}, item {item.item_id}"
        if texts != [""]:
            check_treatment(
                self.builder, prompt, texts if number == 0 else [texts[0], texts[-1]], where
            )
        for text in texts if number == 0 else (texts[0], texts[-1]):
            ids, _ = spliced.compose(number, text)
            if ids != self.builder.encode(prompt.text(text)):
                raise PromptError(
                    f"model {self.model.name}, {where}: spliced ids differ from those of "
                    "the whole prompt; please report this"
                )
            self.builder.check_bos(ids, where)

    def _check_length(
        self, item: Item, spliced: Spliced, number: int, texts: list[str], output: int
    ) -> None:
        needed = spliced.longest(number, texts) + output
        if self.limit is not None and needed > self.limit:
            whose = (
                "max_model_len"
                if self.model.max_model_len
                else "the longest that the model can take"
            )
            raise PromptError(
                f"model {self.model.name}, task {item.task}, item {item.item_id}: prompt "
                f"and output need {needed} tokens, {whose} is "
                f"{self.limit}; prompts are never truncated: raise it in the model file, "
                "or lower the task's max_tokens in the sweep"
            )
        self.longest = max(self.longest, needed)

    def _keep_labels(
        self, asked: Benchmark, item: Item, prompt: ItemPrompt, date_text: str
    ) -> None:
        """The tokens of the item's labels, looked up once for each way in which prompts end."""
        wanted = self.builder.labels(asked.task, item)
        known = self.labels.setdefault(asked.name, {})
        ending = (asked.name, prompt.text(date_text)[-CONTEXT:], tuple(wanted))
        if not wanted or ending in self.endings:
            return
        self.endings.add(ending)
        for label, token in zip(
            wanted, self.builder.label_token_ids(prompt, date_text, wanted), strict=True
        ):
            if known.setdefault(label, token) != token:
                where = f"model {self.model.name}, task {asked.name}, item {item.item_id}"
                raise PromptError(f"{where}: label {label!r} is another token than elsewhere")


def _sample(items: Sequence[Item], size: int = SAMPLE) -> list[int]:
    """Places of the first item and of those whose ids hash lowest: what is rendered and tokenised
    in full too.
    """
    ranked = sorted(
        range(len(items)), key=lambda i: hashlib.sha256(items[i].item_id.encode()).digest()
    )
    return sorted({*range(min(1, len(items))), *ranked[: size - 1]})


def check_gold(asked: Benchmark, option_orders: list[int]) -> dict[str, float]:
    """Metric -> score of the right answer of every item, through the real extraction and the real
    metrics; all are perfect.

    Raises:
        DataError: an item's right answer does not get full marks; names the first, and what was
            read out of it.
    """
    outputs = pl.concat([gold_outputs(asked, order) for order in option_orders])
    answers = outputs.hstack(asked.task.answers(outputs))
    return {name: _gold_score(asked, metrics.get(name), answers) for name in scored_by(asked.spec)}


def gold_outputs(asked: Benchmark, option_order: int) -> pl.DataFrame:
    """What a perfect model gives for every item shown in an order of its options, in the columns
    that scoring reads.
    """
    task, shown = asked.task, [tasks.reordered(item, option_order) for item in asked.items]
    is_label = task.kind == "label"
    logprobs = [
        [0.0 if label.strip() == i.target else -math.inf for label in task.labels(i)]
        if is_label
        else []
        for i in shown
    ]
    return tables.from_records(Item, asked.items).with_columns(
        option_order=pl.lit(option_order, dtype=pl.Int64),
        text=pl.Series(["" if is_label else task.gold_output(i) for i in shown], dtype=pl.String),
        label_logprobs=pl.Series(logprobs, dtype=pl.List(pl.Float64)),
    )


def _gold_score(asked: Benchmark, metric: metrics.Metric, answers: pl.DataFrame) -> float:
    segments = metric.segments(answers)
    stats = np.array(segments["stats"].to_list(), dtype=np.float64)
    score = float(metric.combine(stats.sum(axis=0), np.array(len(stats))))
    if abs(score - (100.0 if metric.higher_is_better else 0.0)) > GOLD_TOLERANCE:
        singles = metric.combine(stats, np.ones(len(stats)))
        worst = int(np.argmin(singles) if metric.higher_is_better else np.argmax(singles))
        row = {**answers.row(worst, named=True), **segments.row(worst, named=True)}
        raise DataError(
            f"task {asked.name}: the right answers get {score:.4f} in {metric.name}; the "
            f"worst is item {row['item_id']}: "
            f"{row['status']} {row['detail']} with the answer {row['answer'][:80]!r} by "
            f"rule {row['rule']}, right is {row['target'][:80]!r}"
        )
    return score
