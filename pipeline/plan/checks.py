"""What is proved of prompts before an engine starts: each has its date, and nothing else moves."""

import functools
import hashlib
import itertools
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace

import polars as pl

from pipeline.core import cores, tables
from pipeline.core.errors import PromptError
from pipeline.core.records import Item, Variant
from pipeline.data import checkpoints
from pipeline.plan.benchmarks import Benchmark
from pipeline.prompts import (
    CONTEXT,
    ItemPrompt,
    Prefixes,
    PromptBuilder,
    Spliced,
    Splicer,
    check_bos,
    check_only_date,
    check_treatment,
    own_dates,
)
from pipeline.settings import ModelSpec
from pipeline.store import PromptReport, PromptTokens

SAMPLE = 24
"""Items of each benchmark and condition whose prompts are also rendered and tokenised in full, and
compared."""
BLOCK_SIZES = (16, 32)
"""Tokens in a block of the prefix cache, on GPUs and on CPUs."""
MANY_ITEMS = 4_000
"""From so many on, models are checked side by side; a process of its own takes seconds to start."""


def check_all(
    models: Sequence[ModelSpec],
    benchmarks: Sequence[Benchmark],
    variants: Sequence[Variant],
    placebo: Sequence[str],
    say: Callable[[str], None],
    many_items: int = MANY_ITEMS,
) -> dict[str, PromptReport]:
    """The report of `check_prompts` for each model.

    Models with the same tokenizer, template and settings of prompts are checked once; side by side
    from `many_items` items on.
    """
    keys = {model.name: _prompts_key(model, say) for model in models}
    distinct: dict[str, ModelSpec] = {}
    for model in models:
        distinct.setdefault(keys[model.name], model)
    num_items = sum(len(benchmark.items) for benchmark in benchmarks)
    for model in distinct.values():
        say(f"checking the prompts of {num_items:,} items for {model.name}")
    check = functools.partial(
        check_prompts, benchmarks=benchmarks, variants=variants, placebo=placebo
    )
    num_workers = min(len(distinct), cores.num_cores()) if num_items >= many_items else 1
    if num_workers > 1:
        # Processes of their own and not forks: tokenizers have threads.
        with ProcessPoolExecutor(num_workers, multiprocessing.get_context("spawn")) as pool:
            reports = list(pool.map(check, distinct.values()))
    else:
        reports = list(map(check, distinct.values()))
    by_key = dict(zip(distinct, reports, strict=True))
    return {name: by_key[key] for name, key in keys.items()}


def _prompts_key(model: ModelSpec, say: Callable[[str], None]) -> str:
    """Equal for models whose prompts are the same, token by token."""
    folder = checkpoints.folder(model, say, weights=False)
    files = [path for name in checkpoints.PROMPT_FILES if (path := folder / name).is_file()]
    fields = {"template", "label_form", "thinking_tokens", "max_model_len"}
    own = f"{model.model_dump_json(include=fields)}{checkpoints.max_length(folder)}"
    return tables.short_hash(b"".join([own.encode(), *(path.read_bytes() for path in files)]))


