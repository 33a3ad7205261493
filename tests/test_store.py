import multiprocessing
import os
import signal
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import store
from pipeline.errors import StoreError
from pipeline.store import Run

JSON = st.recursive(
    st.integers() | st.text(max_size=5) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(JSON, JSON)
def test_fingerprints_agree_exactly_when_no_difference_is_listed(a: object, b: object) -> None:
    same = store.fingerprint({"x": a}) == store.fingerprint({"x": b})
    if same:
        assert store.differences({"x": a}, {"x": b}) == []
    else:
        assert store.differences({"x": a}, {"x": b}) or {_missing(a), _missing(b)} <= {True}


def _missing(value: object) -> bool:
    """Whether a value holds nothing but absent things, which a list of differences cannot tell from no key at all."""
    if isinstance(value, dict):
        return any(_missing(v) for v in value.values()) or not value
    if isinstance(value, list):
        return any(_missing(v) for v in value)
    return value is None


def test_differences_name_nested_keys_with_both_values() -> None:
    old, new = {"a": {"b": 1, "c": [1, 2]}, "d": 0}, {"a": {"b": 2, "c": [1, 3]}, "d": 0}
    assert store.differences(old, new) == ["a.b: was 1, now 2", "a.c.1: was 2, now 3"]


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), store.replacing(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_equal_frames_are_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        store.write_parquet(pl.DataFrame({"x": [1, 2], "y": ["a", None], "z": [[1.0], []]}), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def hold(folder: Path) -> None:
    with Run(folder).locked():
        (folder / "held").touch()
        time.sleep(60)


def test_a_folder_in_use_is_refused_and_freed_by_sigkill(tmp_path: Path) -> None:
    holder = multiprocessing.get_context("spawn").Process(target=hold, args=(tmp_path,))
    holder.start()
    try:
        for _ in range(200):
            if (tmp_path / "held").exists():
                break
            time.sleep(0.05)
        with pytest.raises(StoreError, match="another datesweep process"), Run(tmp_path).locked():
            pass
    finally:
        os.kill(holder.pid or 0, signal.SIGKILL)
        holder.join()
    with Run(tmp_path).locked():
        pass


def test_a_folder_that_is_no_run_names_the_runs_beside_it(simulated_run: Run) -> None:
    with pytest.raises(StoreError, match="did you mean 'small'"):
        Run.open(simulated_run.folder.parent / "smal")


def test_an_unfinished_run_says_which_part_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no completions yet"):
        Run(tmp_path).completions()


def test_tables_are_written_as_parquet_and_csv(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write_table("t", pl.DataFrame({"a": [1.5, None], "b": [[1], [2]], "c": ["x", "y"]}))
    assert run.tables()["t"]["a"].to_list() == [1.5, None]
    assert (tmp_path / "tables" / "t.csv").read_text() == "a,c\n1.500000,x\n,y\n", "list columns are for parquet alone"
