"""The proof that a prompt holds its date once, and that ids differ between dates only there."""

import datetime
import re
from collections.abc import Sequence

from pipeline.core.dates import DATE_FORMATS
from pipeline.core.errors import PromptError
from pipeline.core.records import Item, Variant
from pipeline.prompts.render import PROBES, ItemPrompt, PromptBuilder, at
from pipeline.prompts.skeleton import marked
from pipeline.prompts.tokens import PromptTokenizer
from pipeline.prompts.variants import messages
from pipeline.tasks import Task

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATE_LIKE = re.compile(
    r"\d{4}[-./]\d\d?[-./]\d\d?|\d\d?[-./]\d\d?[-./]\d{4}"
    rf"|\d\d?\.? {_MONTH},? \d{{4}}|{_MONTH} \d\d?,? \d{{4}}"
)
_OTHER_CLOCK = datetime.date(1999, 11, 30)
"""Under this clock and that of the model file a template that does not read the clock renders the
same."""


def check_treatment(
    tokenizer: PromptTokenizer, prompt: ItemPrompt, date_texts: Sequence[str], where: str
) -> None:
    """Nothing, or PromptError where ids of two dates differ outside the date span.

    Or where a prompt starts with two BOS; names `where` and the date.
    """
    spans = [tokenizer.span(prompt.before, text, prompt.after) for text in date_texts]
    first = spans[0]
    head, tail = first.token_ids[: first.start], first.token_ids[first.stop :]
    for text, span in zip(date_texts, spans, strict=True):
        outside = (span.token_ids[: span.start], span.token_ids[span.stop :])
        if span.start == span.stop or outside != (head, tail):
            raise PromptError(
                f"model {tokenizer.model}, {where}: with date {text!r} token ids differ outside "
                "the date span"
            )
    check_bos(tokenizer, first.token_ids, where)


def check_bos(tokenizer: PromptTokenizer, token_ids: list[int], where: str) -> None:
    """Nothing, or PromptError where the prompt starts with two BOS tokens."""
    bos = tokenizer.hf.bos_token_id
    if bos is not None and token_ids[:2] == [bos, bos]:
        raise PromptError(
            f"model {tokenizer.model}, {where}: the prompt starts with two BOS tokens"
        )


def check_only_date(model: str, prompt: ItemPrompt, date_texts: Sequence[str], where: str) -> None:
    """Nothing, or PromptError where a swept date also stands elsewhere in the prompt.

    That is in the question, or written by the template.
    """
    rest = f"{prompt.before}\n{prompt.after}"
    if again := [text for text in date_texts if text in rest]:
        raise PromptError(
            f"model {model}, {where}: the date {again[0]!r} also stands elsewhere in the prompt; "
            "leave that date out of the calendar, or the item or the template's own date out of "
            "the prompt"
        )


def own_dates(
    builder: PromptBuilder, task: Task, item: Item, variant: Variant, shots: Sequence[Item] = ()
) -> list[str]:
    """Dates that the template writes by itself around the turns of such a prompt.

    A constant (Llama 3.1's own), or the clock (gpt-oss').

    Raises:
        PromptError: there is one beside the swept one, and the model file does not say that it is
            to be kept.
    """
    probe = variant if variant.date is None else at(variant, PROBES[0])
    prompt = builder.prompt(task, item, variant, shots)
    turns = marked(messages(prompt, probe, builder.template))
    with builder.naming(task, item):
        text, later = (builder.render(turns, probe, clock) for clock in (None, _OTHER_CLOCK))
        swept = {write(PROBES[0]) for write in DATE_FORMATS.values()}
        own = sorted({date[0] for date in _DATE_LIKE.finditer(text)} - swept)
        if text != later and not own:
            own = [f"the clock's time ({builder.template.clock})"]
        if own and builder.template.own_date == "refuse":
            beside = "beside the swept one" if variant.date else "in a prompt that is to have none"
            raise PromptError(
                f"the chat template writes a date of its own, {', '.join(own)}, {beside}. Give a "
                "template without it as `paper` under [template] in the model file, or sweep its "
                'own date with `placements = ["template"]`, or keep it with `own_date = "keep"`'
            )
    return own
