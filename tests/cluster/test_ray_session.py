"""Ray is there while a stage needs it, and gone when the stage is over."""

from pathlib import Path

import pytest

from pipeline import cluster
from pipeline.core.errors import EngineError


@pytest.mark.usefixtures("no_ray")
def test_a_local_cluster_is_started_and_always_shut_down() -> None:
    import ray

    with cluster.session(None, num_cpus=1) as resources:
        assert (resources.num_cpus, resources.num_gpus, len(resources.nodes)) == (1, 0, 1)
        session = Path(ray._private.worker._global_node.get_session_dir_path())
        assert session.is_dir()
    assert not ray.is_initialized()
    assert not session.exists(), "nothing stays in the temporary folder"
    with pytest.raises(RuntimeError), cluster.session(None, num_cpus=1):
        raise RuntimeError
    assert not ray.is_initialized()


def test_a_cluster_that_is_up_already_is_used_and_left_up(ray_session: cluster.Resources) -> None:
    import ray

    with cluster.session(None) as resources:
        assert resources == ray_session
    assert ray.is_initialized()


def test_an_address_without_a_cluster_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(EngineError, match="ray start --head"), cluster.session("127.0.0.1:1"):
        pass
