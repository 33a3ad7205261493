"""Verdicts on machines that are made up, as the values that each check reads."""

from pathlib import Path

import pytest

from pipeline.commands.doctor import Finding, verdicts
from pipeline.sandbox.offers import offers

GIB = 1 << 30


def said(finding: Finding) -> str:
    return f"{finding.text} {finding.fix}"


@pytest.mark.parametrize(
    ("machine", "flags", "build", "verdict", "word"),
    [
        (
            "x86_64",
            {"avx2", "avx512f", "avx512_bf16", "amx_bf16"},
            "cpu",
            "OK",
            "AVX2, AVX-512, AVX-512 BF16, AMX",
        ),
        ("x86_64", {"avx2"}, "cpu", "note", "float32 works"),
        ("x86_64", {"sse4_2"}, "cpu", "problem", "no AVX2"),
        ("x86_64", {"sse4_2"}, "gpu", "OK", "a processor"),
        ("aarch64", {"asimd"}, "cpu", "note", "not tried on aarch64"),
    ],
)
def test_the_processor_must_have_what_the_cpu_kernels_need(
    machine: str, flags: set[str], build: str, verdict: str, word: str
) -> None:
    finding = verdicts.processor("a processor", machine, flags, build)
    assert finding.verdict == verdict
    assert word in said(finding)


LISTING = "A100, 80 GiB, 8.0, 570\nA100, 80 GiB, 8.0, 570\nH200, 141 GiB, 9.0, 570\n"


@pytest.mark.parametrize(
    ("visible", "count", "verdict"),
    [
        (None, 3, "OK"),
        ("0,2", 2, "note"),
        ("", 0, "note"),
        ("-1", 0, "note"),
        ("0,1,2", 3, "OK"),
        ("GPU-5f,GPU-6a", 2, "note"),
    ],
)
def test_gpus_are_counted_as_a_process_sees_them(
    visible: str | None, count: int, verdict: str
) -> None:
    finding, seen = verdicts.gpus(LISTING, "", visible, "gpu")
    assert (seen, finding.verdict) == (count, verdict)
    assert finding.text == "2 x A100 / 80 GiB / 8.0 / 570; 1 x H200 / 141 GiB / 9.0 / 570"


@pytest.mark.parametrize(("build", "verdict"), [("gpu", "problem"), ("cpu", "note")])
def test_a_broken_driver_stops_only_an_engine_that_needs_it(build: str, verdict: str) -> None:
    finding, seen = verdicts.gpus(
        "", "Failed to initialize NVML: Driver/library version mismatch\n", None, build
    )
    assert (seen, finding.verdict) == (0, verdict)
    assert "version mismatch" in finding.text


def test_a_machine_without_gpus_is_in_order() -> None:
    assert verdicts.gpus("", "", None, "cpu")[0].verdict == "OK"


@pytest.mark.parametrize(
    ("usable", "verdict", "word"),
    [(8, "OK", "8"), (2.5, "note", "threads to 2 "), (0.5, "note", "threads to 1 ")],
)
def test_cores_that_may_not_be_used_are_noted(usable: float, verdict: str, word: str) -> None:
    finding = verdicts.cores(8, usable)
    assert finding.verdict == verdict
    assert word in said(finding)


@pytest.mark.parametrize(
    ("available", "limit", "verdict"),
    [
        (20, None, "OK"),
        (20, 30, "OK"),
        (20, 6, "note"),
        (6, None, "note"),
        (2, None, "problem"),
        (20, 2, "problem"),
    ],
)
def test_memory_counts_as_far_as_the_container_allows(
    available: int, limit: int | None, verdict: str
) -> None:
    finding = verdicts.memory(32 * GIB, available * GIB, limit * GIB if limit else None, 2)
    assert finding.verdict == verdict
    assert f"{available:.1f} of 32.0 GiB" in finding.text


