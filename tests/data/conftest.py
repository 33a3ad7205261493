from pathlib import Path

import pytest

from tests.data.hub import QUIZ, ROWS, Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A Hub with one data set, a cache folder that is empty, and no mirror."""
    monkeypatch.delenv("DATESWEEP_DATA", raising=False)
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path / "cache"))
    made = Hub(tmp_path / "hub", monkeypatch)
    made.publish(QUIZ.dataset, {("all", "test"): ROWS, ("all", "validation"): ROWS[:1]})
    return made
