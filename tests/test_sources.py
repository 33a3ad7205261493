import json
import os
from pathlib import Path

import polars as pl
import pytest

from pipeline import sources, tasks
from pipeline.errors import DataError

MMLU = tasks.get("mmlu").source
needs_data = pytest.mark.skipif("DATESWEEP_DATA" not in os.environ, reason="DATESWEEP_DATA names no mirror of real data")


def mirror(root: Path, rows: list[dict[str, object]], suffix: str) -> Path:
    folder = root / MMLU.dataset / MMLU.config
    folder.mkdir(parents=True)
    if suffix == "parquet":
        pl.DataFrame(rows).write_parquet(folder / "test.parquet")
    else:
        (folder / "test.jsonl").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    return root


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_mirror_gives_the_rows_it_holds(tmp_path: Path, suffix: str) -> None:
    # U+0085 and U+2028 end a line for str.splitlines, but not a row of JSON lines.
    rows = [{"question": "a\u0085b\u2028c", "subject": "s", "choices": ["1", "2", "None", "4"], "answer": i} for i in range(3)]
    assert list(sources.rows(MMLU, str(mirror(tmp_path, rows, suffix)))) == rows


def test_missing_data_says_where_it_was_looked_for_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cais/mmlu/all/test\.parquet and \.jsonl; put the file there"):
        list(sources.rows(MMLU, str(tmp_path)))


def test_the_environment_names_a_mirror_and_the_sweep_overrules_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"question": "q", "subject": "s", "choices": ["1", "2", "3", "4"], "answer": 0}
    monkeypatch.setenv("DATESWEEP_DATA", str(mirror(tmp_path / "a", [row], "jsonl")))
    assert list(sources.rows(MMLU, None)) == [row]
    other = mirror(tmp_path / "b", [row, row], "jsonl")
    assert len(list(sources.rows(MMLU, str(other)))) == 2


def test_without_network_and_mirror_the_error_names_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(DataError, match="set data_root in the sweep, or DATESWEEP_DATA"):
        list(sources.rows(MMLU, None))


def test_humaneval_comes_from_its_package_whatever_the_mirror(tmp_path: Path) -> None:
    rows = list(sources.rows(tasks.get("humaneval").source, str(tmp_path)))
    assert len(rows) == 164
    assert set(rows[0]) == {"task_id", "prompt", "entry_point", "canonical_solution", "test"}


@needs_data
@pytest.mark.parametrize(("name", "size"), [("mmlu", 14042), ("gsm8k", 1319), ("wmt16_en_de", 2999)])
def test_real_splits_have_the_published_number_of_items(name: str, size: int) -> None:
    task = tasks.get(name)
    items = list(task.items(sources.rows(task.source, None)))
    assert len(items) == len({i.item_id for i in items}) == size
