"""Rows come from the first of the stated sources that has them."""

import os
import time
from pathlib import Path

import polars as pl
import pytest

from pipeline import data, tasks
from pipeline.core.errors import DataError
from pipeline.tasks import Source
from tests.data.hub import COMMIT, MMLU, QUIZ, ROWS, Hub, mirror, source

needs_data = pytest.mark.skipif(
    "DATESWEEP_DATA" not in os.environ, reason="DATESWEEP_DATA names no mirror of real data"
)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_mirror_gives_the_rows_it_holds(tmp_path: Path, suffix: str) -> None:
    # U+0085 and U+2028 end a line for str.splitlines, but not a row of JSON lines.
    rows = [
        {
            "question": "a\u0085b\u2028c",
            "subject": "s",
            "choices": ["1", "2", "None", "4"],
            "answer": i,
        }
        for i in range(3)
    ]
    assert list(data.read_rows(MMLU, str(mirror(tmp_path, rows, suffix)))) == rows


def test_missing_data_says_where_it_was_looked_for_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"cais/mmlu/all/test\.parquet and \.jsonl; put the file there"
    ):
        list(data.read_rows(MMLU, str(tmp_path)))


def test_places_are_asked_in_the_stated_order(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(data_root: str | None = None) -> tuple[str, str]:
        return next(data.read_rows(QUIZ, data_root))["question"], data.origin_of(QUIZ, data_root)

    assert first() == (ROWS[0]["question"], f"Hub at {COMMIT}")
    pl.DataFrame([{"question": "another row"}]).write_parquet(
        hub.root / QUIZ.dataset / "all" / "test-00000-of-00001.parquet"
    )
    assert first() == (ROWS[0]["question"], f"Hub at {COMMIT}"), (
        "what was fetched comes before the Hub"
    )
    monkeypatch.setenv(
        "DATESWEEP_DATA",
        str(mirror(tmp_path / "a", [{"question": "of the environment"}], "jsonl", QUIZ)),
    )
    assert first() == ("of the environment", "local mirror")
    named = str(mirror(tmp_path / "b", [{"question": "of the sweep"}], "jsonl", QUIZ))
    assert first(named) == ("of the sweep", "local mirror")


def test_a_named_mirror_is_the_only_place_asked(hub: Hub, tmp_path: Path) -> None:
    data.fetch_split(QUIZ)
    with pytest.raises(DataError, match="not in the mirror"):
        list(data.read_rows(QUIZ, str(tmp_path / "empty")))


def test_humaneval_comes_from_its_package_whatever_the_mirror(tmp_path: Path) -> None:
    rows = list(data.read_rows(tasks.get("humaneval").source, str(tmp_path)))
    assert len(rows) == 164
    assert set(rows[0]) == {"task_id", "prompt", "entry_point", "canonical_solution", "test"}


def test_without_network_and_mirror_the_error_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path))
    started = time.monotonic()
    with pytest.raises(
        DataError,
        match="`datesweep fetch` was run, or set data_root in the sweep, or DATESWEEP_DATA",
    ):
        list(data.read_rows(MMLU, None))
    assert time.monotonic() - started < 5


def test_in_a_mirror_the_first_split_that_is_there_is_taken(hub: Hub, tmp_path: Path) -> None:
    candidates = [source(split="train"), source(split="validation")]
    assert (
        data.first_available(
            candidates, str(mirror(tmp_path, [{"a": 1}], "parquet", candidates[1]))
        )
        == candidates[1]
    )
    assert (
        data.first_available(candidates, str(mirror(tmp_path, [{"a": 1}], "jsonl", candidates[0])))
        == candidates[0]
    )
    with pytest.raises(
        DataError,
        match=r"\(all, train\); acme/quiz \(all, validation\) in the mirror .*empty; put one",
    ):
        data.first_available(candidates, str(tmp_path / "empty"))


@pytest.mark.parametrize(
    "absent", [source(split="train"), source(config="hard")], ids=["split", "configuration"]
)
def test_on_the_hub_only_what_does_not_exist_makes_way_for_the_next(
    hub: Hub, absent: Source
) -> None:
    candidates = [absent, source(split="validation")]
    assert data.first_available(candidates, None) == candidates[1]
    hub.unreachable = True
    assert data.first_available(candidates, None) == candidates[1], (
        "offline, the choice is the same"
    )
    assert data.to_fetch(candidates, None) is None
    with pytest.raises(DataError, match="on the Hub"):
        data.first_available([absent], None)
    with pytest.raises(
        DataError, match=f"has no split {absent.split!r} in configuration {absent.config!r}"
    ):
        list(data.read_rows(absent, None))


def test_a_hub_that_cannot_be_asked_is_no_reason_to_take_other_data(hub: Hub) -> None:
    candidates = [source(split="test"), source(split="validation")]
    data.fetch_split(candidates[1])
    hub.unreachable = True
    with pytest.raises(DataError, match="no route to host"):
        data.first_available(candidates, None)
    assert data.to_fetch(candidates, None) == candidates[0]


@needs_data
@pytest.mark.parametrize(
    ("name", "size"), [("mmlu", 14042), ("gsm8k", 1319), ("wmt16_en_de", 2999)]
)
def test_real_splits_have_the_published_number_of_items(name: str, size: int) -> None:
    task = tasks.get(name)
    items = list(task.items(data.read_rows(task.source, None)))
    assert len(items) == len({i.item_id for i in items}) == size
