"""Token ids, the span of the date among them, and labels, on the demo model's real tokenizer."""

import pytest

from pipeline import tasks
from pipeline.core.errors import PromptError
from pipeline.prompts import PromptBuilder
from tests.prompts.conftest import ITEM, MMLU, variant


def test_composed_ids_equal_transformers_own_rendering_and_tokenisation(
    builder: PromptBuilder,
) -> None:
    prompt = builder.item_prompt(MMLU, ITEM, variant())
    user = tasks.get("mmlu").prompt(ITEM).user
    turns = [
        {"role": "system", "content": "Current date: 2024-11-30."},
        {"role": "user", "content": user},
        {"role": "assistant", "content": "Answer:"},
    ]
    expected = builder.tokenizer.hf.apply_chat_template(
        turns, continue_final_message=True, tokenize=True, return_dict=False
    )
    assert builder.tokenizer.encode(prompt.text("2024-11-30")) == list(expected)


def test_the_span_holds_the_date_and_nothing_else(builder: PromptBuilder) -> None:
    prompt = builder.item_prompt(MMLU, ITEM, variant())
    span = builder.tokenizer.span(prompt.before, "2024-03-05", prompt.after)
    assert (
        builder.tokenizer.hf.decode(span.token_ids[span.start : span.stop]).strip() == "2024-03-05"
    )


def test_labels_are_the_single_tokens_that_follow_the_prompt(builder: PromptBuilder) -> None:
    prompt = builder.item_prompt(MMLU, ITEM, variant())
    assert builder.tokenizer.label_token_ids(
        prompt.text("2024-03-05"), [" A", " B", " C", " D"]
    ) == (330, 389, 340, 422)


@pytest.mark.parametrize("labels", [[" Anticonstitutionally"], [" A", " A"]])
def test_labels_that_are_no_single_tokens_of_their_own_are_an_error(
    builder: PromptBuilder, labels: list[str]
) -> None:
    prompt = builder.item_prompt(MMLU, ITEM, variant())
    with pytest.raises(PromptError, match="label"):
        builder.tokenizer.label_token_ids(prompt.text("2024-03-05"), labels)
