"""What the simulated engine promises: outcomes by hash, a planted effect or none, no more."""

import datetime

import numpy as np
import pytest

from pipeline import tasks
from pipeline.core.records import Item, Request, Sampling
from pipeline.engines.simulated import Pretended, SimulatedEngine
from pipeline.settings.schema import SimulatedSpec

ONE = Sampling(max_tokens=1, temperature=0.0, top_p=1.0, top_k=0, seed=None)


def request(position: int) -> Request:
    return Request(
        position=position, token_ids=[1, 2, 3], sampling=ONE, label_token_ids=(330, 389, 340, 422)
    )


ITEMS = [
    Item(
        task="mmlu",
        item_id=f"i{n}",
        group="",
        fields={"question": "q"},
        options=list("wxyz"),
        target="C",
        references=[],
    )
    for n in range(400)
]
YEAR = [datetime.date(2024, 1, 1) + datetime.timedelta(days=7 * i) for i in range(52)]


def accuracy(spec: SimulatedSpec, day: datetime.date | None) -> float:
    simulated = SimulatedEngine(
        spec, lambda position: Pretended(task=tasks.get("mmlu"), item=ITEMS[position], date=day)
    )
    return sum(simulated.is_right(item, day) for item in ITEMS) / len(ITEMS)


def test_the_simulated_engine_answers_as_often_rightly_as_it_is_told() -> None:
    assert accuracy(SimulatedSpec(accuracy=0.7), None) == pytest.approx(0.7, abs=0.07)


def test_a_planted_effect_follows_the_year_and_none_leaves_it_flat() -> None:
    spec = SimulatedSpec(accuracy=0.5, amplitude=0.2, flip=1.0)
    season = np.cos(2 * np.pi * np.array([d.timetuple().tm_yday for d in YEAR]) / 365)
    assert np.corrcoef(season, [accuracy(spec, d) for d in YEAR])[0, 1] > 0.9
    flat = [accuracy(SimulatedSpec(accuracy=0.5, amplitude=0.0, flip=1.0), d) for d in YEAR]
    assert abs(np.corrcoef(season, flat)[0, 1]) < 0.4


def test_simulated_outputs_repeat_and_choose_the_right_label_when_right() -> None:
    spec = SimulatedSpec(accuracy=0.5)
    simulated = SimulatedEngine(
        spec, lambda position: Pretended(task=tasks.get("mmlu"), item=ITEMS[position], date=YEAR[0])
    )
    first = {
        o.position: o.label_logprobs
        for o in simulated.generate(iter([request(i) for i in range(50)]))
    }
    second = {
        o.position: o.label_logprobs
        for o in simulated.generate(iter([request(i) for i in reversed(range(50))]))
    }
    assert first == second
    for position, logprobs in first.items():
        assert (int(np.argmax(logprobs)) == 2) == simulated.is_right(ITEMS[position], YEAR[0])
        assert np.exp(logprobs).sum() < 1
