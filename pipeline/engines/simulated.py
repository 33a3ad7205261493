"""An engine that computes nothing: it plants a date effect, or none, for tests, dry runs and power
analysis. Its runs say so.
"""

import datetime
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pipeline import tasks
from pipeline.core.records import Item, Output, Request
from pipeline.settings import SimulatedSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretended:
    """What a simulated engine must know of a request, since it cannot read."""

    task: tasks.Task
    item: Item
    """The item as it is shown, its options in the order of the request."""
    date: datetime.date | None


class SimulatedEngine:
    """Answers rightly or wrongly by hashes and a planted date effect; no model is involved."""

    def __init__(self, spec: SimulatedSpec, asked: Callable[[int], Pretended]) -> None:
        """`asked` tells which item and date a position of the plan stands for."""
        self.spec, self.asked = spec, asked

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """Outputs in an order other than that of the requests, so that whoever relies on order is
        found out.
        """
        window: list[Request] = []
        for request in requests:
            window.append(request)
            if len(window) == 16:
                yield from map(self._output, reversed(window))
                window.clear()
        yield from map(self._output, reversed(window))

    def facts(self) -> dict[str, Any]:
        """What is pretended."""
        return {
            "backend": "simulated",
            "settings": self.spec.model_dump(mode="json"),
            "versions": {},
            "hardware": {},
        }

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
        asked = self.asked(request.position)
        task, right = asked.task, self.is_right(asked.item, asked.date)
        text = task.gold_output(asked.item) if right else "I do not know."
        return Output(
            position=request.position,
            text="" if request.label_token_ids else text,
            label_logprobs=self._logprobs(task, asked, right) if request.label_token_ids else [],
            finish_reason="stop",
            num_prompt_tokens=len(request.token_ids),
            num_cached_tokens=0,
            num_output_tokens=1,
        )

    def _logprobs(self, task: tasks.Task, asked: Pretended, right: bool) -> list[float]:
        labels = task.labels(asked.item)
        gold = [label.strip() for label in labels].index(asked.item.target)
        chosen = gold if right else (gold + 1) % len(labels)
        return [
            math.log(0.6 if i == chosen else 0.3 / (len(labels) - 1)) for i in range(len(labels))
        ]


class CountingEngine:
    """Gives every request one of a few fixed outputs, to measure everything around an engine and
    nothing else.
    """

    def __init__(self) -> None:
        """Make the outputs: log-probabilities of labels that differ a little, so that outputs of an
        item differ between dates.
        """
        self.logprobs = [[-0.5 - i / 64, -1.5, -2.5, -3.0 + i / 64] for i in range(64)]

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """An output for each request, at once."""
        for request in requests:
            chosen = self.logprobs[request.position * 31 % 64]
            yield Output(
                position=request.position,
                text="",
                label_logprobs=chosen[: len(request.label_token_ids)],
                finish_reason="length",
                num_prompt_tokens=len(request.token_ids),
                num_cached_tokens=0,
                num_output_tokens=1,
            )

    def facts(self) -> dict[str, Any]:
        """That nothing is computed."""
        return {"backend": "counting", "settings": {}, "versions": {}, "hardware": {}}


def _unit(name: str) -> float:
    """A number in [0, 1) that depends only on `name`."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
