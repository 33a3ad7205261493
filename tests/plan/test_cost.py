"""What a plan says it will cost."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.core.errors import ConfigError
from pipeline.plan import Rate, cost_table, keep_rate, stated_rate
from pipeline.settings import SweepSpec
from pipeline.store import Run


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATESWEEP_CACHE", str(tmp_path))


def shown(run: Run, spec: SweepSpec, rate: Rate | None = None, num_gpus: int | None = None) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(cost_table(run, spec, rate, num_gpus))
    return " ".join(console.export_text().split())


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100", Rate(100, 100)), ("25000,3000", Rate(25000, 3000)), ("1e4, 5", Rate(1e4, 5))],
)
def test_a_rate_is_one_number_or_two(text: str, rate: Rate) -> None:
    assert stated_rate(text) == rate


@pytest.mark.parametrize("text", ["fast", "0", "-3", "1,2,3", "1,", ""])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--rate: given"):
        stated_rate(text)


def test_without_a_rate_the_time_is_unknown_and_the_table_says_what_to_do(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    assert "run `datesweep bench engine" in shown(simulated_run, simulated_spec)


def test_time_follows_from_tokens_and_rate(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    tokens = simulated_run.prompts()["simulated"].tokens
    assert 0 < tokens.tree <= tokens.blocks[16] <= tokens.blocks[32] <= tokens.prompt
    hours = (tokens.blocks[16] / 10 + tokens.output / 2) / 3600
    printed = shown(simulated_run, simulated_spec, Rate(10, 2), 4)
    assert f"{hours:,.2f}" in printed
    assert f"{hours / 4:,.2f} h" in printed


def test_a_rate_measured_here_is_remembered(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    keep_rate("simulated", Rate(10, 2, "a quick machine"))
    assert "simulated on a quick machine" in shown(simulated_run, simulated_spec)


def test_the_tokens_are_those_of_every_prompt_of_the_plan(simulated_run: Run) -> None:
    tokens = simulated_run.prompts()["simulated"].tokens
    made = simulated_run.completions().collect()
    assert tokens.prompt == made["num_prompt_tokens"].sum()