def check_prompts(
    model: ModelSpec,
    benchmarks: Sequence[Benchmark],
    variants: Sequence[Variant],
    placebo: Sequence[str],
) -> PromptReport:
    """What replicas and readers need to know of one model's prompts, all made and checked.

    Raises:
        PromptError: a prompt loses, repeats or moves its date, is too long, or has labels that are
            not single tokens.
    """
    folder = checkpoints.folder(model, weights=False)
    checker = _Checker(model, PromptBuilder(model, folder), checkpoints.max_length(folder))
    sweep, copies = Prefixes(), Prefixes()
    total, num_output = _Report(), 0
    # Dated prompts first: a control ends as they do, and is then tokenised with them.
    conditions = sorted(by_condition(variants).values(), key=lambda group: group[0].date is None)
    for benchmark, group in itertools.product(benchmarks, conditions):
        texts = [v.date_text for v in group]
        again = [v.date_text for v in group if v.variant in placebo]
        spliced, report = checker.check(benchmark, group[0], texts, total)
        total += report
        sweep.add(spliced, texts)
        copies.add(spliced, again)
        num_prompts = len(benchmark.items) * (len(texts) + len(again))
        num_output += num_prompts * benchmark.max_tokens(model)
    # Copies come after the whole sweep, which no cache keeps, so they are computed anew.
    floor = sweep.floor(BLOCK_SIZES) + copies.floor(BLOCK_SIZES)
    template = f"{model.template.paper or ''}{checker.builder.tokenizer.hf.chat_template}"
    return PromptReport(
        label_token_ids=total.label_token_ids,
        max_model_len=total.max_model_len,
        tokens=PromptTokens(
            prompt=floor.prompt, tree=floor.tree, blocks=floor.blocks, output=num_output
        ),
        rendered_in_full=sorted(total.rendered_in_full),
        tokenised_whole=total.tokenised_whole,
        template_hash=tables.short_hash(template.encode()),
        template_dates=sorted(total.template_dates),
    )


def by_condition(variants: Sequence[Variant]) -> dict[str, list[Variant]]:
    """Condition -> its variants."""
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(variant.condition, []).append(variant)
    return groups


