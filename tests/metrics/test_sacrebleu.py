"""BLEU and chrF against sacrebleu's own corpus scores, to the last digit."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sacrebleu
from hypothesis import given, settings, strategies as st

from pipeline import metrics, tasks
from pipeline.core.errors import DataError
from pipeline.data import read_rows
from pipeline.metrics import _sacrebleu
from tests.metrics.test_contract import answer_frame, item, score

NAMES = ["bleu", "chrf"]
SACREBLEU = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF}
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    ",",
    "and",
    ".",
    "it's",
    "3.5",
    "%",
    "Über",
    "naïve",
    "1,000",
    "日本",
    "a\u00a0b",
    "&amp;",
    "",
]
SENTENCE = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
REFERENCES = st.lists(SENTENCE.filter(bool), min_size=3, max_size=3)
ROWS = st.lists(st.tuples(SENTENCE, REFERENCES), min_size=1, max_size=6)
Rows = list[tuple[str, list[str]]]


def segments(name: str, rows: Rows) -> pl.DataFrame:
    return metrics.get(name).segments(
        answer_frame(
            [(item(references=references), hypothesis, []) for hypothesis, references in rows]
        )
    )


def theirs(name: str, rows: Rows) -> tuple[float, str]:
    """sacrebleu's corpus score and signature.

    Segments with fewer references than others leave None in the further streams.
    """
    scorer, most = SACREBLEU[name](), max(len(references) for _, references in rows)
    streams = [
        [references[k] if k < len(references) else None for _, references in rows]
        for k in range(most)
    ]
    found = scorer.corpus_score([hypothesis for hypothesis, _ in rows], streams).score
    return found, str(scorer.get_signature())


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(rows=ROWS, counts=st.lists(st.integers(1, 3), min_size=6, max_size=6))
def test_corpus_scores_equal_sacrebleu_to_the_last_digit(
    name: str, rows: Rows, counts: list[int]
) -> None:
    """With one to three references, as many for each segment or not; signatures too."""
    cut = [
        (hypothesis, references[:n])
        for (hypothesis, references), n in zip(rows, counts, strict=False)
    ]
    frame = answer_frame(
        [(item(references=references), hypothesis, []) for hypothesis, references in cut]
    )
    assert (
        score(name, metrics.get(name).segments(frame)),
        metrics.get(name).signature_for(frame),
    ) == theirs(name, cut)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_references", [1, 2, 3])
def test_the_best_of_several_references_counts(name: str, num_references: int) -> None:
    references = [
        "A cat sat on the mat .",
        "There was a cat on the rug today .",
        "The mat had a cat on it , they say .",
    ]
    rows = [
        (references[2], references[:num_references]),
        (references[0], references[:num_references]),
    ]
    found = score(name, segments(name, rows))
    assert (
        found,
        metrics.get(name).signature_for(
            answer_frame([(item(references=r), h, []) for h, r in rows])
        ),
    ) == theirs(name, rows)
    assert (found == pytest.approx(100)) == (num_references == 3)


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_dates_that_share_outputs_equal_those_of_each_date(name: str) -> None:
    """Statistics once for each distinct output, joined back and summed by date."""
    rng, num_items, num_dates = np.random.default_rng(3), 20, 30
    references = [[" ".join(rng.choice(WORDS[:14], rng.integers(3, 15)))] for _ in range(num_items)]
    outputs = [
        [" ".join(rng.choice(WORDS[:14], rng.integers(1, 15))) for _ in range(4)]
        for _ in range(num_items)
    ]
    chosen = rng.integers(0, 4, (num_dates, num_items))
    distinct = [(outputs[i][k], references[i]) for i in range(num_items) for k in range(4)]
    stats = np.array(segments(name, distinct)["stats"].to_list()).reshape(num_items, 4, -1)
    sums = stats[np.arange(num_items), chosen].sum(axis=1)
    found = metrics.get(name).combine(sums, np.full(num_dates, num_items)).tolist()
    assert found == [
        theirs(name, [(outputs[i][k], references[i]) for i, k in enumerate(row)])[0]
        for row in chosen
    ]
    assert len(set(found)) > 20


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_hypothesis_counts_with_the_length_of_its_reference(name: str) -> None:
    references = [["The cat sat on the mat today ."], ["It is raining cats and dogs again ."]]
    full = segments(name, [(r[0], r) for r in references])
    half = segments(name, [(references[0][0], references[0]), ("", references[1])])
    assert half["status"].to_list() == ["scored", "no_answer"]
    assert score(name, full) == pytest.approx(100)
    assert 0 < score(name, half) < 90


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("bleu", "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"),
        ("chrf", "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no"),
    ],
)
def test_signatures_name_every_setting(name: str, signature: str) -> None:
    assert metrics.get(name).signature() == f"{signature}|version:{sacrebleu.__version__}"


@pytest.mark.parametrize("name", NAMES)
def test_resampled_sums_get_the_score_sacrebleu_gives_them(name: str) -> None:
    metric, rng = metrics.get(name), np.random.default_rng(7)
    totals = np.sort(rng.integers(0, 60, (4000, len(metric.stat_names))), axis=1)[:, ::-1].astype(
        np.float64
    )
    if name == "bleu":
        # lengths first; no more n-grams match than there are, and fewer of higher orders
        totals[:, 2:6] = np.floor(totals[:, 6:] * rng.choice([0.0, 0.3, 0.7, 1.0], (4000, 4)))
        totals[:, 0] = totals[:, 6]
    else:
        totals[:, 2::3] = np.floor(
            np.minimum(totals[:, 0::3], totals[:, 1::3]) * rng.choice([0.0, 0.4, 1.0], (4000, 6))
        )
        totals[:500, rng.integers(0, 18)] = 0
    expected = [
        SACREBLEU[name]()._compute_score_from_stats([int(s) for s in row]).score for row in totals
    ]
    assert metric.combine(totals, np.ones(4000)).tolist() == expected


@pytest.mark.parametrize("name", NAMES)
def test_translation_items_need_a_reference(name: str) -> None:
    with pytest.raises(DataError, match="t item t-0 has no reference"):
        segments(name, [("word", ["a reference"]), ("word", [])])


@pytest.mark.parametrize("name", NAMES)
def test_references_are_prepared_once_for_outputs_of_one_item(name: str) -> None:
    _sacrebleu.prepared.cache_clear()
    segments(name, [(f"output {n}", [f"reference {i}"]) for i in range(100) for n in range(5)])
    assert _sacrebleu.prepared.cache_info().misses == 100


SYSTEMS = [
    ("helsinki-basic-constrained", 12.74, 47.53),
    ("helsinki-basic-unconstrained", 16.25, 50.48),
    ("helsinki-factored-unconstrained", 15.73, 50.27),
]
needs_data = pytest.mark.skipif(
    "DATESWEEP_DATA" not in os.environ, reason="DATESWEEP_DATA is not set"
)


@needs_data
@pytest.mark.parametrize(("system", "bleu", "chrf"), SYSTEMS)
def test_published_translations_get_their_published_scores(
    system: str, bleu: float, chrf: float
) -> None:
    data = Path(os.environ["DATESWEEP_DATA"])
    outputs = (
        (data.parent / f"outputs/wmt16_en-fi/newstest2016.en-fi.{system}.fi")
        .read_text()
        .split("\n")[:3000]
    )
    references = (
        pl.read_parquet(data / "wmt/wmt16/fi-en/test.parquet")["translation"]
        .struct.field("fi")[:3000]
        .to_list()
    )
    rows = [(o, [r]) for r, o in zip(references, outputs, strict=True)]
    for name, published in (("bleu", bleu), ("chrf", chrf)):
        found = score(name, segments(name, rows))
        assert round(found, 2) == published
        assert found == theirs(name, rows)[0]


@needs_data
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", ["wmt16_en_de", "wmt16_en_cs", "wmt16_en_fi"])
def test_every_language_scores_as_sacrebleu_does(task: str, name: str) -> None:
    """References of real items, with a word lost, doubled or moved in each."""
    items = list(tasks.get(task).items(read_rows(tasks.get(task).source, None)))[::10]
    rng = np.random.default_rng(1)
    rows = []
    for one in items:
        words = one.target.split()
        here = int(rng.integers(len(words)))
        edited = [
            words[:here] + words[here + 1 :],
            words[:here] + words[here : here + 1] * 2 + words[here + 1 :],
            words[::-1],
        ]
        rows.append((" ".join(edited[int(rng.integers(3))]), one.references))
    found = score(
        name,
        metrics.get(name).segments(
            answer_frame([(o, h, []) for o, (h, _) in zip(items, rows, strict=True)])
        ),
    )
    assert found == theirs(name, rows)[0]
    assert 10 < found < 100
