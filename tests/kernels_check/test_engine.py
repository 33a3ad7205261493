"""The engine check passes real vLLM, and finds one that leans on batch, order or cache."""

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels_check import __main__ as command, engine as check, verdict
from pipeline.core.errors import EngineError
from pipeline.core.records import Output, Request
from pipeline.engines.vllm import VllmEngine
from pipeline.settings.schema import ModelSpec


@pytest.fixture(scope="module")
def requests(tiny_model: ModelSpec, tiny_model_folder: Path) -> list[Request]:
    return check.requests(tiny_model, tiny_model_folder)


@pytest.fixture(scope="module")
def few(requests: list[Request]) -> list[Request]:
    """Four label requests and two short text ones."""
    texts = [request for request in requests if not request.label_token_ids][:2]
    short = dataclasses.replace(texts[0].sampling, max_tokens=3)
    return requests[:4] + [dataclasses.replace(request, sampling=short) for request in texts]


@pytest.fixture(scope="module")
def rows(tiny_engine: VllmEngine, few: list[Request]) -> list[check.EngineRow]:
    return list(check.check(tiny_engine, few))


class Leaning:
    """Real vLLM whose outputs change where `when` says so, given the index of the request in its
    group, the group's size and the output.
    """

    def __init__(self, engine: VllmEngine, when: Callable[[int, int, Output], bool]) -> None:
        self.engine, self.when = engine, when

    def generate(self, group: Iterator[Request]) -> Iterator[Output]:
        requests = list(group)
        index = {request.position: i for i, request in enumerate(requests)}
        for output in self.engine.generate(iter(requests)):
            leans = self.when(index[output.position], len(requests), output)
            yield self.changed(output) if leans else output

    def reset_prefix_cache(self) -> None:
        self.engine.reset_prefix_cache()

    def changed(self, output: Output) -> Output:
        # One unit in the last place, and one character.
        logprobs = [x * (1 + 2**-52) for x in output.label_logprobs]
        return dataclasses.replace(
            output, label_logprobs=logprobs, text=output.text and f"{output.text}."
        )


def differing(rows: Iterator[check.EngineRow]) -> set[str]:
    return {row.schedule for row in rows if not row.equal}


def test_requests_are_the_sweeps_own_with_one_date_each(
    requests: list[Request], tiny_model_folder: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    texts = [tokenizer.decode(request.token_ids) for request in requests]
    assert all(sum(text.count(str(date)) for date in check.DATES) == 1 for text in texts)
    assert len(set(texts)) == len(requests) == len({request.position for request in requests})
    assert [tokenizer.convert_ids_to_tokens(i) for i in requests[0].label_token_ids] == [
        "ĠA",
        "ĠB",
        "ĠC",
        "ĠD",
    ]


def test_both_kinds_of_request_are_there(requests: list[Request]) -> None:
    assert {bool(request.label_token_ids) for request in requests} == {True, False}


def test_vllm_is_bitwise_equal_under_every_schedule(rows: list[check.EngineRow]) -> None:
    assert [(row.schedule, row.kind) for row in rows if not row.equal] == []
    assert {row.schedule for row in rows} == {schedule.name for schedule in check.SCHEDULES}


def test_cold_schedules_are_cold_and_cached_ones_come_from_the_cache(
    rows: list[check.EngineRow],
) -> None:
    cached = {(row.schedule, row.kind): row.num_cached_tokens for row in rows}
    assert cached["one at a time, again", "labels"] == cached["one at a time, again", "text"] == 0
    assert all(tokens > 0 for (schedule, _), tokens in cached.items() if "cached" in schedule)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        pytest.param(
            lambda index, size, output: size > 1,
            {"all together", "all together, reversed", "all together, cached"},
            id="batch",
        ),
        pytest.param(
            lambda index, size, output: size > 1 and index < 2 and not output.label_logprobs,
            {"all together, reversed"},
            id="order",
        ),
        pytest.param(
            lambda index, size, output: (
                output.num_cached_tokens >= 32 and bool(output.label_logprobs)
            ),
            {"all together, cached", "one at a time, cached"},
            id="cache",
        ),
    ],
)
def test_an_engine_that_leans_on_it_is_found(
    when: Callable[[int, int, Output], bool],
    expected: set[str],
    tiny_engine: VllmEngine,
    few: list[Request],
) -> None:
    assert differing(check.check(Leaning(tiny_engine, when), few)) == expected


