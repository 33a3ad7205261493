"""The model files: exact prompts through the chat templates of all their families, in both modes,
and what is refused.

The templates in `tests/templates` behave like the official ones and are not copies of them.
`DATESWEEP_ONLINE=1` compares the two, and token ids, where the Hub is to be had.
"""

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline import tasks
from pipeline.core import dates
from pipeline.core.errors import PromptError
from pipeline.core.records import Item, Variant
from pipeline.prompts import render as prompts, variants
from pipeline.prompts.render import ItemPrompt, PromptBuilder
from pipeline.settings import (
    CalendarSpec,
    ConditionsSpec,
    ModelSpec,
    configs_folder,
    model_file,
    model_names,
)

TEMPLATES = Path(__file__).parent / "templates"
DAY = datetime.date(2024, 3, 5)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Models that share a chat template, and the prompts that it makes, up to where a prefill
    begins.
    """

    models: tuple[str, ...]
    tokens: tuple[str, ...]
    dated: str
    control: str
    shots: str
    """With worked examples: the first one, and `{pairs}` for the others."""
    pair: str
    """Another worked example."""
    bos: str | None = None
    opened: str = ""
    """What stands between the assistant's header and a prefill, and not where the model begins by
    itself."""
    trims: bool = False


FAMILIES = {
    "llama31": Family(
        models=("llama-3.1-8b-instruct", "llama-3.1-70b-instruct"),
        tokens=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        bos="<|begin_of_text|>",
        trims=True,
        dated=(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        control=(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        shots=(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n{shot}<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{answer}<|eot_id|>{pairs}"
            "<|start_header_id|>user<|end_header_id|>\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        pair=(
            "<|start_header_id|>user<|end_header_id|>\n\n{shot}<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{answer}<|eot_id|>"
        ),
    ),
    "gemma3": Family(
        models=("gemma-3-4b-it", "gemma-3-27b-it"),
        tokens=("<start_of_turn>", "<end_of_turn>"),
        bos="<bos>",
        trims=True,
        dated="<bos><start_of_turn>user\n{system}\n\n{user}<end_of_turn>\n<start_of_turn>model\n",
        control="<bos><start_of_turn>user\n{user}<end_of_turn>\n<start_of_turn>model\n",
        shots=(
            "<bos><start_of_turn>user\n{system}\n\n{shot}<end_of_turn>\n<start_of_turn>model\n{answer}<end_of_turn>\n{pairs}"
            "<start_of_turn>user\n{user}<end_of_turn>\n<start_of_turn>model\n"
        ),
        pair="<start_of_turn>user\n{shot}<end_of_turn>\n<start_of_turn>model\n{answer}<end_of_turn>\n",
    ),
    "qwen3": Family(
        models=("qwen3-4b",),
        tokens=("<|im_start|>", "<|im_end|>", "<think>", "</think>"),
        dated=(
            "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        ),
        control="<|im_start|>system\n<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        shots=(
            "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n{pairs}"
            "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        ),
        pair="<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n",
    ),
    "qwen3_next": Family(
        models=("qwen3-next-80b-a3b-instruct", "qwen3-4b-instruct-2507"),
        tokens=("<|im_start|>", "<|im_end|>"),
        dated="<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n",
        control="<|im_start|>system\n<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n",
        shots=(
            "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n{pairs}"
            "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
        ),
        pair="<|im_start|>user\n{shot}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n",
    ),
    "phi4": Family(
        models=("phi-4",),
        tokens=("<|im_start|>", "<|im_sep|>", "<|im_end|>"),
        dated=(
            "<|im_start|>system<|im_sep|>{system}<|im_end|><|im_start|>user<|im_sep|>{user}<|im_end|><|im_start|>assistant<|im_sep|>"
        ),
        control="<|im_start|>system<|im_sep|><|im_end|><|im_start|>user<|im_sep|>{user}<|im_end|><|im_start|>assistant<|im_sep|>",
        shots=(
            "<|im_start|>system<|im_sep|>{system}<|im_end|><|im_start|>user<|im_sep|>{shot}<|im_end|>"
            "<|im_start|>assistant<|im_sep|>{answer}<|im_end|>{pairs}"
            "<|im_start|>user<|im_sep|>{user}<|im_end|><|im_start|>assistant<|im_sep|>"
        ),
        pair="<|im_start|>user<|im_sep|>{shot}<|im_end|><|im_start|>assistant<|im_sep|>{answer}<|im_end|>",
    ),
    "gpt_oss": Family(
        models=("gpt-oss-20b", "gpt-oss-120b"),
        tokens=("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"),
        opened="<|channel|>final<|message|>",
        dated="<|start|>system<|message|>{system}<|end|><|start|>user<|message|>{user}<|end|><|start|>assistant",
        control="<|start|>system<|message|><|end|><|start|>user<|message|>{user}<|end|><|start|>assistant",
        shots=(
            "<|start|>system<|message|>{system}<|end|><|start|>user<|message|>{shot}<|end|>"
            "<|start|>assistant<|channel|>final<|message|>{answer}<|end|>{pairs}"
            "<|start|>user<|message|>{user}<|end|><|start|>assistant"
        ),
        pair="<|start|>user<|message|>{shot}<|end|><|start|>assistant<|channel|>final<|message|>{answer}<|end|>",
    ),
}
FAMILY_OF = {model: family for family, entry in FAMILIES.items() for model in entry.models}
every_model = pytest.mark.parametrize("model", FAMILY_OF)


def an_item(task: str, target: str, options: list[str] | None = None, **fields: str) -> Item:
    return Item(
        task=task,
        item_id="made-up",
        group="",
        fields=fields,
        options=options or [],
        target=target,
        references=[],
    )


MCQA = an_item("mmlu", "B", ["one", "two", "three", "five"], question="Which is even?")
BLOCK = "Question: Which is even?\nA. one\nB. two\nC. three\nD. five"
SHOTS = tuple(
    an_item("mmlu", letter, ["zero", "one", "two", "three"], question=f"Which is {letter}?")
    for letter in "ACBDA"
)
SHOT_BLOCKS = [
    f"Question: Which is {letter}?\nA. zero\nB. one\nC. two\nD. three" for letter in "ACBDA"
]
HEAD = 'def twice(n):\n    """Double n."""\n'
PROGRAM = an_item(
    "humaneval",
    f"{HEAD}    return 2 * n\n",
    prompt=HEAD,
    test="def check(f):\n    assert f(2) == 4\n",
    entry_point="twice",
)

CASES: dict[str, tuple[str, str, Item, str, str, str]] = {
    # name: task, style, item, system text behind the date sentence, user's turn, prefill
    "zero-shot": ("mmlu", "zero_shot", MCQA, "", BLOCK, "Answer:"),
    "cot": (
        "mmlu",
        "cot",
        MCQA,
        "",
        "Answer the following multiple-choice question. First, provide a step-by-step "
        "reasoning process, and then give the final answer "
        f"exactly in this format: 'The answer is X.'\n{BLOCK}",
        "",
    ),
    "gsm8k": (
        "gsm8k",
        "zero_shot",
        an_item("gsm8k", "6", question="Ann has 4 pens and buys 2. How many has she?"),
        "",
        "Solve the following math problem step by step. At the end, write your final "
        "answer in the exact format: 'Answer: <number>'.\n"
        "Ann has 4 pens and buys 2. How many has she?",
        "",
    ),
    "humaneval": (
        "humaneval",
        "zero_shot",
        PROGRAM,
        "\nYou are an expert Python programmer. Implement the function so that it "
        "satisfies the docstring. "
        "Respond with a single Python code block containing the complete function, and "
        "nothing else.",
        f"Complete the following Python function:\n{HEAD}",
        "",
    ),
    "translation": (
        "wmt16_en_de",
        "zero_shot",
        an_item("wmt16_en_de", "Es regnet.", source="It rains."),
        "",
        "Translate the following English text to German.\nEnglish: It rains.",
        "German:",
    ),
}

Make = Callable[..., PromptBuilder]


def spec_of(model: str, **template: object) -> ModelSpec:
    """The model file `model`, with changes to its `[template]`."""
    spec = model_file(configs_folder() / "models" / f"{model}.toml")
    return spec.model_copy(update={"template": spec.template.model_copy(update=template)})


@pytest.fixture(scope="module")
def folders(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each family, the demo model's tokenizer with the family's special tokens and chat
    template.
    """
    from transformers import AutoTokenizer

    made = {}
    for name, family in FAMILIES.items():
        made[name] = tmp_path_factory.mktemp(name)
        shutil.copy(demo_folder / "config.json", made[name])
        tokenizer = AutoTokenizer.from_pretrained(demo_folder)
        tokenizer.add_tokens(
            [*family.tokens, *([family.bos] if family.bos else [])], special_tokens=True
        )
        tokenizer.bos_token = family.bos
        tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text()
        tokenizer.save_pretrained(made[name])
    return made


