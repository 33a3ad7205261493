"""The Hub here is a folder that `datasets` itself reads.

Only its network calls are replaced, by answers of recorded shape.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import polars as pl
import pytest
from datasets import ClassLabel, Dataset, Features, List, Translation, Value

from pipeline import data, tasks
from pipeline.core import cache
from pipeline.core.errors import DataError
from pipeline.tasks import Source

MMLU = tasks.get("mmlu").source
COMMIT = "0123456789abcdef0123456789abcdef01234567"
QUIZ = Source(
    dataset="acme/quiz", config="all", split="test", url="https://example.org/quiz", licence="none"
)
ROWS = [
    {"question": f"Which way to {place}?", "answer": i % 2}
    for i, place in enumerate(("Umeå", "Graz", "Cádiz"))
]
needs_data = pytest.mark.skipif(
    "DATESWEEP_DATA" not in os.environ, reason="DATESWEEP_DATA names no mirror of real data"
)


class Hub:
    """Data sets in a folder, handed out under the names and commits of the Hub."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.asked, self.commit = root, list[str](), COMMIT
        self.gated = self.unreachable = False
        self.load = datasets.load_dataset
        monkeypatch.setattr(datasets, "load_dataset", self.load_dataset)
        monkeypatch.setattr(
            huggingface_hub.HfApi,
            "dataset_info",
            lambda api, name, **kwargs: self.dataset_info(name),
        )

    def publish(
        self,
        dataset: str,
        splits: Mapping[tuple[str, str], Iterable[Mapping[str, Any]]],
        features: Features | None = None,
    ) -> None:
        """Put (config, split) -> rows on the Hub, as Parquet and with the card's list of files."""
        lines = ["---", "configs:"]
        for (config, split), rows in splits.items():
            file = f"{config}/{split}-00000-of-00001.parquet"
            (self.root / dataset / config).mkdir(parents=True, exist_ok=True)
            Dataset.from_list([dict(r) for r in rows], features=features).to_parquet(
                self.root / dataset / file
            )
            lines += (
                [f"- config_name: {config}", "  data_files:"]
                if f"- config_name: {config}" not in lines
                else []
            )
            lines += [f"  - split: {split}", f"    path: {file}"]
        (self.root / dataset / "README.md").write_text("\n".join([*lines, "---", ""]))

    def dataset_info(self, name: str) -> huggingface_hub.DatasetInfo:
        self.asked.append(name)
        if self.unreachable:
            raise ConnectionError("no route to host")
        raw = {
            "id": name,
            "sha": self.commit,
            "private": False,
            "gated": "auto" if self.gated else False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
        }
        return huggingface_hub.DatasetInfo(**raw)

    def load_dataset(self, name: str, config: str, *, revision: str, **kwargs: Any) -> Any:
        assert revision == self.commit, "rows are read at the commit that is written down"
        if self.gated:
            raise datasets.exceptions.DatasetNotFoundError(
                f"Dataset '{name}' is a gated dataset on the Hub. You must be authenticated."
            )
        return self.load(str(self.root / name), config, **kwargs)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A Hub with one data set, a cache folder that is empty, and no mirror."""
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path / "cache"))
    made = Hub(tmp_path / "hub", monkeypatch)
    made.publish(QUIZ.dataset, {("all", "test"): ROWS, ("all", "validation"): ROWS[:1]})
    return made


def source(config: str = "all", split: str = "test") -> Source:
    return Source(dataset=QUIZ.dataset, config=config, split=split, url=QUIZ.url, licence="none")


def fetched(path: str) -> Path:
    return cache.folder() / "data" / QUIZ.dataset / path


def mirror(root: Path, rows: list[dict[str, object]], suffix: str, where: Source = MMLU) -> Path:
    folder = root / where.dataset / where.config
    folder.mkdir(parents=True, exist_ok=True)
    if suffix == "parquet":
        pl.DataFrame(rows).write_parquet(folder / f"{where.split}.parquet")
    else:
        (folder / f"{where.split}.jsonl").write_text(
            "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        )
    return root


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


def test_two_processes_that_want_one_split_fetch_it_once(hub: Hub) -> None:
    import threading

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


@needs_data
@pytest.mark.parametrize(
    ("name", "size"), [("mmlu", 14042), ("gsm8k", 1319), ("wmt16_en_de", 2999)]
)
def test_real_splits_have_the_published_number_of_items(name: str, size: int) -> None:
    task = tasks.get(name)
    items = list(task.items(data.read_rows(task.source, None)))
    assert len(items) == len({i.item_id for i in items}) == size
