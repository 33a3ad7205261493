import pytest

from pipeline import settings, tasks
from pipeline.commands.list import KINDS, tables
from pipeline.core import registry
from pipeline.core.errors import ConfigError
from pipeline.tasks import Style
from tests.console import printed


@pytest.mark.parametrize("kind", [*KINDS])
def test_each_kind_has_a_table(kind: str) -> None:
    expected = {
        "tasks": "humaneval",
        "models": "smollm2-135m-instruct",
        "metrics": "chrf",
        "formats": "05 Mar 2024",
        "conditions": "Tokyo, Japan",
        "sweeps": "full-year-cpu",
    }
    assert expected[kind] in printed(tables(kind), width=160)


@pytest.mark.parametrize("kind", ["tasks", "models", "sweeps"])
def test_no_name_is_cut_at_80_columns(kind: str) -> None:
    text = printed(tables(kind))
    names = {
        "tasks": [*registry.names("tasks"), "zero_shot", "five_shot", "pass_at_1"],
        "models": settings.model_names(),
        "sweeps": ["demo", "paper/paper-size/table5-option-order"],
    }
    cells = {cell.strip() for line in text.splitlines() for cell in line.split("│")}
    assert set(names[kind]) <= cells
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_tasks_have_the_metrics_of_every_style(monkeypatch: pytest.MonkeyPatch) -> None:
    styles = {
        "zero_shot": Style(kind="text", metrics=("bleu",), max_tokens=1),
        "cot": Style(kind="text", metrics=("chrf",), max_tokens=1),
    }
    monkeypatch.setattr(type(tasks.get("gsm8k")), "styles", styles)
    lines = printed(tables("tasks"), width=160).splitlines()
    (row,) = [i for i, line in enumerate(lines) if "gsm8k " in line]
    assert "bleu" in lines[row] and "chrf" in lines[row + 1]


def test_conditions_name_the_table_of_the_sweep() -> None:
    assert "for [conditions] in a sweep" in printed(tables("conditions"), width=160)


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tasks'"):
        tables("task")
