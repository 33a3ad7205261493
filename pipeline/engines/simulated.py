"""An engine that plants a date effect, or none, for tests, dry runs and power analysis.

No model is involved, and its runs say so.
"""

import datetime
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pipeline import tasks
from pipeline.core.records import Item, Output, Request
from pipeline.settings import SimulatedSpec
from pipeline.store import EngineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretended:
    """What a simulated engine must know of a request, since it cannot read."""

    task: tasks.Task
    item: Item
    """The item as it is shown, its options in the order of the request."""
    date: datetime.date | None


class SimulatedEngine:
    """Answers rightly or wrongly by hashes and a planted date effect."""

    def __init__(self, spec: SimulatedSpec, pretended: Callable[[int], Pretended]) -> None:
        """`pretended` tells which item and date a position of the plan stands for."""
        self.spec, self.pretended = spec, pretended

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """Outputs in another order than their requests: what relies on order is found out."""
        window: list[Request] = []
        for request in requests:
            window.append(request)
            if len(window) == 16:
                yield from map(self._output, reversed(window))
                window.clear()
        yield from map(self._output, reversed(window))

    def facts(self) -> EngineFacts:
        """What is pretended."""
        settings = self.spec.model_dump(mode="json")
        return EngineFacts(backend="simulated", settings=settings, versions={}, hardware={})

    def is_right(self, item: Item, date: datetime.date | None) -> bool:
        """Whether `item` is answered rightly under `date`.

        A share `flip` of the items is drawn anew for each date, with a probability that swings
        around `accuracy` over the year so that the expected score over all items swings by
        `amplitude`; the others keep one outcome.
        """
        spec, name = self.spec, f"{item.task}:{item.item_id}"
        if date is None or _unit(f"{spec.seed}:flips:{name}") >= spec.flip:
            return _unit(f"{spec.seed}:{name}") < spec.accuracy
        swing = spec.amplitude / spec.flip * math.cos(2 * math.pi * date.timetuple().tm_yday / 365)
        return _unit(f"{spec.seed}:{name}:{date}") < spec.accuracy + swing

    def _output(self, request: Request) -> Output:
        shown = self.pretended(request.position)
        is_right = self.is_right(shown.item, shown.date)
        text, logprobs = "", list[float]()
        if request.label_token_ids:
            logprobs = _logprobs(shown, is_right)
        else:
            text = shown.task.gold_output(shown.item) if is_right else "I do not know."
        return Output(
            position=request.position,
            text=text,
            label_logprobs=logprobs,
            finish_reason="stop",
            num_prompt_tokens=len(request.token_ids),
            num_cached_tokens=0,
            num_output_tokens=1,
        )


def _logprobs(shown: Pretended, is_right: bool) -> list[float]:
    labels = shown.task.labels(shown.item)
    gold = [label.strip() for label in labels].index(shown.item.target)
    chosen = gold if is_right else (gold + 1) % len(labels)
    others = math.log(0.3 / (len(labels) - 1))
    return [math.log(0.6) if i == chosen else others for i in range(len(labels))]


def _unit(name: str) -> float:
    """A number in [0, 1) that depends only on `name`."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