@pytest.fixture(scope="module")
def make(folders: dict[str, Path]) -> Make:
    made: dict[str, PromptBuilder] = {}  # a tokenizer takes a third of a second to load

    def builder(model: str, **template: object) -> PromptBuilder:
        name = f"{model} {template}"
        if name not in made:
            made[name] = PromptBuilder(spec_of(model, **template), folders[FAMILY_OF[model]])
        return made[name]

    return builder


def on(day: datetime.date = DAY, date_format: str = "iso", **conditions: Any) -> Variant:
    """The variant of one date under one condition."""
    calendar = CalendarSpec(dates=[day], formats=[date_format], control=False)
    return variants.variants(calendar, ConditionsSpec.model_validate(conditions))[0]


def control() -> Variant:
    return variants.variants(CalendarSpec(dates=[]), ConditionsSpec())[0]


def asked(builder: PromptBuilder, variant: Variant, shots: tuple[Item, ...] = ()) -> ItemPrompt:
    """The multiple-choice item as `builder` asks it."""
    return builder.item_prompt(
        tasks.get("mmlu", "five_shot" if shots else "zero_shot"), MCQA, variant, shots
    )


# The files


PAPER_MODELS = {
    # name: Hub repository, tensor-parallel size on 80 GB GPUs, temperature, top_p, top_k
    "llama-3.1-8b-instruct": ("meta-llama/Llama-3.1-8B-Instruct", 1, 0.6, 0.9, 0),
    "llama-3.1-70b-instruct": ("meta-llama/Llama-3.1-70B-Instruct", 4, 0.6, 0.9, 0),
    "gemma-3-4b-it": ("google/gemma-3-4b-it", 1, 1.0, 0.95, 64),
    "gemma-3-27b-it": ("google/gemma-3-27b-it", 1, 1.0, 0.95, 64),
    "qwen3-4b": ("Qwen/Qwen3-4B", 1, 0.6, 0.95, 20),
    "qwen3-next-80b-a3b-instruct": ("Qwen/Qwen3-Next-80B-A3B-Instruct", 4, 0.7, 0.8, 20),
    "phi-4": ("microsoft/phi-4", 1, 0.0, 1.0, 0),
    "gpt-oss-20b": ("openai/gpt-oss-20b", 1, 1.0, 1.0, 0),
    "gpt-oss-120b": ("openai/gpt-oss-120b", 1, 1.0, 1.0, 0),
}