def rendered(
    builder: PromptBuilder, benchmark: Benchmark, variant: Variant, *, in_full: bool
) -> list[ItemPrompt]:
    """The prompts of all items of a benchmark under the condition of `variant`."""
    task, examples = benchmark.task, benchmark.examples
    return [
        builder.item_prompt(task, item, variant, task.shots(item, examples), in_full=in_full)
        for item in benchmark.items
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What was found of prompts; the fields are those of `PromptReport`."""

    label_token_ids: dict[str, dict[str, int]] = field(default_factory=dict)
    max_model_len: int = 0
    rendered_in_full: frozenset[str] = frozenset()
    tokenised_whole: int = 0
    template_dates: frozenset[str] = frozenset()

    def __add__(self, other: "_Report") -> "_Report":
        return _Report(
            label_token_ids=self.label_token_ids | other.label_token_ids,
            max_model_len=max(self.max_model_len, other.max_model_len),
            rendered_in_full=self.rendered_in_full | other.rendered_in_full,
            tokenised_whole=self.tokenised_whole + other.tokenised_whole,
            template_dates=self.template_dates | other.template_dates,
        )


class _Checker:
    """Checks the prompts of one model, a benchmark under a condition at a time."""

    def __init__(self, model: ModelSpec, builder: PromptBuilder, longest: int | None) -> None:
        """`longest` is what the model can take, in tokens with output."""
        self.model, self.builder = model, builder
        self.limit = model.max_model_len or longest
        self.splicer = Splicer(builder.tokenizer)

    def check(
        self, benchmark: Benchmark, variant: Variant, texts: list[str], before: _Report
    ) -> tuple[Spliced, _Report]:
        """The prompts of a benchmark under the condition of `variant` and every date of `texts`.

        And what was found of them, where `before` is what was found of those checked before.
        """
        first, task, name = benchmark.items[0], benchmark.task, benchmark.name
        shots = task.shots(first, benchmark.examples)
        template_dates = own_dates(self.builder, task, first, variant, shots)
        in_full = name in before.rendered_in_full
        prompts = rendered(self.builder, benchmark, variant, in_full=in_full)
        numbers = _sample(benchmark.items)
        sample = replace(benchmark, items=[benchmark.items[number] for number in numbers])
        expected = rendered(self.builder, sample, variant, in_full=True)
        if [prompts[number] for number in numbers] != expected:
            in_full = True
            prompts = rendered(self.builder, benchmark, variant, in_full=True)
        self._check_only_date(benchmark, prompts, texts)
        spliced = self.splicer.splice(prompts, texts)
        for number in numbers:
            self._check_exactly(benchmark.items[number], prompts[number], spliced, number, texts)
        labels = before.label_token_ids.get(name, {})
        return spliced, _Report(
            label_token_ids={name: self._label_tokens(benchmark, prompts, texts, labels)},
            max_model_len=self._longest(benchmark, spliced, texts),
            rendered_in_full=frozenset([name] if in_full else []),
            tokenised_whole=len(spliced.whole),
            template_dates=frozenset(template_dates),
        )

    def _check_only_date(
        self, benchmark: Benchmark, prompts: list[ItemPrompt], texts: list[str]
    ) -> None:
        if texts == [""]:
            return
        rest = pl.Series([f"{p.before}\n{p.after}" for p in prompts], dtype=pl.String)
        for number in rest.str.contains_any(texts).arg_true():
            where = f"task {benchmark.name}, item {benchmark.items[number].item_id}"
            check_only_date(self.model.name, prompts[number], texts, where)

    def _check_exactly(
        self, item: Item, prompt: ItemPrompt, spliced: Spliced, number: int, texts: list[str]
    ) -> None:
        """The ids of one item's prompts are those of its whole texts.

        And differ between dates only inside the date. The first item is checked under every date.
        """
        where, tokenizer = f"task {item.task}, item {item.item_id}", self.builder.tokenizer
        tried = texts if number == 0 else [texts[0], texts[-1]]
        if texts != [""]:
            check_treatment(tokenizer, prompt, tried, where)
        for text in tried:
            ids, _ = spliced.compose(number, text)
            if ids != tokenizer.encode(prompt.text(text)):
                raise PromptError(
                    f"model {self.model.name}, {where}: spliced ids differ from those of the "
                    "whole prompt; please report this"
                )
            check_bos(tokenizer, ids, where)

    def _longest(self, benchmark: Benchmark, spliced: Spliced, texts: list[str]) -> int:
        """Tokens of the longest prompt with output, having checked that the model can take it."""
        output = benchmark.max_tokens(self.model)
        needed = [spliced.longest(number, texts) + output for number in range(len(benchmark.items))]
        for item, length in zip(benchmark.items, needed, strict=True):
            if self.limit is not None and length > self.limit:
                is_set = self.model.max_model_len is not None
                limit = "max_model_len" if is_set else "the longest that the model can take"
                raise PromptError(
                    f"model {self.model.name}, task {item.task}, item {item.item_id}: prompt and "
                    f"output need {length} tokens, {limit} is {self.limit}; prompts are never "
                    "truncated: raise it in the model file, or lower the task's max_tokens in the "
                    "sweep"
                )
        return max(needed)

    def _label_tokens(
        self,
        benchmark: Benchmark,
        prompts: list[ItemPrompt],
        texts: list[str],
        before: dict[str, int],
    ) -> dict[str, int]:
        """Label -> its token, which is the same behind every prompt, and as it was `before`.

        Looked up once for each way in which prompts end.
        """
        known, endings = dict(before), set[tuple[str, ...]]()
        for item, prompt in zip(benchmark.items, prompts, strict=True):
            labels = self.builder.labels(benchmark.task, item)
            for text in (prompt.text(date) for date in (texts[0], texts[-1]) if labels):
                ending = (text[-CONTEXT:], *labels)
                if ending in endings:
                    continue
                endings.add(ending)
                tokens = self.builder.tokenizer.label_token_ids(text, labels)
                for label, token in zip(labels, tokens, strict=True):
                    if known.setdefault(label, token) != token:
                        raise PromptError(
                            f"model {self.model.name}, task {benchmark.name}, item {item.item_id}: "
                            f"label {label!r} is another token than elsewhere"
                        )
        return known


def _sample(items: Sequence[Item]) -> list[int]:
    """Positions of the first item and of those whose ids hash lowest.

    They are rendered and tokenised in full too.
    """
    digests = [hashlib.sha256(item.item_id.encode()).digest() for item in items]
    ranked = sorted(range(len(items)), key=digests.__getitem__)
    return sorted({0, *ranked[: SAMPLE - 1]})
