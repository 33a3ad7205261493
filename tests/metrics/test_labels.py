"""Metrics of label log-probabilities against their definitions, written out for single rows."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from pipeline import metrics, tasks
from pipeline.core import registry
from pipeline.core.errors import ConfigError, DataError
from pipeline.metrics import ece
from pipeline.metrics._labels import LabelMetric
from pipeline.tasks import LETTERS
from tests.metrics.test_contract import answer_frame, item, score

NAMES = [name for name in registry.names("metrics") if isinstance(metrics.get(name), LabelMetric)]


def score_of(name: str, rows: list[tuple[list[float], int]]) -> float:
    """The score of metric `name` for rows of log-probabilities and the index of the right label.

    The first best label is the answer.
    """
    frame = answer_frame(
        [(item(LETTERS[right]), LETTERS[int(np.argmax(p))], p) for p, right in rows]
    )
    return score(name, metrics.get(name).segments(frame))


@st.composite
def label_rows(draw: st.DrawFn) -> list[tuple[list[float], int]]:
    """Log-probabilities of 2 to 5 labels, which leave something to other tokens, and the index of
    the right one; many have ties.
    """
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        logits = draw(
            st.lists(
                st.one_of(st.sampled_from([0.0, 1.0, -math.inf]), st.floats(-12, 12)),
                min_size=2,
                max_size=5,
            )
        )
        logits[draw(st.integers(0, len(logits) - 1))] = draw(st.sampled_from([0.0, 1.0, 2.5]))
        rest = draw(st.sampled_from([-20.0, 0.0, 3.0]))
        total = math.log(sum(math.exp(x) for x in [*logits, rest]))
        rows.append(([x - total for x in logits], draw(st.integers(0, len(logits) - 1))))
    return rows


def brier(p: list[float], right: int) -> float:
    return sum((x / sum(p) - (k == right)) ** 2 for k, x in enumerate(p))


def log_loss(p: list[float], right: int) -> float:
    return -math.log(max(p[right] / sum(p), 2.0**-52))


DEFINITIONS: dict[str, tuple[float, Callable[[list[float], int], float]]] = {
    "confidence": (100, lambda p, right: max(p)),
    "confidence_renormalised": (100, lambda p, right: max(p) / sum(p)),
    "label_mass": (100, lambda p, right: sum(p)),
    "margin": (100, lambda p, right: sorted(p)[-1] - sorted(p)[-2]),
    "ties": (100, lambda p, right: float(p.count(max(p)) > 1)),
    "brier": (100, brier),
    "log_loss": (1, log_loss),
}
"""Scale, and what a row of probabilities contributes to the mean."""


@pytest.mark.parametrize("name", DEFINITIONS)
@settings(deadline=None, max_examples=50)
@given(rows=label_rows())
def test_a_mean_equals_its_definition(name: str, rows: list[tuple[list[float], int]]) -> None:
    scale, definition = DEFINITIONS[name]
    expected = (
        scale
        * math.fsum(definition([math.exp(x) for x in p], right) for p, right in rows)
        / len(rows)
    )
    # Rounding of an exponential may make two unequal logarithms a tie of probabilities; the metric
    # compares what the engine gave.
    if name == "ties":
        expected = 100 * sum(p.count(max(p)) > 1 for p, _ in rows) / len(rows)
    assert score_of(name, rows) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["ece", "ece_renormalised"])
@settings(deadline=None, max_examples=50)
@given(rows=label_rows())
def test_calibration_error_equals_its_definition(
    name: str, rows: list[tuple[list[float], int]]
) -> None:
    labels = [np.exp(p) for p, _ in rows]
    confidence = np.array(
        [p.max() / (p.sum() if name == "ece_renormalised" else 1) for p in labels]
    )
    assume(
        np.min(np.abs(confidence[:, None] * 10 - np.arange(11))) > 1e-9
    )  # where rounding decides; the table of bins is exact
    right = np.array([int(np.argmax(p)) == target for p, target in rows])
    expected = 0.0
    for m in range(1, 11):
        members = (confidence > (m - 1) / 10) & (confidence <= m / 10)
        if members.any():
            expected += (
                members.sum() / len(rows) * abs(right[members].mean() - confidence[members].mean())
            )
    assert score_of(name, rows) == pytest.approx(100 * expected, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "certain_right", "certain_wrong", "even"),
    [
        ("confidence", 100, 100, 25),
        ("confidence_renormalised", 100, 100, 25),
        ("label_mass", 100, 100, 100),
        ("margin", 100, 100, 0),
        ("ties", 0, 0, 100),
        ("brier", 0, 200, 75),
        ("log_loss", 0, 52 * math.log(2), math.log(4)),
        ("ece", 0, 100, 75),
        ("ece_renormalised", 0, 100, 75),
    ],
)
def test_certain_and_even_outputs_get_the_ends_of_the_scale(
    name: str, certain_right: float, certain_wrong: float, even: float
) -> None:
    certain, equal = [0.0, -math.inf, -math.inf, -math.inf], [math.log(0.25)] * 4
    assert score_of(name, [(certain, 0)]) == pytest.approx(certain_right, abs=1e-12)
    assert score_of(name, [(certain, 2)]) == pytest.approx(certain_wrong)
    assert score_of(name, [(equal, 0)]) == pytest.approx(even)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_shown_does_not_change_what_the_options_got(name: str) -> None:
    options, by_option = ["p", "q", "r", "s"], [math.log(p) for p in (0.1, 0.5, 0.2, 0.05)]
    asked = [replace(item("C"), item_id=f"t-{i}", options=options) for i in range(6)]
    orders = [0, 1, 2, 3, 4, 5]
    vectors = [
        [by_option[o] for o in tasks.option_permutation(i, order)]
        for i, order in zip(asked, orders, strict=True)
    ]
    found = metrics.get(name).segments(
        answer_frame([(i, "B", v) for i, v in zip(asked, vectors, strict=True)], orders)
    )
    published = metrics.get(name).segments(answer_frame([(i, "B", by_option) for i in asked]))
    assert np.array(found["stats"].to_list()) == pytest.approx(
        np.array(published["stats"].to_list())
    )
    assert len({tuple(v) for v in vectors}) > 1


def test_a_frame_without_orders_was_shown_as_published() -> None:
    frame = answer_frame([(item("B"), "A", [math.log(0.6), math.log(0.3)])])
    assert (
        metrics.get("brier")
        .segments(frame.drop("option_order"))
        .equals(metrics.get("brier").segments(frame))
    )


@pytest.mark.parametrize(
    ("probability", "bin_index"),
    [(1e-9, 0), (0.1, 0), (0.1 + 1e-12, 1), (0.3, 2), (0.6, 5), (0.7, 6), (0.95, 9), (1.0, 9)],
)
def test_bins_are_closed_on_the_right_and_one_lies_in_the_last(
    probability: float, bin_index: int
) -> None:
    stats = ece.binned(np.array([probability]), np.array([1.0])).reshape(3, 10)
    expected = np.zeros((3, 10))
    expected[:, bin_index] = [1.0, probability, 1.0]
    assert (stats == expected).all()


def test_calibration_error_of_a_case_done_by_hand() -> None:
    # (0.8, 0.9]: confidences 0.85 and 0.89, one right: |1 - 1.74| = 0.74. (0.3, 0.4]: 0.35, right:
    # 0.65. Sum 1.39 over 3 items.
    rows = [([math.log(p), -1000.0], right) for p, right in ((0.85, 0), (0.89, 1), (0.35, 0))]
    assert score_of("ece", rows) == pytest.approx(100 * 1.39 / 3)


def test_calibration_error_takes_the_raw_probability_and_its_variant_the_renormalised_one() -> None:
    rows = [([math.log(0.2), math.log(0.1)], 0)]
    assert score_of("ece", rows) == pytest.approx(80)
    assert score_of("ece_renormalised", rows) == pytest.approx(100 / 3)


def test_labels_of_tiny_probability_keep_their_ratios() -> None:
    rows = [([-2000.0, -2000.0 - math.log(3)], 1)]
    assert score_of("confidence", rows) == score_of("label_mass", rows) == 0.0
    assert score_of("confidence_renormalised", rows) == pytest.approx(75)
    assert score_of("brier", rows) == pytest.approx(100 * 2 * 0.75**2)
    assert score_of("log_loss", rows) == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("vector", "is_tie"),
    [
        ([-1.0, -1.0, -2.0], True),
        ([-1.0, -2.0, -2.0], False),
        ([-1.0, -1.0 - 2**-40, -2.0], False),
        ([-0.0, 0.0], True),
        ([-0.5, -math.inf, -math.inf], False),
        ([-0.5], False),
    ],
)
def test_a_tie_is_equality_of_the_best_labels_to_the_bit(vector: list[float], is_tie: bool) -> None:
    assert score_of("ties", [(vector, 0)]) == 100.0 * is_tie


@pytest.mark.parametrize("name", ["confidence", "label_mass", "margin"])
def test_a_probability_above_one_by_rounding_counts_as_one(name: str) -> None:
    assert score_of(name, [([1e-7, -30.0], 0)]) == pytest.approx(100, abs=1e-9)
    assert score_of(name, [([1e-7, -30.0], 0)]) <= 100


def test_rows_with_fewer_labels_are_scored_by_their_own() -> None:
    three, five = [math.log(0.3)] * 3, [math.log(0.1)] * 5
    assert score_of("label_mass", [(three, 0), (five, 4)]) == pytest.approx(70)
    assert score_of("log_loss", [(three, 0), (five, 4)]) == pytest.approx(
        (math.log(3) + math.log(5)) / 2
    )


def test_an_output_without_an_answer_says_so() -> None:
    segments = metrics.get("confidence").segments(
        answer_frame([(item("A"), "", [-1.0, -1.0]), (item("A"), "A", [-1.0, -2.0])])
    )
    assert segments["status"].to_list() == ["no_answer", "scored"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "logprobs",
    [
        [math.nan, -1.0],
        [-1.0, math.nan],
        [-math.inf, -math.inf],
        [None, None],
        [math.inf, -1.0],
        [7.5, 2.0],
    ],
)
def test_what_is_no_log_probability_is_an_error_not_a_score(
    name: str, logprobs: list[float]
) -> None:
    with pytest.raises(DataError, match="t item t-0"):
        metrics.get(name).segments(answer_frame([(item("A"), "A", logprobs)]))


@pytest.mark.parametrize("name", ["brier", "log_loss"])
@pytest.mark.parametrize("target", ["C", "", "18", "AB"])
def test_a_target_that_is_no_label_is_an_error(name: str, target: str) -> None:
    with pytest.raises(DataError, match="none of 2 labels"):
        metrics.get(name).segments(answer_frame([(item(target), "A", [-1.0, -2.0])]))


@pytest.mark.parametrize("name", NAMES)
def test_a_task_that_writes_text_is_a_settings_error(name: str) -> None:
    with pytest.raises(ConfigError, match="kind 'label'"):
        metrics.get(name).segments(answer_frame([(item("18"), "18", [])]))


@pytest.mark.parametrize("name", NAMES)
def test_the_signature_names_the_distribution(name: str) -> None:
    wanted = "renormalised" if "renormalised" in name or name in ("brier", "log_loss") else "raw"
    assert metrics.get(name).signature() == f"{name}|probabilities:{wanted}|version:1"