@pytest.mark.parametrize("name", PAPER_MODELS)
def test_the_papers_nine_models_are_there_with_their_repository_gpus_and_resolved_sampling(
    name: str,
) -> None:
    spec = spec_of(name)
    drawn = spec.sampling
    assert (
        spec.weights.hub,
        spec.tensor_parallel_size,
        drawn.temperature,
        drawn.top_p,
        drawn.top_k,
    ) == PAPER_MODELS[name]
    assert (spec.dtype, spec.label_form, drawn.seed) == ("bfloat16", "spaced", 0)


@pytest.mark.parametrize(
    "name", sorted(p.stem for p in (configs_folder() / "models").glob("*.toml"))
)
def test_every_model_file_loads_bears_its_own_name_and_says_everything_that_an_output_depends_on(
    name: str,
) -> None:
    path = configs_folder() / "models" / f"{name}.toml"
    spec = model_file(path)
    assert spec.name == name
    assert spec.title
    assert spec.licence
    if spec.weights.hub:
        unsaid = [
            key
            for key in ("temperature =", "top_p =", "top_k =", "seed =", "control_system =")
            if key not in path.read_text()
        ]
        assert not unsaid, "a value left to a default of the project would change with it"


def test_every_model_of_the_hub_has_a_family_here() -> None:
    assert {name for name in model_names() if spec_of(name).weights.hub} == set(FAMILY_OF)


# Paper mode


