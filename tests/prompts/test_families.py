"""The model files: exact prompts through the chat templates of all their families, in both modes.

And what is refused.
"""

import datetime
import shutil
from pathlib import Path

import pytest

from pipeline import tasks
from pipeline.core.errors import PromptError
from pipeline.prompts import PromptBuilder, check_treatment, own_dates
from pipeline.settings import configs_folder, model_file, model_names
from tests.prompts.families import (
    BLOCK,
    CASES,
    FAMILIES,
    FAMILY_OF,
    MCQA,
    SHOT_BLOCKS,
    SHOTS,
    TEMPLATES,
    Make,
    asked,
    control,
    every_model,
    on,
    spec_of,
)


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
        own_dates(builder, tasks.get("mmlu"), MCQA, on(placements=[placement]))
        == own_dates(builder, tasks.get("mmlu"), MCQA, control())
        == []
    )
    for wording in ("none", "helpful"):
        prompt = asked(builder, on(placements=[placement], wordings=[wording]))
        check_treatment(
            builder.tokenizer, prompt, ["2024-01-01", "2024-03-05", "2024-12-31"], placement
        )


@every_model
def test_a_prompt_has_one_bos_where_the_template_writes_one_and_else_none(
    make: Make, model: str
) -> None:
    builder, bos = make(model), FAMILIES[FAMILY_OF[model]].bos
    ids = builder.tokenizer.encode(asked(builder, on()).text("2024-03-05"))
    found = builder.tokenizer.hf.convert_ids_to_tokens(ids)
    assert [
        token for token in found if token in ("<|begin_of_text|>", "<bos>", "<s>", "<|endoftext|>")
    ] == ([bos] if bos else [])
    assert bos is None or found[0] == bos


@every_model
def test_the_label_tokens_are_four_single_tokens_behind_the_prefill(make: Make, model: str) -> None:
    builder = make(model)
    labels = builder.labels(tasks.get("mmlu"), MCQA)
    assert labels == [" A", " B", " C", " D"]
    assert (
        len(set(builder.tokenizer.label_token_ids(asked(builder, on()).text("2024-03-05"), labels)))
        == 4
    )


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
    assert own_dates(builder, tasks.get("mmlu"), MCQA, variant) == []


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
        own_dates(make(model, paper=None), tasks.get("mmlu"), MCQA, on())
    assert own_dates(make(model, paper=None, own_date="keep"), tasks.get("mmlu"), MCQA, on()) == [
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
