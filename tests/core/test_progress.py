import io
import re

import pytest
from rich.console import Console

from pipeline.core import progress
from pipeline.core.progress import Reporter


def reporter(terminal: bool) -> tuple[Reporter, io.StringIO]:
    text = io.StringIO()
    return Reporter(Console(file=text, force_terminal=terminal, width=120)), text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3599, "59 min 59 s"), (7530, "2 h 05 min")],
)
def test_spans_of_time_are_written_as_people_do(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


@pytest.mark.parametrize("terminal", [True, False])
def test_a_finished_stage_leaves_one_line_with_its_last_detail(terminal: bool) -> None:
    to, text = reporter(terminal)
    with to.stage("generate m", 4, "requests") as stage:
        stage.update(2, "10 tokens/s")
        stage.update(4, "20 tokens/s")
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text.getvalue()).splitlines()[-1]
    assert last.startswith("generate m: 4 requests in 0 s; 20 tokens/s")


def test_a_log_gets_a_line_with_an_eta_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 5.0, 20.0, 21.0, 40.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    to, text = reporter(False)
    with to.stage("score", 100, "outputs") as stage:
        stage.update(0)
        stage.update(50)
        stage.update(60)
    assert text.getvalue().splitlines()[0] == "score: 50 of 100 outputs, ETA 20 s"
    assert len(text.getvalue().splitlines()) == 2


def test_the_live_line_fits_80_columns_with_millions_of_requests() -> None:
    text = io.StringIO()
    narrow = Reporter(Console(file=text, force_terminal=True, width=80))
    with narrow.stage("generate some-model-with-a-long-name", 5_125_330, "requests") as stage:
        stage.update(4_999_999, "123,456 tokens/s, 97% from cache")
    assert "4,999,999/5,125,330" in text.getvalue()
    assert "123,456 tokens/s" in text.getvalue()
    assert "…" not in text.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_square_brackets_are_text_and_not_mark_up(terminal: bool) -> None:
    to, text = reporter(terminal)
    to.say("keep it under [calendar]")
    with to.waiting("log: runs/[red]/x"):
        pass
    assert "[calendar]" in text.getvalue()
    assert "runs/[red]/x" in text.getvalue()
