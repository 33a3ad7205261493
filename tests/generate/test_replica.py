"""What a replica checks before it loads anything."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.cluster import Layout
from pipeline.core.errors import EngineError
from pipeline.generate.replica import Replica
from pipeline.settings import SweepSpec
from pipeline.store import Run


def other_fingerprint(run: Run) -> None:
    run.write_manifest(run.manifest().model_copy(update={"fingerprint": "of another run"}))


def no_manifest(run: Run) -> None:
    Path(str(run.manifest_path)).unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_manifest, r"cannot read the run folder .*No such file"),
        (other_fingerprint, "sees another run"),
    ],
)
def test_a_node_that_does_not_see_the_run_folder_says_that_it_must_be_shared(
    change: Callable[[Run], None],
    message: str,
    simulated_run: Run,
    simulated_spec: SweepSpec,
    tmp_path: Path,
) -> None:
    here = Run(tmp_path)
    here.write_manifest(simulated_run.manifest())
    change(here)
    layout = Layout(device="cpu", num_replicas=1, threads=1, num_cpus=1, num_gpus=0)
    replica = Replica(tmp_path, simulated_spec, simulated_spec.models[0], layout)
    with pytest.raises(EngineError, match=f"{message}.*all of them share"):
        replica.start(simulated_run.manifest().fingerprint, 0)
    assert not (tmp_path / "logs").exists(), "nothing is written there"
