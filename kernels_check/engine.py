"""The engine: do completions depend on the batch, the order of work, or the prefix cache?

The same requests, label and text ones together as in a sweep, are answered under several schedules.
One at a time with a cold cache is what the others are compared with.
"""

import datetime
import itertools
import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pipeline import tasks
from pipeline.core.records import Device, Item, Output, Request, Sampling, Variant
from pipeline.engines import VllmEngine, resolve
from pipeline.prompts import PromptBuilder
from pipeline.prompts.variants import variants
from pipeline.settings import CalendarSpec, ConditionsSpec, EngineSpec, ModelSpec

DATES = (datetime.date(2024, 1, 1), datetime.date(2024, 5, 17), datetime.date(2024, 10, 30))
MAX_TOKENS = 16
"""Length of a greedy text: one changed bit sends it another way where two tokens are as likely."""

CHOICES = (
    (
        "Which gas do green plants take up to make sugar?",
        ["Oxygen", "Carbon dioxide", "Nitrogen", "Helium"],
    ),
    (
        "A train covers 180 km in 2 hours. What is its mean speed?",
        ["60 km/h", "90 km/h", "180 km/h", "360 km/h"],
    ),
    ("What does a thermometer measure?", ["Pressure", "Mass", "Temperature", "Humidity"]),
    ("Which of these words is an adverb?", ["slow", "slowness", "slower", "slowly"]),
    ("What is the derivative of x squared with respect to x?", ["2x", "x", "x cubed", "2"]),
    (
        "Which body of water lies between Europe and North America?",
        ["Pacific", "Indian Ocean", "Arctic", "Atlantic"],
    ),
)
"""Questions with their options, for label requests."""
PROBLEMS = (
    "Nora packs 7 boxes with 12 jars each and gives 9 jars away. How many jars does she keep?",
    "A tank holds 240 litres and loses 15 litres a day. After how many days is it half empty?",
)
"""Questions for text requests."""

Kind = Literal["labels", "text"]


class CachingEngine(Protocol):
    """What the check needs of an engine."""

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """As in `pipeline.engines.Engine`."""
        ...

    def reset_prefix_cache(self) -> None:
        """Forget every prefix."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One way to put the same requests to an engine."""

    name: str
    batches: Callable[[Sequence[Request]], list[Sequence[Request]]]
    """The requests in groups; a group is given to the engine when the one before is finished."""
    is_cold: bool
    """Whether the prefix cache is emptied before each group."""


def _one_by_one(requests: Sequence[Request]) -> list[Sequence[Request]]:
    return [[request] for request in requests]


