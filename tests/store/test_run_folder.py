import multiprocessing
import os
import pickle
import shutil
import signal
import time
import uuid
from pathlib import Path

import polars as pl
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from pipeline import score, store
from pipeline.core import tables
from pipeline.core.errors import StoreError
from pipeline.core.progress import Reporter
from pipeline.settings.schema import SweepSpec
from pipeline.store import EngineFacts, PromptReport, PromptTokens, Telemetry, places
from pipeline.store.places import Place, Remote
from pipeline.store.run_folder import Run
from pipeline.sweep import run_sweep
from tests import synthetic


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
        store.write_parquet(
            pl.DataFrame({"x": [1, 2], "y": ["a", None], "z": [[1.0], []]}), tmp_path / name
        )
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
    assert (tmp_path / "tables" / "t.csv").read_text() == "a,c\n1.500000,x\n,y\n", (
        "list columns are for parquet alone"
    )


SETTINGS = synthetic.manifest({"texts": {"a": "1"}}).settings
PLANNED = synthetic.manifest({"texts": {"a": "1"}}).model_copy(
    update={"fingerprint": SETTINGS.fingerprint()}
)

KINDS = ("path", "file", "memory")
"""A run folder as a local path, a URL that other processes can read too, and a URL that Polars
cannot read by itself."""


REPORT = PromptReport(
    label_token_ids={"mmlu.zero_shot": {" A": 1}},
    max_model_len=9,
    tokens=PromptTokens(prompt=8, tree=4, blocks={16: 8, 32: 8}, output=1),
    rendered_in_full=["mmlu.zero_shot"],
    tokenised_whole=0,
    template_hash="abc",
    template_dates=[],
)


def place_of(kind: str, tmp_path: Path) -> Place:
    urls = {"file": f"file://{tmp_path}/a [run]", "memory": f"memory://{uuid.uuid4()}/a [run]"}
    return places.place(urls[kind]) if kind in urls else tmp_path / "a [run]"


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_of(request.param, tmp_path)


@pytest.fixture(params=KINDS[1:])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Remote:
    found = place_of(request.param, tmp_path)
    assert isinstance(found, Remote)
    return found


def test_a_plan_is_read_back_as_it_was_written(folder: Place) -> None:
    empty = {n: pl.DataFrame(schema=tables.schema(of)) for n, of in store.PLAN_TABLES.items()}
    rows = {
        "asked": [("t", "s", "a"), ("t", "s", "b")],
        "arms": [("control", 0), ("iso:2024-01-01", 0)],
        "requests": [(0, 0, 1), (0, 1, 1), (1, 1, 0)],
    }
    filled = {n: pl.DataFrame(of, empty[n].schema, orient="row") for n, of in rows.items()}
    written = empty | filled
    run = Run(folder)
    with run.locked():
        assert not run.claim(PLANNED.settings)
        run.write_plan(PLANNED, {"m": REPORT}, written)
    again = Run.open(folder)
    assert again.claim(PLANNED.settings)
    with pytest.raises(StoreError, match=r'texts\.a: was "1", now "2"'):
        again.claim(PLANNED.settings.model_copy(update={"texts": {"a": "2"}}))
    assert again.prompts() == {"m": REPORT}
    assert again.shard_sizes() == {0: 2, 1: 1}
    assert all(again.plan_table(name).equals(table) for name, table in written.items())
    assert again.requests().select("item_id", "variant").collect().rows() == [
        ("a", "iso:2024-01-01"),
        ("b", "iso:2024-01-01"),
        ("b", "control"),
    ]


def test_completions_are_listed_and_read_in_one_order_wherever_they_are(folder: Place) -> None:
    run, written = Run(folder), [("m-1", 0), ("m", 2), ("m", 10)]
    for model, shard in written:
        store.write_parquet(
            pl.DataFrame({"of": [f"{model}/{shard}"]}), run.completion_path(model, shard)
        )
    assert run.missing_shards("m", [0, 2, 10, 11]) == [0, 11]
    assert run.missing_shards("other", [0]) == [0]
    assert run.completions("m").collect()["of"].to_list() == ["m/2", "m/10"]
    assert run.completions().collect()["of"].to_list() == ["m/2", "m/10", "m-1/0"]
    with pytest.raises(StoreError, match="has no scores yet"):
        run.scores()


def telemetry(shard: int) -> Telemetry:
    return Telemetry(
        model="m",
        shard=shard,
        requests=4,
        prompt_tokens=3,
        cached_tokens=2,
        output_tokens=1,
        replica_s=0.5,
    )


def test_small_files_and_tables_are_read_back(folder: Place) -> None:
    run = Run(folder)
    assert run.telemetry() == [] and run.tables() == {} and run.engine_facts("m") is None
    shards = [telemetry(shard) for shard in (1, 0)]
    for one in shards:
        run.write_telemetry(one)
    facts = EngineFacts(backend="simulated", settings={"a": 1}, versions={"b": "2"}, hardware={})
    run.write_engine_facts("m", facts)
    run.write_table("t", pl.DataFrame({"a": [1.5], "b": [[1]]}))
    assert run.telemetry() == shards[::-1]
    assert run.engine_facts("m") == facts
    assert "honoured" not in (run.folder / "engines" / "m.json").read_text()
    assert run.tables()["t"].rows() == [(1.5, [1])]
    assert (run.folder / "tables" / "t.csv").read_text() == "a\n1.500000\n"


