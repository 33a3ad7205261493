"""Splits are fetched once, whole, at one commit, and with the Hub's schema."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasets import ClassLabel, Dataset, Features, List, Translation, Value

from pipeline import data
from pipeline.core.errors import DataError
from tests.data.hub import COMMIT, QUIZ, ROWS, Hub, fetched, source

LABELLED = Features(
    {
        "question": Value("string"),
        "choices": List(Value("string")),
        "answer": ClassLabel(names=["A", "B", "C", "D"]),
    }
)
NESTED = Features(
    {
        "id": Value("string"),
        "choices": {"text": List(Value("string")), "label": List(Value("string"))},
    }
)
TRANSLATED = Features({"translation": Translation(languages=["fi", "en"])})


@pytest.mark.parametrize(
    ("features", "row"),
    [
        (LABELLED, {"question": "a\u0085b", "choices": ["1", "2", "3", "4"], "answer": 3}),
        (NESTED, {"id": "x_1", "choices": {"text": ["up", "down"], "label": ["1", "2"]}}),
        (TRANSLATED, {"translation": {"en": "Good morning.", "fi": "Hyvää huomenta."}}),
    ],
    ids=["class label", "struct of lists", "translation"],
)
def test_fetching_keeps_the_hubs_schema(hub: Hub, features: Features, row: dict[str, Any]) -> None:
    hub.publish(QUIZ.dataset, {("all", "test"): [row]}, features)
    assert list(data.read_rows(QUIZ, None)) == [row]
    assert (
        Dataset.from_parquet(str(fetched("all/test.parquet")), keep_in_memory=True).features
        == features
    )


def test_data_kept_as_csv_is_fetched_too(hub: Hub) -> None:
    folder = hub.root / QUIZ.dataset
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: all\n  data_files: quiz.csv\n---\n"
    )
    (folder / "quiz.csv").write_text(
        'Question,Correct Answer,Year\n"Two, or\nthree?",two,\nWhy?,so,3\n'
    )
    first, second = data.read_rows(source(split="train"), None)
    assert (first["Question"], first["Year"], second["Correct Answer"]) == (
        "Two, or\nthree?",
        None,
        "so",
    )


def test_only_the_wanted_split_is_read(hub: Hub) -> None:
    (hub.root / QUIZ.dataset / "all" / "validation-00000-of-00001.parquet").write_bytes(
        b"millions of rows that nobody asked for"
    )
    assert len(list(data.read_rows(QUIZ, None))) == len(ROWS)
    assert not fetched("all/validation.parquet").exists()


def test_what_was_fetched_is_written_down_and_stays_at_its_commit(hub: Hub) -> None:
    said: list[str] = []
    pin = data.fetch_split(QUIZ, said.append)
    assert (pin.commit, pin.num_rows, len(pin.sha256)) == (COMMIT, 3, 64)
    assert json.loads(fetched("all/test.pin.json").read_text())["commit"] == COMMIT
    hub.commit, before = "f" * 40, fetched("all/test.parquet").stat()
    assert data.fetch_split(QUIZ, said.append) == pin
    assert fetched("all/test.parquet").stat() == before
    assert (len(said), len(hub.asked)) == (1, 1), "the second time it does nothing and says nothing"


@pytest.mark.parametrize("moment", ["while reading", "while writing rows", "before the pin"])
def test_a_fetch_killed_half_way_leaves_nothing_that_counts(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def dies(*args: Any, **kwargs: Any) -> Any:
        if moment == "while writing rows":
            Path(args[1]).write_bytes(b"PAR1")
        raise KeyboardInterrupt

    target: tuple[Any, str] = {
        "while reading": (Dataset, "from_list"),
        "while writing rows": (Dataset, "to_parquet"),
        "before the pin": (Path, "write_text"),
    }[moment]
    with monkeypatch.context() as patch:
        patch.setattr(*target, dies)
        with pytest.raises(KeyboardInterrupt):
            data.fetch_split(QUIZ)
    assert data.pinned(QUIZ) is None
    assert data.to_fetch([QUIZ], None) == QUIZ
    assert list(data.read_rows(QUIZ, None)) == ROWS
    assert not list(fetched("all").glob("*.part")), "what the killed one left is written over"


def test_a_changed_file_is_not_taken_for_the_fetched_one(hub: Hub) -> None:
    data.fetch_split(QUIZ)
    fetched("all/test.parquet").write_bytes(fetched("all/test.parquet").read_bytes()[:-1])
    with pytest.raises(DataError, match="not the file that was fetched"):
        list(data.read_rows(QUIZ, None))
    fetched("all/test.parquet").unlink()
    assert list(data.read_rows(QUIZ, None)) == ROWS


def test_fewer_rows_than_announced_are_an_error(hub: Hub) -> None:
    card = hub.root / QUIZ.dataset / "README.md"
    info = (
        "dataset_info:\n- config_name: all\n  splits:\n  - name: test\n    num_bytes: 1\n    "
        "num_examples: 4\n---"
    )
    card.write_text(info.join(card.read_text().rsplit("---", 1)))
    with pytest.raises(DataError, match="gave 3 rows, not the 4 that it announces"):
        data.fetch_split(QUIZ)


def test_gated_data_says_to_accept_the_terms_and_log_in(hub: Hub) -> None:
    hub.gated = True
    with pytest.raises(
        DataError,
        match=r"accept its terms at https://example\.org/quiz, log in with `hf auth login`",
    ):
        data.fetch_split(QUIZ)


def test_two_processes_that_want_one_split_fetch_it_once(hub: Hub) -> None:
    def slowly(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            time.sleep(0.2)
            return original(*args, **kwargs)

        return wrapped

    hub.load = slowly(hub.load)
    workers = [threading.Thread(target=data.fetch_split, args=(QUIZ,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(hub.asked) == 1