REFERENCE = Schedule(name="one at a time", batches=_one_by_one, is_cold=True)
SCHEDULES = (
    Schedule(name="one at a time, again", batches=_one_by_one, is_cold=True),
    Schedule(name="all together", batches=lambda every: [every], is_cold=True),
    Schedule(name="all together, reversed", batches=lambda every: [every[::-1]], is_cold=True),
    # These two find the cache as the one before has left it.
    Schedule(name="all together, cached", batches=lambda every: [every], is_cold=False),
    Schedule(name="one at a time, cached", batches=_one_by_one, is_cold=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    """All requests of one kind under one schedule, compared with one at a time and cold."""

    schedule: str
    kind: Kind
    """`labels` are compared by the bits of their log-probabilities, `text` by its characters."""
    num_requests: int
    num_differing: int
    num_differing_answers: int
    """Those where the most probable label is another; for text, as many as differ."""
    max_abs_difference: float | None
    """Of a log-probability; 0 for text, None where a difference is no finite number."""
    num_prompt_tokens: int
    num_cached_tokens: int
    """Prompt tokens that came from the prefix cache; none if the schedule did not try it."""

    @property
    def equal(self) -> bool:
        """Whether no request differs."""
        return self.num_differing == 0


def requests(model: ModelSpec, folder: Path) -> list[Request]:
    """Label requests of `CHOICES` and text requests of `PROBLEMS`, rendered as in a sweep."""
    builder = PromptBuilder(model, folder)
    choices = [_item("mmlu", question, options) for question, options in CHOICES]
    problems = [_item("gsm8k", question, []) for question in PROBLEMS]
    dated = variants(CalendarSpec(dates=list(DATES), control=False), ConditionsSpec())
    # Texts on fewer dates: one at a time, they take most of the time.
    pairs = [*itertools.product(choices, dated), *itertools.product(problems, dated[:2])]
    return [_request(builder, *pair, position) for position, pair in enumerate(pairs)]


def _item(task: str, question: str, options: list[str]) -> Item:
    fields = {"question": question}
    return Item(
        task=task,
        item_id=question,
        group="",
        fields=fields,
        options=options,
        target="",
        references=[],
    )


def _request(builder: PromptBuilder, item: Item, variant: Variant, position: int) -> Request:
    task = tasks.get(item.task)
    labels = builder.labels(task, item)
    prompt = builder.item_prompt(task, item, variant).text(variant.date_text)
    num_tokens = 1 if labels else MAX_TOKENS
    return Request(
        position=position,
        token_ids=builder.tokenizer.encode(prompt),
        sampling=Sampling(max_tokens=num_tokens, temperature=0.0, top_p=1.0, top_k=0, seed=None),
        label_token_ids=builder.tokenizer.label_token_ids(prompt, labels),
    )


def start(
    model: ModelSpec, folder: Path, requests: Sequence[Request], device: Device
) -> VllmEngine:
    """VLLM for `model`, long enough for `requests`, with the settings that a sweep has by default.

    Raises:
        EngineError: it cannot start.
    """
    length = max(len(request.token_ids) + request.sampling.max_tokens for request in requests)
    threads = os.cpu_count() or 1
    spec = EngineSpec()
    return VllmEngine(
        resolve(spec, model, folder, device=device, threads=threads, max_model_len=length)
    )


def check(engine: CachingEngine, requests: Sequence[Request]) -> Iterator[EngineRow]:
    """Rows for every schedule and kind of request."""
    alone = _outputs(engine, requests, REFERENCE)
    for schedule in SCHEDULES:
        outputs = _outputs(engine, requests, schedule)
        pairs = [(r, alone[r.position], outputs[r.position]) for r in requests]
        labels = [(a, b) for request, a, b in pairs if request.label_token_ids]
        texts = [(a, b) for request, a, b in pairs if not request.label_token_ids]
        yield _compare(schedule, "labels", labels)
        yield _compare(schedule, "text", texts)


def _outputs(
    engine: CachingEngine, requests: Sequence[Request], schedule: Schedule
) -> dict[int, Output]:
    """Outputs by position."""
    outputs = {}
    for batch in schedule.batches(requests):
        if schedule.is_cold:
            engine.reset_prefix_cache()
        outputs.update({output.position: output for output in engine.generate(iter(batch))})
    return outputs


def _compare(schedule: Schedule, kind: Kind, pairs: list[tuple[Output, Output]]) -> EngineRow:
    differing = [
        (a, b)
        for a, b in pairs
        if a.text != b.text or _bits(a.label_logprobs) != _bits(b.label_logprobs)
    ]
    return EngineRow(
        schedule=schedule.name,
        kind=kind,
        num_requests=len(pairs),
        num_differing=len(differing),
        num_differing_answers=sum(_answer_of(a) != _answer_of(b) for a, b in differing),
        max_abs_difference=_max_abs_difference(differing),
        num_prompt_tokens=sum(b.num_prompt_tokens for _, b in pairs),
        num_cached_tokens=sum(b.num_cached_tokens for _, b in pairs),
    )


def _bits(values: Sequence[float]) -> bytes:
    # Not `==`, to which NaN differs from itself and -0.0 does not differ from 0.0.
    return struct.pack(f"<{len(values)}d", *values)


def _answer_of(output: Output) -> str | int:
    logprobs = output.label_logprobs
    return logprobs.index(max(logprobs)) if logprobs else output.text


def _max_abs_difference(pairs: list[tuple[Output, Output]]) -> float | None:
    values = [v for a, b in pairs for v in zip(a.label_logprobs, b.label_logprobs, strict=True)]
    differences = [abs(x - y) for x, y in values if x != y]
    return max(differences, default=0.0) if all(map(math.isfinite, differences)) else None