@every_model
@pytest.mark.parametrize("case", CASES)
def test_a_prompt_is_exactly_the_papers_text_inside_the_models_special_tokens(
    make: Make, model: str, case: str
) -> None:
    family = FAMILIES[FAMILY_OF[model]]
    task, style, item, system, user, prefill = CASES[case]
    expected = family.dated.format(
        system=f"Current date: 2024-03-05.{system}", user=user.strip() if family.trims else user
    )
    text = make(model).item_prompt(tasks.get(task, style), item, on()).text("2024-03-05")
    assert text == expected + (f"{family.opened}{prefill}" if prefill else "")


@every_model
def test_a_control_is_the_same_prompt_without_the_date_and_with_nothing_in_its_place(
    make: Make, model: str
) -> None:
    family = FAMILIES[FAMILY_OF[model]]
    assert (
        asked(make(model), control()).text("")
        == f"{family.control.format(user=BLOCK)}{family.opened}Answer:"
    )


@every_model
def test_worked_examples_are_finished_turns_before_the_item(make: Make, model: str) -> None:
    family = FAMILIES[FAMILY_OF[model]]
    first, *others = zip(SHOT_BLOCKS, [f"Answer: {letter}" for letter in "ACBDA"], strict=True)
    pairs = "".join(family.pair.format(shot=shot, answer=answer) for shot, answer in others)
    expected = family.shots.format(
        system="Current date: 2024-03-05.", shot=first[0], answer=first[1], pairs=pairs, user=BLOCK
    )
    assert asked(make(model), on(), SHOTS).text("2024-03-05") == f"{expected}{family.opened}Answer:"


@every_model
@pytest.mark.parametrize("placement", ["system_start", "system_end", "user_start", "user_end"])
def test_wherever_the_date_stands_token_ids_differ_between_dates_only_there(
    make: Make, model: str, placement: str
) -> None:
    builder = make(model)
    assert (
        builder.own_dates(tasks.get("mmlu"), MCQA, on(placements=[placement]))
        == builder.own_dates(tasks.get("mmlu"), MCQA, control())
        == []
    )
    for wording in ("none", "helpful"):
        prompt = asked(builder, on(placements=[placement], wordings=[wording]))
        prompts.check_treatment(
            builder, prompt, ["2024-01-01", "2024-03-05", "2024-12-31"], placement
        )


@every_model
def test_a_prompt_has_one_bos_where_the_template_writes_one_and_else_none(
    make: Make, model: str
) -> None:
    builder, bos = make(model), FAMILIES[FAMILY_OF[model]].bos
    ids = builder.encode(asked(builder, on()).text("2024-03-05"))
    found = builder.tokenizer.convert_ids_to_tokens(ids)
    assert [
        token for token in found if token in ("<|begin_of_text|>", "<bos>", "<s>", "<|endoftext|>")
    ] == ([bos] if bos else [])
    assert bos is None or found[0] == bos


@every_model
def test_the_label_tokens_are_four_single_tokens_behind_the_prefill(make: Make, model: str) -> None:
    builder = make(model)
    labels = builder.labels(tasks.get("mmlu"), MCQA)
    assert labels == [" A", " B", " C", " D"]
    assert len(set(builder.label_token_ids(asked(builder, on()), "2024-03-05", labels))) == 4


def test_gpt_oss_can_take_the_system_text_as_its_developer_message(make: Make) -> None:
    text = asked(make("gpt-oss-20b", system_role="developer"), on()).text("2024-03-05")
    assert text == (
        "<|start|>developer<|message|># Instructions\n\nCurrent date: 2024-03-05.<|end|>"
        f"<|start|>user<|message|>{BLOCK}<|end|><|start|>assistant<|channel|>final<|message|>Answer:"
    )


def test_the_system_text_in_front_of_the_users_text_is_what_gemmas_template_makes_of_it_anyway(
    make: Make,
) -> None:
    for variant in (on(), on(wordings=["expert"]), control()):
        assert asked(make("gemma-3-4b-it", system_role="user"), variant) == asked(
            make("gemma-3-4b-it"), variant
        )