def test_a_failed_write_leaves_the_old_file_alone(folder: Place) -> None:
    store.write_json("old", folder / "x.json")
    with pytest.raises(RuntimeError), store.replacing(folder / "x.json") as part:
        part.write_text("half")
        raise RuntimeError
    assert (folder / "x.json").read_text() == '"old"\n'
    assert [path.name for path in folder.glob("*")] == ["x.json"]


def test_an_upload_that_breaks_off_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(self: LocalFileSystem, local: str, path: str) -> None:
        Path(path).write_text("half")
        raise ConnectionResetError("the line went dead")

    folder = places.place(f"file://{tmp_path}/run")
    store.write_json("old", folder / "x.json")
    monkeypatch.setattr(LocalFileSystem, "put_file", half)
    with pytest.raises(StoreError, match=r"x\.json: ConnectionResetError: the line went dead"):
        store.write_json("new", folder / "x.json")
    assert (folder / "x.json").read_text() == '"old"\n'
    assert [path.name for path in folder.glob("*.json")] == ["x.json"]


def test_a_url_lists_what_a_path_lists(tmp_path: Path, remote: Remote) -> None:
    local = tmp_path / "same"
    for name in ("a/1.parquet", "a/2.json", "b/1.parquet", "b/c/3.parquet", "1.parquet"):
        store.write_json(name, local / name)
        store.write_json(name, remote / name)
    for pattern in ("*", "*.parquet", "*/*.parquet", "a/*", "*/*/*.parquet", "none/*"):
        expected = sorted(
            path.relative_to(local).as_posix() for path in local.glob(pattern) if path.is_file()
        )
        assert (
            sorted(path.url.removeprefix(f"{remote.url}/") for path in remote.glob(pattern))
            == expected
        )
    assert remote / "b" / "c" / "3.parquet" in set(remote.glob("*/*/*.parquet")), (
        "what is listed equals what is named"
    )


def test_a_deleted_file_is_gone(remote: Remote) -> None:
    store.write_json(1, remote / "x.json")
    assert (remote / "x.json").is_file() and not remote.is_file()
    (remote / "x.json").unlink()
    assert not (remote / "x.json").is_file()
    with pytest.raises(FileNotFoundError):
        (remote / "x.json").read_bytes()


def test_a_store_that_does_not_answer_is_an_error_and_not_an_empty_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("no")

    run = Run("memory://closed/run")
    monkeypatch.setattr(MemoryFileSystem, "info", refuse)
    monkeypatch.setattr(MemoryFileSystem, "ls", refuse)
    for ask in (
        lambda: run.claim(PLANNED.settings),
        lambda: run.missing_shards("m", [0]),
        run.telemetry,
    ):
        with pytest.raises(StoreError, match=r"memory://closed/run/.*PermissionError: no"):
            ask()


@pytest.mark.parametrize(
    ("given", "kind", "shown"),
    [
        ("runs/demo", Path, "runs/demo"),
        ("s3://bucket/run/", Remote, "s3://bucket/run"),
        (Path("runs/demo"), Path, "runs/demo"),
        (Remote("gs://bucket/run"), Remote, "gs://bucket/run"),
    ],
)
def test_a_folder_is_remote_when_it_is_a_url(given: str | Place, kind: type, shown: str) -> None:
    folder = Run(given).folder
    assert (type(folder) is kind or isinstance(folder, kind)) and str(folder) == shown
    assert pickle.loads(pickle.dumps(folder)) == folder  # noqa: S301 - our own bytes; replicas get it so


def test_a_url_that_cannot_be_read_says_why() -> None:
    with pytest.raises(
        StoreError,
        match=r"nosuch://bucket/run/manifest\.json: ValueError: Protocol not known: nosuch",
    ):
        Run.open("nosuch://bucket/run")
    with pytest.raises(
        StoreError,
        match=r"empty/run is no run folder \(it has no manifest.json\); `datesweep plan SWEEP`",
    ):
        Run.open("memory://empty/run")


def test_logs_of_a_remote_run_are_local_and_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path))
    first, other = Run("s3://bucket/run").logs, Run("s3://other/run").logs
    assert first.is_relative_to(tmp_path) and first == Run("s3://bucket/run/").logs != other
    assert Run("runs/demo").logs == Path("runs/demo/logs")


def test_a_sweep_on_a_url_makes_the_same_bytes_as_on_a_path(
    simulated_run: Run, simulated_spec: SweepSpec, tmp_path: Path
) -> None:
    run = run_sweep(simulated_spec, f"file://{tmp_path}/run", Reporter())
    parts = ("plan", "engines", "completions", "scores", "tables", "manifest.json")
    assert (run.folder / "report.html").is_file()
    assert files_of(tmp_path / "run", *parts) == files_of(simulated_run.folder, *parts)
    assert not (tmp_path / "run" / "logs").exists() and list(
        run.logs.glob("engine-simulated-*.log")
    )
    assert (
        score.progress(run, simulated_spec)[0] == score.progress(simulated_run, simulated_spec)[0]
    )
    shutil.rmtree(run.logs)


def files_of(folder: Path, *parts: str) -> dict[str, bytes]:
    files = [
        p for part in parts for p in [folder / part, *(folder / part).rglob("*")] if p.is_file()
    ]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}