def row(**changes: object) -> check.EngineRow:
    """A row without differences, but for `changes`."""
    plain = check.EngineRow(
        schedule="all together",
        kind="labels",
        num_requests=4,
        num_differing=0,
        num_differing_answers=0,
        max_abs_difference=0.0,
        num_prompt_tokens=100,
        num_cached_tokens=50,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def said(*engine_rows: check.EngineRow) -> str:
    return verdict.conclusion(
        verdict.Findings(ops=None, engine=engine_rows, model="tiny", facts={})
    )


def test_the_conclusion_clears_an_equal_engine_and_blames_another() -> None:
    assert "not the engine's doing" in said(row())
    blamed = said(row(), row(schedule="reversed", num_differing=1, max_abs_difference=1e-6))
    assert "'reversed'" in blamed
    assert "not the engine's doing" not in blamed


def test_the_conclusion_says_so_when_the_cache_was_never_tried() -> None:
    assert "never hit" in said(row(num_cached_tokens=0))
    assert "never hit" not in said(row())


def test_a_log_probability_that_is_no_finite_number_has_no_difference(
    requests: list[Request],
) -> None:
    class Infinite:
        def __init__(self) -> None:
            self.calls = 0

        def generate(self, group: Iterator[Request]) -> Iterator[Output]:
            self.calls += 1
            for request in group:
                yield Output(
                    position=request.position,
                    text="",
                    label_logprobs=[-1.0, float("-inf") if self.calls > len(requests) else -2.0]
                    if request.label_token_ids
                    else [],
                    finish_reason="length",
                    num_prompt_tokens=1,
                    num_cached_tokens=0,
                    num_output_tokens=1,
                )

        def reset_prefix_cache(self) -> None:
            pass

    row = next(check.check(Infinite(), requests))
    assert (row.equal, row.max_abs_difference) == (False, None)
    json.dumps(dataclasses.asdict(row), allow_nan=False)


@pytest.fixture
def options(tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line for a model file of the tiny model and few requests."""
    monkeypatch.setattr(check, "CHOICES", check.CHOICES[:2])
    monkeypatch.setattr(check, "MAX_TOKENS", 2)
    (tmp_path / "tiny.toml").write_text(
        'name = "tiny"\ntitle = "Tiny"\nlicence = "none"\n[weights]\npath = '
        f'"{tiny_model_folder}"\n'
    )
    return [
        "kernels_check",
        "--no-ops",
        "--device",
        "cpu",
        "--model",
        str(tmp_path / "tiny.toml"),
        "--json",
        str(tmp_path / "found.json"),
    ]


def test_the_command_asks_the_engine_of_a_model_file(
    options: list[str],
    tiny_engine: VllmEngine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def started(*arguments: object) -> VllmEngine:
        os.write(1, b"chatter of native code\n")
        return tiny_engine

    monkeypatch.setattr(check, "start", started)
    monkeypatch.setattr(sys, "argv", options)
    with pytest.raises(SystemExit) as ended:
        command.main()
    written = json.loads((tmp_path / "found.json").read_text())
    assert ended.value.code == 0
    assert (written["all_equal"], written["model"], written["ops"]) == (True, "tiny", None)
    assert written["versions"]["vllm"]
    assert written["settings"]["max_num_seqs"] == 16
    printed = capfd.readouterr()
    assert "all together, reversed" in printed.out
    assert "chatter" not in printed.out
    assert "log:" in printed.err


@pytest.mark.parametrize(
    "cause",
    [EngineError("vLLM cannot start"), RuntimeError("vLLM cannot start")],
    ids=["refused", "died"],
)
def test_an_engine_that_fails_ends_with_2_and_names_the_log(
    cause: Exception,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*arguments: object) -> None:
        os.write(2, b"chatter of native code\n")
        raise cause

    monkeypatch.setattr(check, "start", fail)
    monkeypatch.setattr(sys, "argv", options)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    said = capfd.readouterr().err
    assert "vLLM cannot start" in said
    assert (
        Path(said.split("What vLLM said is in ")[1].strip()).read_text()
        == "chatter of native code\n"
    )