def test_qwen3_would_think_without_the_switch_of_its_file(make: Make) -> None:
    question = CASES["gsm8k"][2]
    switched = make("qwen3-4b").item_prompt(tasks.get("gsm8k"), question, on())
    thinking = make("qwen3-4b", kwargs={}).item_prompt(tasks.get("gsm8k"), question, on())
    assert switched.after == f"{thinking.after}<think>\n\n</think>\n\n"


# Native mode


NATIVE = {
    # family: the format that its template writes, the whole prompt
    "llama31": (
        "day_month_year",
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge "
        "Date: December 2023\nToday Date: 05 Mar 2024\n\n"
        f"<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{BLOCK}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nAnswer:",
    ),
    "gpt_oss": (
        "iso",
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by "
        "OpenAI.\nKnowledge cutoff: 2024-06\n"
        "Current date: 2024-03-05\n\nReasoning: medium\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every "
        "message.<|end|>"
        f"<|start|>user<|message|>{BLOCK}<|end|><|start|>assistant<|channel|>final<|message|>Answer:",
    ),
}
native_models = pytest.mark.parametrize(
    "model", [m for family in NATIVE for m in FAMILIES[family].models]
)
other_models = pytest.mark.parametrize(
    "model", [m for m, family in FAMILY_OF.items() if family not in NATIVE]
)


@native_models
def test_in_native_mode_the_official_template_shows_the_swept_date_in_its_own_slot_and_no_other(
    make: Make, model: str
) -> None:
    builder, (date_format, expected) = make(model), NATIVE[FAMILY_OF[model]]
    variant = on(date_format=date_format, placements=["template"])
    assert asked(builder, variant).text(variant.date_text) == expected
    assert builder.own_dates(tasks.get("mmlu"), MCQA, variant) == []


@pytest.mark.parametrize("model", FAMILIES["gpt_oss"].models)
def test_a_template_that_writes_the_clock_in_its_own_format_refuses_every_other(
    make: Make, model: str
) -> None:
    with pytest.raises(PromptError, match="sweep the format that the template writes"):
        asked(make(model), on(date_format="slashes", placements=["template"]))


@other_models
def test_a_model_whose_template_has_no_date_has_no_native_mode(make: Make, model: str) -> None:
    with pytest.raises(PromptError, match=rf"model {model}, .*date_slot"):
        asked(make(model), on(placements=["template"]))


# What is refused, and the clock


@native_models
def test_the_official_template_that_writes_a_date_of_its_own_is_refused_in_paper_mode(
    make: Make, model: str
) -> None:
    own = {"llama31": "26 Jul 2024", "gpt_oss": "2024-07-26"}[FAMILY_OF[model]]
    with pytest.raises(
        PromptError, match=rf"model {model}, .*the chat template writes a date of its own, {own}"
    ):
        make(model, paper=None).own_dates(tasks.get("mmlu"), MCQA, on())
    assert make(model, paper=None, own_date="keep").own_dates(tasks.get("mmlu"), MCQA, on()) == [
        own
    ]


def test_a_role_that_the_template_does_not_take_is_an_error(make: Make) -> None:
    with pytest.raises(
        PromptError,
        match=r"model gemma-3-4b-it, task mmlu, item made-up: the chat template fails: .*alternate",
    ):
        asked(make("gemma-3-4b-it", system_role="developer"), on())


