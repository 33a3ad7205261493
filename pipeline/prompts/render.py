"""Prompts as token ids: a model's own chat template, a pinned clock, one BOS, and proof that the
date is there and nothing else moves.

An item under one condition is rendered once into what stands before and after its date; every date
variant is those two segments around a date text. Only this module renders or tokenises. Splice
tokenisation (each segment's ids once) can be added behind `ItemPrompt`.
"""

import contextlib
import dataclasses
import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline import tasks
from pipeline.core.dates import DATE_FORMATS
from pipeline.core.errors import PromptError
from pipeline.core.records import Item, Variant
from pipeline.prompts.skeleton import Skeleton, find, is_opaque, marked, shape
from pipeline.prompts.variants import Message, date_sentence, messages
from pipeline.settings import ModelSpec
from pipeline.tasks import Prompt, Task

_PROBES = (datetime.date(1987, 10, 26), datetime.date(2053, 4, 19))
"""Two dates of equal width and no digit group in common, to find out where and how often a template
shows the date."""

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATE_LIKE = re.compile(
    rf"\d{{4}}[-./]\d\d?[-./]\d\d?|\d\d?[-./]\d\d?[-./]\d{{4}}|\d\d?\.? {_MONTH},? \d{{4}}|{_MONTH} \d\d?,? \d{{4}}"
)
_OTHER_CLOCK = datetime.date(1999, 11, 30)
"""Under this clock and that of the model file a template that does not read the clock renders the
same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPrompt:
    """One item as one model sees it under one condition, in segments around the date.

    A control is all `before`.
    """

    before: str
    after: str

    def text(self, date_text: str) -> str:
        """The whole prompt with `date_text`, which is empty for a control."""
        return f"{self.before}{date_text}{self.after}"


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

    transformers offers no parameter for this: a `strftime_now` passed to `apply_chat_template` is
    turned into text before the template runs.
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

    def __init__(self, model: ModelSpec, folder: Path) -> None:
        """Load the tokenizer of `model`, which is in `folder`."""
        from transformers import AutoTokenizer

        self.model, self.template = model.name, model.template
        self.has_bare_labels = model.label_form == "bare"
        self._skeletons: dict[tuple[object, ...], Skeleton | None] = {}
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        if not self.tokenizer.is_fast:
            raise PromptError(
                f"model {self.model}: its tokenizer has no fast version, which the date "
                "span's offsets need; add a tokenizer.json"
            )
        if not self.tokenizer.chat_template:
            raise PromptError(
                f"model {self.model}: no chat template in {folder}; choose an instruct "
                "model or add a chat_template.jinja"
            )

    def render(
        self, turns: list[Message], variant: Variant, clock: datetime.date | None = None
    ) -> str:
        """The text that the model's chat template makes of `turns`.

        A last assistant turn is left open for the model to go on.

        In `native` mode (placement `template`) the template's own slot gets the date of `variant`.
        Else a template that asks for the time gets `clock`, by default the constant of the model
        file; and one that the model file gives for `paper` mode takes the place of the
        checkpoint's.
        """
        is_native, prefilled = variant.placement == "template", turns[-1]["role"] == "assistant"
        slot = self.template.date_slot if is_native else None
        with pinned_clock(
            variant.date if slot == "clock" and variant.date else clock or self.template.clock
        ):
            return str(
                self.tokenizer.apply_chat_template(
                    turns,
                    chat_template=None if is_native else self.template.paper,
                    tokenize=False,
                    add_generation_prompt=not prefilled,
                    continue_final_message=prefilled,
                    **{
                        **self.template.kwargs,
                        **({slot: variant.date_text} if slot and slot != "clock" else {}),
                    },
                )
            )

    def own_dates(
        self, task: Task, item: Item, variant: Variant, shots: Sequence[Item] = ()
    ) -> list[str]:
        """Dates that the template writes by itself around the turns of such a prompt: a constant
        (Llama 3.1's own), the clock (gpt-oss').

        Raises:
            PromptError: there is one beside the swept one, and the model file does not say that it
                is to be kept.
        """
        where = f"model {self.model}, task {task.name}, item {item.item_id}"
        probe = variant if variant.date is None else self._at(variant, _PROBES[0])
        prompt = self._formed(task, task.prompt(tasks.reordered(item, variant.option_order), shots))
        turns = marked(messages(prompt, probe, self.template))
        text, later = (self._rendered(turns, probe, where, clock) for clock in (None, _OTHER_CLOCK))
        swept = {write(_PROBES[0]) for write in DATE_FORMATS.values()}
        found = sorted({date[0] for date in _DATE_LIKE.finditer(text)} - swept)
        if text != later and not found:
            found = [f"the clock's time ({self.template.clock})"]
        if found and self.template.own_date == "refuse":
            beside = "beside the swept one" if variant.date else "in a prompt that is to have none"
            raise PromptError(
                f"{where}: the chat template writes a date of its own, {', '.join(found)}, "
                f"{beside}. Give a template without it as `paper` "
                "under [template] in the model file, or sweep its own date with "
                '`placements = ["template"]`, or keep it with '
                '`own_date = "keep"`'
            )
        return found

    def encode(self, text: str) -> list[int]:
        """Token ids of rendered text. The template has written the BOS, so none is added."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def item_prompt(
        self,
        task: Task,
        item: Item,
        variant: Variant,
        shots: Sequence[Item] = (),
        *,
        render: Literal["in_full", "by_skeleton"] = "in_full",
    ) -> ItemPrompt:
        """The segments of `item` under the condition of `variant`, whose date does not matter,
        behind the worked examples `shots`.

        `by_skeleton` fills what the template wrote around the turns of another item, which takes a
        tenth of the time; it is for templates that were proved to treat the task's texts as opaque.

        Raises:
            PromptError: the template fails, or drops, repeats or moves the date, or changes a text;
                names model, task and item.
        """
        where = f"model {self.model}, task {task.name}, item {item.item_id}"
        prompt = self._formed(task, task.prompt(tasks.reordered(item, variant.option_order), shots))
        if variant.date is None:
            return ItemPrompt(before=self._whole(prompt, variant, where, render), after="")
        probe, other = (self._at(variant, day) for day in _PROBES)
        before, after = self._split(self._whole(prompt, probe, where, render), probe, where)
        # A skeleton was proved to change nothing but the date.
        if (
            render == "in_full"
            and self._whole(prompt, other, where, render) != f"{before}{other.date_text}{after}"
        ):
            raise PromptError(
                f"{where}: the chat template changes more than the date when the date changes"
            )
        question_side = before if variant.placement == "user_end" else after
        if prompt.user.strip() not in question_side:
            raise PromptError(
                f"{where}: the chat template moves the date across the question, or "
                "changes the question"
            )
        return ItemPrompt(before=before, after=after)

    def text(self, task: Task, item: Item, variant: Variant, shots: Sequence[Item] = ()) -> str:
        """The whole prompt of `item` under `variant`, rendered in one go and not checked."""
        prompt = self._formed(task, task.prompt(tasks.reordered(item, variant.option_order), shots))
        return self.render(messages(prompt, variant, self.template), variant)

    def labels(self, task: Task, item: Item) -> list[str]:
        """The label texts of `item` in the form that the model file asks for."""
        return [label.strip() if self.has_bare_labels else label for label in task.labels(item)]

    def _formed(self, task: Task, prompt: Prompt) -> Prompt:
        """`prompt` without `Answer:` where the labels are to be bare letters at the start of the
        assistant's turn.
        """
        if task.kind != "label" or not self.has_bare_labels:
            return prompt
        shots = tuple(
            (user, answer.removeprefix(prompt.prefill).strip()) for user, answer in prompt.shots
        )
        return dataclasses.replace(prompt, prefill="", shots=shots)

    def _at(self, variant: Variant, day: datetime.date) -> Variant:
        return dataclasses.replace(
            variant, date=day, date_text=DATE_FORMATS[variant.date_format](day)
        )

    def _whole(self, prompt: Prompt, variant: Variant, where: str, render: str) -> str:
        """The rendered prompt, in which every turn's text must stand as it was given."""
        turns = messages(prompt, variant, self.template)
        text = (
            self._filled(turns, variant, where)
            if render == "by_skeleton"
            else self._rendered(turns, variant, where)
        )
        if lost := next((turn for turn in turns if turn["content"].strip() not in text), None):
            what = (
                "the date"
                if variant.date_text and variant.date_text in lost["content"]
                else "a text"
            )
            raise PromptError(
                f"{where}: the chat template drops or changes {what} of role "
                f"{lost['role']}: {lost['content'][:60]!r}"
            )
        return text

    def _rendered(
        self, turns: list[Message], variant: Variant, where: str, clock: datetime.date | None = None
    ) -> str:
        if variant.placement == "template" and self.template.date_slot is None:
            raise PromptError(
                f"{where}: placement `template` needs a template with a date of its own, "
                "and the model file names none; "
                "say where it is with `date_slot` under [template], or sweep another "
                "placement for this model"
            )
        try:
            return self.render(turns, variant, clock)
        except Exception as error:
            raise PromptError(
                f"{where}: the chat template fails: {type(error).__name__}: {error}"
            ) from error

    def _filled(self, turns: list[Message], variant: Variant, where: str) -> str:
        """The same as `_rendered`, by a skeleton where there is one for the shape of `turns`."""
        if not is_opaque(turns):
            return self._rendered(turns, variant, where)
        slot = (variant.date, variant.date_text) if variant.placement == "template" else ()
        key = (variant.placement == "template", slot, shape(turns))
        if key not in self._skeletons:
            self._skeletons[key] = find(
                turns, lambda marked: self._rendered(marked, variant, where)
            )
        skeleton = self._skeletons[key]
        return skeleton.fill(turns) if skeleton else self._rendered(turns, variant, where)

    def _split(self, text: str, variant: Variant, where: str) -> tuple[str, str]:
        """What stands before and after the date of `variant` in `text`."""
        date, in_slot = variant.date_text, variant.placement == "template"
        expected = date if in_slot else date_sentence(date)
        if (count := text.count(date)) != 1 or expected not in text:
            did = f"shows the date {count} times" if count else "does not show the date"
            hint = (
                f" written as {variant.date_format} ({date}); sweep the format that the "
                "template writes"
                if in_slot and not count
                else ""
            )
            raise PromptError(
                f"{where}: the chat template {did}{hint}; a prompt must hold {expected!r} "
                "exactly once"
            )
        before, after = text.split(date)
        return before, after

    def span(self, prompt: ItemPrompt, date_text: str) -> TokenSpan:
        """Token ids of `prompt` under `date_text` and the span of the date among them."""
        encoded = self.tokenizer(
            prompt.text(date_text), add_special_tokens=False, return_offsets_mapping=True
        )
        begin, end = len(prompt.before), len(prompt.before) + len(date_text)
        inside = (
            [i for i, (a, b) in enumerate(encoded["offset_mapping"]) if a < end and b > begin]
            if date_text
            else []
        )
        start, stop = (inside[0], inside[-1] + 1) if inside else (0, 0)
        return TokenSpan(token_ids=list(encoded["input_ids"]), start=start, stop=stop)

    def label_token_ids(
        self, prompt: ItemPrompt, date_text: str, labels: list[str]
    ) -> tuple[int, ...]:
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
                    f"model {self.model}: label {label!r} is not one token of its own "
                    f"after {text[-20:]!r} (it ends in {ending})"
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


