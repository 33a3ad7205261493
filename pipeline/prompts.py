"""Prompts as token ids: a model's own chat template, a pinned clock, one BOS, and proof that the date is there and nothing else moves.

An item is rendered once into what stands before and after its date; every date variant is those two segments around a date text.
Only this module renders or tokenises. Few-shot turns and splice tokenisation (each segment's ids once) can be added behind `ItemPrompt`.
"""

import contextlib
import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.config import TemplateSpec
from pipeline.errors import PromptError
from pipeline.records import Item
from pipeline.tasks import Task
from pipeline.variants import Message, date_sentence, messages

_PROBES = ("1987-10-26", "2053-04-19")
"""Two date texts of equal width and no digit group in common, to find out where and how often a template shows the date."""

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATE_LIKE = re.compile(rf"\d{{4}}-\d\d-\d\d|\d\d?/\d\d?/\d{{4}}|\d\d? {_MONTH} \d{{4}}|{_MONTH} \d\d?, \d{{4}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPrompt:
    """One item as one model sees it, in segments around the date."""

    before: str
    after: str
    control: str
    """The whole prompt without a date."""

    def text(self, date_text: str) -> str:
        """The whole prompt with `date_text`, or the control for an empty one."""
        return f"{self.before}{date_text}{self.after}" if date_text else self.control


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpan:
    """Token ids of a prompt, and which of them hold the date."""

    token_ids: list[int]
    start: int
    """First token that holds a character of the date; equal to `stop` for a control."""
    stop: int
    """One past the last such token."""


@contextlib.contextmanager
def pinned_clock(day: datetime.date) -> Iterator[None]:
    """While inside, chat templates that ask for the time get midnight of `day`.

    transformers offers no parameter for this: a `strftime_now` passed to `apply_chat_template` is turned into text before the template
    runs.
    """
    import transformers.utils.chat_template_utils as target

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Clock":
            return cls(day.year, day.month, day.day, tzinfo=tz)

    real, target.datetime = target.datetime, Clock
    try:
        yield
    finally:
        target.datetime = real


class PromptBuilder:
    """Renders and tokenises for one model."""

    def __init__(self, model: str, folder: Path, template: TemplateSpec) -> None:
        """Load the tokenizer in `folder`; `model` is the name used in errors."""
        from transformers import AutoTokenizer

        self.model, self.template = model, template
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        if not self.tokenizer.is_fast:
            raise PromptError(f"model {model}: its tokenizer has no fast version, which the date span's offsets need; add a tokenizer.json")
        if not self.tokenizer.chat_template:
            raise PromptError(f"model {model}: no chat template in {folder}; choose an instruct model or add a chat_template.jinja")

    def render(self, turns: list[Message], clock: datetime.date | None = None) -> str:
        """The text that the model's chat template makes of `turns`; a last assistant turn is left open for the model to go on.

        A template that asks for the time gets `clock`, by default the constant of the model file.
        """
        prefilled = turns[-1]["role"] == "assistant"
        with pinned_clock(clock or self.template.clock):
            return str(
                self.tokenizer.apply_chat_template(
                    turns,
                    tokenize=False,
                    add_generation_prompt=not prefilled,
                    continue_final_message=prefilled,
                    **self.template.kwargs,
                )
            )

    def own_dates(self) -> list[str]:
        """Dates that the chat template writes by itself, beside the swept one: a constant (Llama 3.1) or the pinned clock (gpt-oss)."""
        text = self.render([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
        return sorted({found[0] for found in _DATE_LIKE.finditer(text)})

    def encode(self, text: str) -> list[int]:
        """Token ids of rendered text. The template has written the BOS, so none is added."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def item_prompt(self, task: Task, item: Item) -> ItemPrompt:
        """The segments of `item`.

        Raises:
            PromptError: the template fails, or drops, repeats or moves the date; names model, task and item.
        """
        prompt, where = task.prompt(item), f"model {self.model}, task {task.name}, item {item.item_id}"
        try:
            first, second = (self.render(messages(prompt, probe, self.template)) for probe in _PROBES)
            control = self.render(messages(prompt, "", self.template))
        except Exception as error:
            raise PromptError(f"{where}: the chat template fails: {type(error).__name__}: {error}") from error
        if (count := first.count(_PROBES[0])) != 1 or date_sentence(_PROBES[0]) not in first:
            did = (
                "drops the system text with the date"
                if count == 0
                else f"shows the date {count} times"
                if count > 1
                else "changes its sentence"
            )
            raise PromptError(f"{where}: the chat template {did}; a prompt must hold {date_sentence('<date>')!r} exactly once")
        before, after = first.split(_PROBES[0])
        if second != f"{before}{_PROBES[1]}{after}":
            raise PromptError(f"{where}: the chat template changes more than the date when the date changes")
        if prompt.user.strip() not in after:
            raise PromptError(f"{where}: the chat template moves the date behind the question, or changes the question")
        return ItemPrompt(before=before, after=after, control=control)

    def span(self, prompt: ItemPrompt, date_text: str) -> TokenSpan:
        """Token ids of `prompt` under `date_text` and the span of the date among them."""
        encoded = self.tokenizer(prompt.text(date_text), add_special_tokens=False, return_offsets_mapping=True)
        begin, end = len(prompt.before), len(prompt.before) + len(date_text)
        inside = [i for i, (a, b) in enumerate(encoded["offset_mapping"]) if a < end and b > begin] if date_text else []
        start, stop = (inside[0], inside[-1] + 1) if inside else (0, 0)
        return TokenSpan(token_ids=list(encoded["input_ids"]), start=start, stop=stop)

    def label_token_ids(self, prompt: ItemPrompt, date_text: str, labels: list[str]) -> tuple[int, ...]:
        """(num_labels,) the one token that each of `labels` becomes directly after the prompt.

        Raises:
            PromptError: a label is not one token there, or merges with the end of the prompt.
        """
        text = prompt.text(date_text)
        context, found = self.encode(text), []
        for label in labels:
            ids = self.encode(text + label)
            if len(ids) != len(context) + 1 or ids[:-1] != context:
                ending = self.tokenizer.convert_ids_to_tokens(ids[len(context) - 1 :])
                raise PromptError(
                    f"model {self.model}: label {label!r} is not one token of its own after {text[-20:]!r} (it ends in {ending})"
                )
            found.append(ids[-1])
        if len(set(found)) != len(found):
            raise PromptError(f"model {self.model}: labels {labels} share a token: {found}")
        return tuple(found)

    def check_bos(self, token_ids: list[int], where: str) -> None:
        """Nothing, or PromptError where the prompt starts with two BOS tokens."""
        bos = self.tokenizer.bos_token_id
        if bos is not None and token_ids[:2] == [bos, bos]:
            raise PromptError(f"model {self.model}, {where}: the prompt starts with two BOS tokens")


def check_treatment(builder: PromptBuilder, prompt: ItemPrompt, date_texts: list[str], where: str) -> tuple[int, int]:
    """Tokens of `prompt` outside the date, and the most that one of `date_texts` has, having checked the token ids.

    Raises:
        PromptError: ids of two dates differ outside the date span, or a prompt starts with two BOS; names `where` and the date.
    """
    spans = [builder.span(prompt, text) for text in date_texts]
    head, tail = spans[0].token_ids[: spans[0].start], spans[0].token_ids[spans[0].stop :]
    for text, span in zip(date_texts, spans, strict=True):
        if span.start == span.stop or span.token_ids[: span.start] != head or span.token_ids[span.stop :] != tail:
            raise PromptError(f"model {builder.model}, {where}: with date {text!r} token ids differ outside the date span")
    builder.check_bos(spans[0].token_ids, where)
    return len(head) + len(tail), max(span.stop - span.start for span in spans)


def check_only_date(builder: PromptBuilder, prompt: ItemPrompt, date_texts: list[str], where: str) -> None:
    """Nothing, or PromptError where a swept date also stands elsewhere in the prompt: in the question, or written by the template."""
    rest = f"{prompt.before}\n{prompt.after}"
    if again := [text for text in date_texts if text in rest]:
        raise PromptError(
            f"model {builder.model}, {where}: the date {again[0]!r} also stands elsewhere in the prompt; leave that date out of the "
            "calendar, or the item or the template's own date out of the prompt"
        )