@every_model
def test_two_wall_clocks_give_the_same_prompts_in_every_mode(
    make: Make, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers.utils.chat_template_utils as target

    builder, date_format = make(model), NATIVE.get(FAMILY_OF[model], ("",))[0]
    wanted = [
        on(),
        control(),
        *([on(date_format=date_format, placements=["template"])] if date_format else []),
    ]
    seen = []
    for year in (2001, 2031):

        class Clock(datetime.datetime):
            year_now = year

            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> "Clock":
                return cls(cls.year_now, 2, 3, tzinfo=tz)

        monkeypatch.setattr(target, "datetime", Clock)
        seen.append([asked(builder, variant) for variant in wanted])
    assert seen[0] == seen[1]


# The official templates and tokenizers, where the Hub is to be had


@dataclass(frozen=True, kw_only=True)
class Ids:
    """Token ids of a family's tokenizer."""

    answer: list[int]
    """`Answer:`, with what opens the final channel before it."""
    spaced: tuple[int, ...]
    bare: tuple[int, ...]


IDS = {
    "llama31": Ids(answer=[16533, 25], spaced=(362, 426, 356, 423), bare=(32, 33, 34, 35)),
    "phi4": Ids(answer=[16533, 25], spaced=(362, 426, 356, 423), bare=(32, 33, 34, 35)),
    "qwen3": Ids(answer=[16141, 25], spaced=(362, 425, 356, 422), bare=(32, 33, 34, 35)),
    "qwen3_next": Ids(answer=[16141, 25], spaced=(362, 425, 356, 422), bare=(32, 33, 34, 35)),
    "gemma3": Ids(
        answer=[7925, 236787], spaced=(562, 603, 565, 622), bare=(236776, 236799, 236780, 236796)
    ),
    "gpt_oss": Ids(
        answer=[200006, 173781, 200005, 17196, 200008, 17045, 25],
        spaced=(355, 418, 363, 415),
        bare=(32, 33, 34, 35),
    ),
}
SYSTEM, USER, PREFILL = (
    {"role": r, "content": c}
    for r, c in (("system", "Be brief."), ("user", " Hi? \n"), ("assistant", "Answer:"))
)
SHAPES = {
    "system and user": [SYSTEM, USER],
    "prefilled": [SYSTEM, USER, PREFILL],
    "no system": [USER],
    "empty system": [{"role": "system", "content": ""}, USER],
    "examples": [SYSTEM, USER, {"role": "assistant", "content": "Answer: A"}, USER, PREFILL],
}
online = pytest.mark.skipif(
    os.environ.get("DATESWEEP_ONLINE") != "1",
    reason="asks the Hub; set DATESWEEP_ONLINE=1 to run it",
)


def fetched(hub: str) -> Path:
    """The small files of a Hub repository.

    Fetched by another process, as this one was told to stay offline.
    """
    script = (
        "import sys, huggingface_hub\n"
        "try:\n    print(huggingface_hub.snapshot_download(sys.argv[1], "
        "allow_patterns=['*.json', '*.jinja']))\n"
        "except Exception as error:\n    sys.exit(f'{type(error).__name__}: {error}')\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, hub],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode == 0:
        return Path(done.stdout.strip().splitlines()[-1])
    reason = next(
        (
            line
            for line in done.stderr.splitlines()
            if line.startswith(("GatedRepoError", "LocalEntryNotFoundError"))
        ),
        None,
    )
    if reason is None:
        pytest.fail(f"{hub}: {done.stderr.strip()}")
    pytest.skip(f"{hub} is not to be had: {reason}")


@online
@every_model
def test_the_official_template_renders_as_the_familys_here(model: str) -> None:
    folder = fetched(str(spec_of(model).weights.hub))
    official, ours = (PromptBuilder(spec_of(model), folder) for _ in range(2))
    ours.tokenizer.chat_template = (TEMPLATES / f"{FAMILY_OF[model]}.jinja").read_text()
    slotted = on(date_format="day_month_year", placements=["template"])
    for shape, turns in SHAPES.items():
        expected = official.render(turns, slotted)
        assert ours.render(turns, slotted) == expected, shape
        if FAMILY_OF[model] == "llama31" and turns[0]["role"] == "system":
            undated = expected.replace(
                "Cutting Knowledge Date: December 2023\nToday Date: 05 Mar 2024\n\n", ""
            )
            assert official.render(turns, on()) == undated, (
                f"{shape}: paper mode leaves out the date lines and nothing else"
            )


@online
@every_model
def test_the_official_tokenizer_has_the_known_ids_and_dates_of_one_length(model: str) -> None:
    builder, ids = (
        PromptBuilder(spec_of(model), fetched(str(spec_of(model).weights.hub))),
        IDS[FAMILY_OF[model]],
    )
    prompt = asked(builder, on())
    assert builder.encode(prompt.text("2024-03-05"))[-len(ids.answer) :] == ids.answer
    assert builder.label_token_ids(prompt, "2024-03-05", [" A", " B", " C", " D"]) == ids.spaced
    assert tuple(token for letter in "ABCD" for token in builder.encode(letter)) == ids.bare
    year = dates.calendar(datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), leap_day="keep")
    for name, write in dates.DATE_FORMATS.items():
        lengths = {len(builder.encode(prompt.text(write(day)))) for day in year}
        assert len(lengths) == 1, f"{name}: the date would move what follows it"
