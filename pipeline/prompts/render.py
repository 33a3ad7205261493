"""Prompts as text: an item under a condition in a model's own chat template, under a pinned clock.

An item under one condition is rendered once into what stands before and after its date; every date
variant is those two segments around a date text. Only this module renders; `tokens.py` tokenises.
"""

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import tasks
from pipeline.core.dates import DATE_FORMATS
from pipeline.core.errors import PromptError
from pipeline.core.records import Item, Variant
from pipeline.prompts.skeleton import Skeleton, find, is_opaque, shape
from pipeline.prompts.tokens import PromptTokenizer
from pipeline.prompts.variants import Message, date_sentence, messages
from pipeline.settings import ModelSpec
from pipeline.tasks import Prompt, Task

PROBES = (datetime.date(1987, 10, 26), datetime.date(2053, 4, 19))
"""Two dates of equal width and no digit group in common, to find out where and how often a template
shows the date."""


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
    """Renders the prompts of one model."""

    def __init__(self, model: ModelSpec, folder: Path) -> None:
        """Load the tokenizer of `model`, which is in `folder`."""
        self.model, self.template = model.name, model.template
        self.has_bare_labels = model.label_form == "bare"
        self.tokenizer = PromptTokenizer(model.name, folder)
        self._skeletons: dict[tuple[object, ...], Skeleton | None] = {}
        if not self.tokenizer.hf.chat_template:
            raise PromptError(
                f"model {self.model}: no chat template in {folder}; choose an instruct model or "
                "add a chat_template.jinja"
            )

    def prompt(self, task: Task, item: Item, variant: Variant, shots: Sequence[Item]) -> Prompt:
        """What `item` asks with its options in the order of `variant`, behind the examples `shots`.

        Without `Answer:` where the labels are to be bare letters at the start of the assistant's
        turn.
        """
        prompt = task.prompt(tasks.reordered(item, variant.option_order), shots)
        if task.kind != "label" or not self.has_bare_labels:
            return prompt
        bare = tuple((u, answer.removeprefix(prompt.prefill).strip()) for u, answer in prompt.shots)
        return dataclasses.replace(prompt, prefill="", shots=bare)

    def labels(self, task: Task, item: Item) -> list[str]:
        """The label texts of `item` in the form that the model file asks for."""
        return [label.strip() if self.has_bare_labels else label for label in task.labels(item)]

    def text(self, task: Task, item: Item, variant: Variant, shots: Sequence[Item] = ()) -> str:
        """The whole prompt of `item` under `variant`, rendered in one go and not checked."""
        prompt = self.prompt(task, item, variant, shots)
        return self.render(messages(prompt, variant, self.template), variant)

    def item_prompt(
        self,
        task: Task,
        item: Item,
        variant: Variant,
        shots: Sequence[Item] = (),
        *,
        in_full: bool = True,
    ) -> ItemPrompt:
        """The segments of `item` under the condition of `variant`, whose date does not matter.

        Not `in_full`, it is filled into what the template wrote around the turns of another item.
        That takes a tenth of the time; it is for templates that were proved to treat the task's
        texts as opaque.

        Raises:
            PromptError: the template fails, or drops, repeats or moves the date, or changes a text;
                names model, task and item.
        """
        prompt = self.prompt(task, item, variant, shots)
        rendered = self.render if in_full else self._filled
        with self.naming(task, item):
            if variant.date is None:
                return ItemPrompt(before=self._whole(prompt, variant, rendered), after="")
            probe, other = (at(variant, day) for day in PROBES)
            before, after = _split(self._whole(prompt, probe, rendered), probe)
            expected = f"{before}{other.date_text}{after}"
            # A skeleton was proved to change nothing but the date.
            if in_full and self._whole(prompt, other, rendered) != expected:
                raise PromptError(
                    "the chat template changes more than the date when the date changes"
                )
            if prompt.user.strip() not in (before if variant.placement == "user_end" else after):
                raise PromptError(
                    "the chat template moves the date across the question, or changes the question"
                )
        return ItemPrompt(before=before, after=after)

    @contextlib.contextmanager
    def naming(self, task: Task, item: Item) -> Iterator[None]:
        """While inside, a PromptError names model, task and item."""
        try:
            yield
        except PromptError as error:
            where = f"model {self.model}, task {task.name}, item {item.item_id}"
            raise PromptError(f"{where}: {error}") from error

    def render(
        self, turns: list[Message], variant: Variant, clock: datetime.date | None = None
    ) -> str:
        """The text that the model's chat template makes of `turns`.

        A last assistant turn is left open for the model to go on.

        In `native` mode (placement `template`) the template's own slot gets the date of `variant`.
        Else a template that asks for the time gets `clock`, by default the constant of the model
        file; and one that the model file gives for `paper` mode takes the place of the
        checkpoint's.

        Raises:
            PromptError: the template fails, or has no slot for a date.
        """
        is_native, is_prefilled = variant.placement == "template", turns[-1]["role"] == "assistant"
        slot = self.template.date_slot if is_native else None
        if is_native and slot is None:
            raise PromptError(
                "placement `template` needs a template with a date of its own, and the model file "
                "names none; say where it is with `date_slot` under [template], or sweep another "
                "placement for this model"
            )
        kwargs = dict(self.template.kwargs)
        if slot and slot != "clock":
            kwargs[slot] = variant.date_text
        now = variant.date if slot == "clock" else None
        with pinned_clock(now or clock or self.template.clock):
            try:
                text = self.tokenizer.hf.apply_chat_template(
                    turns,
                    chat_template=None if is_native else self.template.paper,
                    tokenize=False,
                    add_generation_prompt=not is_prefilled,
                    continue_final_message=is_prefilled,
                    **kwargs,
                )
            except Exception as error:  # a template's code may raise whatever it likes
                raise PromptError(
                    f"the chat template fails: {type(error).__name__}: {error}"
                ) from error
        return str(text)

    def _filled(self, turns: list[Message], variant: Variant) -> str:
        """As `render`, by a skeleton where there is one for the shape of `turns`."""
        if not is_opaque(turns):
            return self.render(turns, variant)
        slot = (variant.date, variant.date_text) if variant.placement == "template" else ()
        key = (variant.placement == "template", slot, shape(turns))
        if key not in self._skeletons:
            self._skeletons[key] = find(turns, lambda marked: self.render(marked, variant))
        skeleton = self._skeletons[key]
        return skeleton.fill(turns) if skeleton else self.render(turns, variant)

    def _whole(
        self, prompt: Prompt, variant: Variant, rendered: Callable[[list[Message], Variant], str]
    ) -> str:
        """The rendered prompt, in which every turn's text must stand as it was given."""
        turns = messages(prompt, variant, self.template)
        text = rendered(turns, variant)
        for turn in turns:
            content = turn["content"]
            if content.strip() not in text:
                is_date = variant.date_text and variant.date_text in content
                raise PromptError(
                    f"the chat template drops or changes {'the date' if is_date else 'a text'} of "
                    f"role {turn['role']}: {content[:60]!r}"
                )
        return text


def at(variant: Variant, day: datetime.date) -> Variant:
    """`variant` on another day."""
    text = DATE_FORMATS[variant.date_format](day)
    return dataclasses.replace(variant, date=day, date_text=text)


def _split(text: str, variant: Variant) -> tuple[str, str]:
    """What stands before and after the date of `variant` in `text`."""
    date, in_slot = variant.date_text, variant.placement == "template"
    expected = date if in_slot else date_sentence(date)
    if (count := text.count(date)) == 1 and expected in text:
        before, after = text.split(date)
        return before, after
    did = f"shows the date {count} times" if count else "does not show the date"
    if in_slot and not count:
        did += (
            f" written as {variant.date_format} ({date}); sweep the format that the template writes"
        )
    raise PromptError(f"the chat template {did}; a prompt must hold {expected!r} exactly once")