@pytest.mark.parametrize(
    ("free", "writable", "verdict", "word"),
    [
        (50e9, True, "OK", "50.0 GB"),
        (5e9, True, "note", "DATESWEEP_CACHE"),
        (5e8, True, "problem", "free some"),
        (50e9, False, "problem", "set"),
    ],
)
def test_folders_need_room_and_to_be_written(
    free: float, writable: bool, verdict: str, word: str
) -> None:
    finding = verdicts.disk(
        "disk: cache", Path("/c"), int(free), writable=writable, variable="DATESWEEP_CACHE"
    )
    assert finding.verdict == verdict
    assert word in said(finding)


@pytest.mark.parametrize(("free", "verdict"), [(GIB, "OK"), (64 << 20, "note"), (None, "note")])
def test_little_shared_memory_slows_ray_and_stops_nothing(free: int | None, verdict: str) -> None:
    assert verdicts.shared_memory(free, 256 << 20).verdict == verdict


@pytest.mark.parametrize(
    ("given", "num_splits", "verdict"),
    [(None, None, "OK"), ("/m", 3, "OK"), ("/m", 0, "problem"), ("/m", None, "problem")],
)
def test_a_mirror_that_is_named_must_be_there(
    given: str | None, num_splits: int | None, verdict: str
) -> None:
    assert verdicts.data_mirror(given, num_splits).verdict == verdict


def test_no_hub_is_a_note_with_a_way_out() -> None:
    assert verdicts.hub("", "a hub").verdict == "OK"
    away = verdicts.hub("HF_HUB_OFFLINE is set", "a hub")
    assert away.verdict == "note"
    assert "HF_HUB_OFFLINE" in away.text
    assert "datesweep fetch" in away.fix


STORES = {"s3": ("s3fs", False), "gs": ("gcsfs", True), "gcs": ("gcsfs", True)}


@pytest.mark.parametrize(
    ("scheme", "verdict", "fix"),
    [
        (None, "OK", ""),
        ("gs", "OK", ""),
        ("s3", "problem", "datesweep[s3]"),
        ("s33", "problem", "knows no s33:// (did you mean 's3'?)"),
    ],
)
def test_a_remote_folder_needs_the_package_of_its_scheme(
    scheme: str | None, verdict: str, fix: str
) -> None:
    finding = verdicts.remote(STORES, scheme)
    assert finding.verdict == verdict
    assert fix in finding.fix
    assert finding.text == "gs://, gcs:// with gcsfs; s3:// need s3fs"


ALL = dict.fromkeys(("namespaces", "bubblewrap", "landlock", "nobody"), (True, True, ""))
GONE = (False, False, "no")


@pytest.mark.parametrize(
    ("missing", "is_root", "notes"),
    [
        ([], True, []),
        (["bubblewrap"], True, []),
        (["namespaces"], True, []),
        (["namespaces", "bubblewrap"], False, ["sandbox: namespaces", "sandbox: bubblewrap"]),
        (["landlock"], False, ["sandbox: landlock"]),
        (["nobody"], False, []),
        (["nobody"], True, ["sandbox: nobody"]),
    ],
)
def test_a_layer_of_the_sandbox_is_missed_where_no_other_stands_in(
    missing: list[str], is_root: bool, notes: list[str]
) -> None:
    findings = verdicts.sandbox(ALL | dict.fromkeys(missing, GONE), is_root=is_root)
    assert [f.what for f in findings if f.verdict == "note"] == notes
    assert all(f.fix for f in findings if f.verdict != "OK")
    assert not [f for f in findings if f.verdict == "problem"], (
        "scoring goes on, and says under what"
    )


def test_every_layer_that_the_sandbox_knows_can_be_mended() -> None:
    assert {offer.layer for offer in offers()} == {*verdicts.LAYER_FIXES}


def test_ray_that_does_not_start_is_a_problem() -> None:
    assert verdicts.ray_start(3.0, "2 cores", started=True).verdict == "OK"
    failed = verdicts.ray_start(1.0, "no room", started=False)
    assert failed.verdict == "problem"
    assert "no room" in failed.text
