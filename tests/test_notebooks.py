"""Notebooks run from top to bottom on a finished run, hold no logic, and have no outputs."""

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from pipeline.store.run_folder import Run

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
EXPLORE = FOLDER / "01_explore_a_run.ipynb"


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def executed(
    path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, scratch: Path
) -> dict[str, dict[str, str]]:
    """What each code cell shows, by the cell's id and by kind of output."""
    monkeypatch.setenv("DATESWEEP_RUN", str(run.folder))
    # The kernel keeps its history there instead of in the user's home.
    monkeypatch.setenv("IPYTHONDIR", str(scratch))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    return {
        cell.id: {
            kind: text for output in cell.outputs for kind, text in output.get("data", {}).items()
        }
        for cell in code_cells(notebook)
    }


@pytest.fixture(scope="module")
def shown(
    simulated_run: Run, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, str]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return executed(EXPLORE, simulated_run, monkeypatch, tmp_path_factory.mktemp("ipython"))


def test_counts_and_deltas_are_the_runs_own(
    shown: dict[str, dict[str, str]], simulated_run: Run
) -> None:
    for count in dict(simulated_run.manifest().counts).values():
        assert f"<td>{count}</td>" in shown["counts"]["text/html"]
    for delta in simulated_run.tables()["deltas"]["delta"]:
        assert f"<td>{delta:.3f}</td>" in shown["deltas"]["text/html"]


def test_the_spread_over_each_axis_is_the_runs_own(
    shown: dict[str, dict[str, str]], simulated_run: Run
) -> None:
    spreads = simulated_run.tables()["conditions"]
    assert spreads.height
    for share in spreads["cv_percent"].drop_nulls():
        assert f"<td>{share:.3f}</td>" in shown["conditions"]["text/html"]


def test_the_chart_is_drawn_with_a_line_for_each_task_and_metric(
    shown: dict[str, dict[str, str]], simulated_run: Run
) -> None:
    drawn = shown["dates"]["image/svg+xml"]
    panels = simulated_run.tables()["by_date"].select("task", "metric").unique()
    for task, metric in panels.iter_rows():
        assert f"{task}, {metric}" in drawn
    lines = re.findall(
        r'<path aria-label="[^"]*"[^>]*aria-roledescription="line mark"[^>]* d="(M[^"]+)"', drawn
    )
    assert len(lines) == panels.height
    num_dates = simulated_run.manifest().counts.dates
    assert {line.count("L") + 1 for line in lines} == {num_dates}


def test_the_flip_up_close_shows_two_dates_with_two_outputs(
    shown: dict[str, dict[str, str]], simulated_run: Run
) -> None:
    flip = simulated_run.tables()["flips"].row(0, named=True)
    completions = shown["completions"]["text/html"]
    assert f"{flip['date_a']}" in completions
    assert f"{flip['date_b']}" in completions
    outputs = re.findall(r"<td>&quot;([0-9a-f]{16})&quot;</td>", completions)
    assert len(outputs) == len(set(outputs)) == 2
    assert flip["item_id"] in shown["item"]["text/html"]


def test_a_run_without_flips_is_shown_too(
    simulated_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = Run(shutil.copytree(simulated_run.folder, tmp_path / "run"))
    run.write_table("flips", run.tables()["flips"].clear())
    cells = executed(EXPLORE, run, monkeypatch, tmp_path / "ipython")
    assert "<tbody></tbody>" in cells["completions"]["text/html"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks_are_committed_without_outputs(path: Path) -> None:
    assert all(
        cell.outputs == [] and cell.execution_count is None
        for cell in code_cells(nbformat.read(path, as_version=4))
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks_hold_no_logic(path: Path) -> None:
    logic = (
        ast.If,
        ast.For,
        ast.While,
        ast.FunctionDef,
        ast.ClassDef,
        ast.Try,
        ast.comprehension,
        ast.Lambda,
    )
    for cell in code_cells(nbformat.read(path, as_version=4)):
        assert not [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, logic)], (
            cell.source
        )
