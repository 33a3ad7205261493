"""A lease keeps others out of a remote folder, until nobody renews it or it is given back."""

import os
import threading
import time
import uuid
from pathlib import Path

import pytest

from pipeline.core.errors import StoreError
from pipeline.store import Run, lease
from pipeline.store.places import Remote


@pytest.fixture(params=("file", "memory"))
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Remote:
    """A folder at a URL that other processes can read too, and at one that only this one can."""
    where = {"file": f"file://{tmp_path}/a [run]", "memory": f"memory://{uuid.uuid4()}/a [run]"}
    return Remote(where[request.param])


@pytest.fixture
def _quick_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"BEAT_S": 0.05, "DEAD_AFTER_S": 0.6, "SETTLE_S": 0.1}.items():
        monkeypatch.setattr(lease, name, seconds)


@pytest.mark.usefixtures("_quick_leases")
def test_a_remote_folder_in_use_is_refused_and_then_free(remote: Remote) -> None:
    with Run(remote).locked():
        with (
            pytest.raises(
                StoreError,
                match=rf"another datesweep process \(.*process {os.getpid()}\) is working here",
            ),
            Run(remote).locked(),
        ):
            pass
        assert (remote / ".lease").is_file()
    assert not (remote / ".lease").is_file()
    with Run(remote).locked():
        pass


@pytest.mark.usefixtures("_quick_leases")
def test_a_lease_that_nobody_renews_is_taken_over(remote: Remote) -> None:
    (remote / ".lease").create("gone, process 1; 00")
    started = time.monotonic()
    with Run(remote).locked():
        assert time.monotonic() - started > lease.DEAD_AFTER_S
        assert f"process {os.getpid()}" in (remote / ".lease").read_text()
    assert not (remote / ".lease").is_file()


@pytest.mark.usefixtures("_quick_leases")
def test_of_many_that_take_over_one_lease_at_once_one_gets_it(remote: Remote) -> None:
    (remote / ".lease").create("gone, process 1; 00")
    held, refused, done = [], [], threading.Event()

    def work() -> None:
        try:
            with Run(remote).locked():
                held.append(1)
                done.wait(30)
        except StoreError:
            refused.append(1)
            if len(refused) == 3:
                done.set()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 3)


@pytest.mark.usefixtures("_quick_leases")
def test_a_lease_that_was_lost_is_left_to_its_new_holder(remote: Remote) -> None:
    with Run(remote).locked():
        (remote / ".lease").write_text("other, process 2; 00")
        time.sleep(4 * lease.BEAT_S)
        assert (remote / ".lease").read_text() == "other, process 2; 00"
    assert (remote / ".lease").read_text() == "other, process 2; 00"