def check_treatment(
    builder: PromptBuilder, prompt: ItemPrompt, date_texts: list[str], where: str
) -> tuple[int, int]:
    """Tokens of `prompt` outside the date, and the most that one of `date_texts` has, having
    checked the token ids.

    Raises:
        PromptError: ids of two dates differ outside the date span, or a prompt starts with two BOS;
            names `where` and the date.
    """
    spans = [builder.span(prompt, text) for text in date_texts]
    head, tail = spans[0].token_ids[: spans[0].start], spans[0].token_ids[spans[0].stop :]
    for text, span in zip(date_texts, spans, strict=True):
        if (
            span.start == span.stop
            or span.token_ids[: span.start] != head
            or span.token_ids[span.stop :] != tail
        ):
            raise PromptError(
                f"model {builder.model}, {where}: with date {text!r} token ids differ "
                "outside the date span"
            )
    builder.check_bos(spans[0].token_ids, where)
    return len(head) + len(tail), max(span.stop - span.start for span in spans)


def check_only_date(
    builder: PromptBuilder, prompt: ItemPrompt, date_texts: list[str], where: str
) -> None:
    """Nothing, or PromptError where a swept date also stands elsewhere in the prompt: in the
    question, or written by the template.
    """
    rest = f"{prompt.before}\n{prompt.after}"
    if again := [text for text in date_texts if text in rest]:
        raise PromptError(
            f"model {builder.model}, {where}: the date {again[0]!r} also stands elsewhere "
            "in the prompt; leave that date out of the "
            "calendar, or the item or the template's own date out of the prompt"
        )
