"""Spliced ids against the tokenizer's own, for the demo's tokenizer and for one that cannot be
spliced.
"""

import datetime
import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pipeline.core import tables
from pipeline.core.conditions import PLACEMENTS
from pipeline.core.dates import DATE_FORMATS
from pipeline.plan import benchmarks
from pipeline.plan.checks import rendered
from pipeline.prompts import variants
from pipeline.prompts.render import ItemPrompt, PromptBuilder
from pipeline.prompts.splice import Splicer
from pipeline.settings import CalendarSpec, ConditionsSpec, ModelSpec, SweepSpec, TaskSpec

DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 3, 5), datetime.date(2024, 12, 31)]
TEXTS = [day.isoformat() for day in DAYS]


@pytest.fixture(scope="module")
def builder(demo_model: ModelSpec, demo_folder: Path) -> PromptBuilder:
    return PromptBuilder(demo_model, demo_folder)


def check(
    builder: PromptBuilder, splicer: Splicer, prompts: list[ItemPrompt], texts: list[str]
) -> int:
    """Compares every prompt with its whole text; the number that could not be spliced."""
    spliced = splicer.splice(prompts, texts)
    for (number, prompt), text in itertools.product(enumerate(prompts), texts):
        expected = builder.tokenizer.encode(prompt.text(text))
        assert spliced.compose(number, text) == (expected, tables.prompt_hash(expected))
        assert len(expected) <= spliced.longest(number, texts)
    return len(spliced.whole)


@pytest.mark.parametrize("placement", [p for p in PLACEMENTS if p != "template"])
@pytest.mark.parametrize("date_format", sorted(DATE_FORMATS))
def test_spliced_ids_are_those_of_the_whole_prompt(
    builder: PromptBuilder, simulated_spec: SweepSpec, placement: str, date_format: str
) -> None:
    splicer = Splicer(builder.tokenizer)
    tasks = [
        ("mmlu", "zero_shot"),
        ("mmlu", "five_shot"),
        ("mmlu", "cot"),
        ("gsm8k", "zero_shot"),
        ("humaneval", "zero_shot"),
    ]
    conditions = ConditionsSpec(
        placements=[placement], wordings=["none", "expert"], locations=["none", "sao_paulo"]
    )
    found = variants.variants(CalendarSpec(dates=DAYS, formats=[date_format]), conditions)
    for name, style in tasks:
        benchmark = benchmarks.load(
            TaskSpec(name=name, style=style, limit=6), simulated_spec.data_root
        )
        for _, same in itertools.groupby(
            sorted(found, key=lambda v: (v.date is None, v.condition)), key=lambda v: v.condition
        ):
            members = list(same)
            prompts = rendered(builder, benchmark, members[0], in_full=True)
            assert check(builder, splicer, prompts, [v.date_text for v in members]) == 0


sides = st.text(st.sampled_from("aA1 .,:-\n\t<|>é中"), max_size=30)


@settings(max_examples=150)
@given(before=sides, after=sides, special=st.sampled_from(["", "<|im_start|>", "<|im_end|>\n"]))
def test_whatever_stands_around_a_date_the_ids_are_exact(
    builder: PromptBuilder, before: str, after: str, special: str
) -> None:
    prompts = [
        ItemPrompt(before=f"{special}{before}", after=f"{after}{special}"),
        ItemPrompt(before=before + special, after=special + after),
    ]
    check(builder, Splicer(builder.tokenizer), prompts, TEXTS)


def test_a_tokenizer_that_joins_across_the_cuts_is_noticed_and_not_spliced(
    builder: PromptBuilder,
) -> None:
    # A space put before every text, as SentencePiece's dummy prefix: segments would each get one.
    from tokenizers import normalizers

    raw = builder.tokenizer.hf.backend_tokenizer
    usual = raw.normalizer
    raw.normalizer = normalizers.Prepend(" ")
    try:
        prompts = [
            ItemPrompt(before=f"Item {i}.\nCurrent date: ", after=".\nGo on.") for i in range(3)
        ]
        assert check(builder, Splicer(builder.tokenizer), prompts, TEXTS) == 3
    finally:
        raw.normalizer = usual


def test_a_control_shares_its_tail_with_dated_prompts(
    builder: PromptBuilder, simulated_spec: SweepSpec
) -> None:
    splicer, benchmark = (
        Splicer(builder.tokenizer),
        benchmarks.load(TaskSpec(name="mmlu", limit=4), simulated_spec.data_root),
    )
    control, *dated = variants.variants(CalendarSpec(dates=DAYS), ConditionsSpec())
    tails = splicer.splice(rendered(builder, benchmark, dated[0], in_full=True), TEXTS).tails
    prompts = rendered(builder, benchmark, control, in_full=True)
    assert splicer.splice(prompts, [""]).tails == tails
    assert check(builder, splicer, prompts, [""]) == 0


def test_segments_are_tokenised_once(builder: PromptBuilder) -> None:
    splicer, prompts = (
        Splicer(builder.tokenizer),
        [
            ItemPrompt(before="<|im_start|>system\nToday: ", after=f"<|im_end|>{i}")
            for i in range(5)
        ],
    )
    first, again = splicer.splice(prompts, TEXTS), splicer.splice(prompts, TEXTS)
    assert again.leads[0] is first.leads[0]
    assert all(new is old for new, old in zip(again.tails, first.tails, strict=True))
