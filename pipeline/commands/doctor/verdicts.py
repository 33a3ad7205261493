"""Verdicts on hardware, folders and services. Nothing here reads, so any machine can be tried."""

from collections.abc import Mapping
from pathlib import Path

from pipeline.commands.doctor.finding import Finding, note, ok, problem
from pipeline.core.errors import nearest

GIB = 1 << 30
GB = 10**9

SCARCE_MEMORY = 8 * GIB
"""Below it, the engine's reserve for keys and values, weights and Ray's processes get into each
other's way."""
LEAST_DISK, SCARCE_DISK = GB, 10 * GB
"""Less than the one is no room for the demo's model and a run; less than the other, none for the
weights of a larger model."""


_FLAGS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX-512 BF16",
    "amx_bf16": "AMX",
    "asimd": "NEON",
    "bf16": "BF16",
}


def processor(name: str, machine: str, flags: set[str], build: str) -> Finding:
    """Whether the processor can run vLLM's CPU kernels.

    `flags` are those of /proc/cpuinfo, `machine` is as in `uname -m`.
    """
    titles = (title for flag, title in _FLAGS.items() if flag in flags)
    text = ", ".join([name or machine, *titles])
    if build != "cpu":
        return ok("processor", text)
    if machine not in ("x86_64", "AMD64"):
        return note("processor", text, f"datesweep was not tried on {machine}")
    if "avx2" not in flags:
        fix = "use another machine (on a virtual one, pass the host's processor through)"
        least = "vLLM's CPU build needs AVX2 at least"
        return problem("processor", f"{text}; no AVX2", f"{least}; {fix}")
    if "avx512f" not in flags:
        meaning = "vLLM's CPU kernels for AVX2 are slower and fewer"
        return note("processor", text, f"{meaning}; float32 works, which is the default on CPU")
    return ok("processor", text)


def gpus(listing: str, error: str, visible: str | None, build: str) -> tuple[Finding, int]:
    """The GPUs, and how many of them a process sees.

    Args:
        listing: nvidia-smi's lines `name, memory.total, compute_cap, driver_version`; empty where
            there is no such program.
        error: what nvidia-smi said if it failed.
        visible: CUDA_VISIBLE_DEVICES, None where it is not set.
        build: what the installed vLLM is built for.
    """
    if error:
        fix = "nvidia-smi fails: the driver is not loaded, or not of the version of its libraries"
        verdict = problem if build == "gpu" else note
        return verdict("GPUs", error.strip().splitlines()[-1], fix), 0
    lines = [line.split(",") for line in listing.splitlines() if line.strip()]
    names = [" / ".join(part.strip() for part in parts) for parts in lines]
    if not names:
        return ok("GPUs", "none of NVIDIA's"), 0
    text = "; ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    shown = (
        names if visible is None else [v for v in visible.split(",") if v.strip() not in ("", "-1")]
    )
    hidden = len(names) - len(shown)
    if hidden > 0:
        fix = f"CUDA_VISIBLE_DEVICES={visible!r} hides {hidden} of {len(names)}"
        return note("GPUs", text, f"{fix}; unset it to use them"), len(shown)
    check = "`python -m kernels_check` says whether their results are deterministic"
    return ok("GPUs", text, check), len(names)


def cores(num_cores: int, usable: float) -> Finding:
    """Whether this process may use all CPU cores that the machine shows."""
    if usable >= num_cores:
        return ok("cores", str(num_cores))
    threads = f"set [engine] threads to {max(1, int(usable))} or give the container all"
    return note(
        "cores",
        f"{num_cores}, of which {usable:g} may be used here",
        f"programs that count cores start too many threads: {threads}",
    )


def memory(total: int, available: int, limit: int | None, kv_cache_gib: int) -> Finding:
    """Whether there is memory for an engine that keeps `kv_cache_gib` for keys and values.

    All but that in bytes; `limit` is the container's.
    """
    text = f"{available / GIB:.1f} of {total / GIB:.1f} GiB free"
    if limit is not None:
        text += f"; {limit / GIB:.1f} GiB allowed here"
    usable = min(available, available if limit is None else limit)
    if usable < (kv_cache_gib + 1) * GIB:
        reserve = f"an engine on CPU keeps {kv_cache_gib} GiB for keys and values"
        fix = f"{reserve} ([engine] kv_cache_gib) beside its weights: free some memory"
        return problem("memory", text, fix)
    if usable < SCARCE_MEMORY:
        needs = "twice its parameters in bytes (bfloat16), or four times on CPU (float32)"
        return note("memory", text, f"enough for the demo's model; a larger one needs {needs}")
    return ok("memory", text)


def disk(what: str, folder: Path, free: int, *, writable: bool, variable: str) -> Finding:
    """Whether a folder can be written and has room.

    `free` in bytes; `variable`, or an option, puts it elsewhere.
    """
    text = f"{free / GB:.1f} GB free in {folder}"
    if not writable:
        fix = f"make it writable, or set {variable}"
        return problem(what, f"{folder} cannot be written", fix)
    if free < LEAST_DISK:
        return problem(what, text, f"free some, or put it elsewhere with {variable}")
    if free < SCARCE_DISK:
        return note(what, text, f"little for a large model or run; {variable} puts it elsewhere")
    return ok(what, text)


def shared_memory(free: int | None, needed: int) -> Finding:
    """Whether Ray's store fits into /dev/shm; both in bytes, None where there is no such folder."""
    slow = "Ray keeps its objects in the temporary folder instead, which is slower"
    if free is None:
        return note("shared memory", "no /dev/shm", slow)
    text = f"{free / GIB:.2f} GiB free in /dev/shm"
    if free < needed:
        return note("shared memory", text, f"{slow}; docker run --shm-size=1g")
    return ok("shared memory", text)


def data_mirror(given: str | None, num_splits: int | None) -> Finding:
    """Whether the mirror that DATESWEEP_DATA names is there.

    `num_splits` are the files with rows in it, None if it is no folder.
    """
    what = "data mirror"
    if not given:
        source = "data comes from the cache or the Hub"
        return ok(what, f"none (DATESWEEP_DATA is not set): {source}")
    if num_splits:
        return ok(what, f"{given}, {num_splits} splits; data comes from there and nowhere else")
    files = "<dataset>/<config>/<split>.parquet or .jsonl"
    text = f"{given} is no folder" if num_splits is None else f"{given} has no {files}"
    fix = "correct DATESWEEP_DATA, or unset it to read what was fetched, or the Hub"
    return problem(what, text, fix)


def hub(offline: str, endpoint: str) -> Finding:
    """Whether the Hub can be asked; `offline` is why not, empty where it can."""
    if not offline:
        return ok("Hub", f"{endpoint} answers")
    fix = "`datesweep fetch` brings it from a machine with network"
    rest = "only what was fetched, is in a mirror or in a package can be read"
    return note("Hub", f"out of reach: {offline}", f"{rest}; {fix}")


def token(*, is_set: bool) -> Finding:
    """Whether there is a token for the Hub, which is never shown."""
    if is_set:
        return ok("Hub token", "there is one")
    fix = "gated models and data (Llama, GPQA) need one: `hf auth login`, or set HF_TOKEN"
    return note("Hub token", "none", fix)


def remote(stores: Mapping[str, tuple[str, bool]], scheme: str | None) -> Finding:
    """Which stores a run folder may be in.

    Args:
        stores: scheme -> the package that fsspec needs, and whether it is installed.
        scheme: that of the folder in question; None for a local one.
    """
    installed = {package for package, is_here in stores.values() if is_here}
    lines = []
    for package in dict.fromkeys(package for package, _ in stores.values()):
        names = ", ".join(f"{name}://" for name in stores if stores[name][0] == package)
        lines.append(f"{names} {'with' if package in installed else 'need'} {package}")
    text = "; ".join(sorted(lines, key=lambda line: " need " in line))
    if scheme is None or (scheme in stores and stores[scheme][1]):
        return ok("remote folders", text)
    if scheme not in stores:
        hint = nearest(scheme, stores)
        return problem("remote folders", text, f"fsspec knows no {scheme}://{hint}")
    package = stores[scheme][0]
    command = "pip install 'datesweep[s3]'" if package == "s3fs" else f"pip install {package}"
    return problem("remote folders", text, f"for {scheme}://, {command}")


def ray_start(seconds: float, said: str, *, started: bool) -> Finding:
    """Whether a local Ray session started; `said` is what it has, or the last that it said."""
    if started:
        return ok("Ray", f"a local session started in {seconds:.1f} s: {said}")
    fix = "see the logs in the temporary folder under ray/, or give --address of a cluster"
    return problem(
        "Ray",
        f"no local session after {seconds:.0f} s: {said}",
        f"every stage that generates or scores needs Ray: {fix}",
    )


def sandbox(layers: Mapping[str, tuple[bool, bool, str]], *, is_root: bool) -> list[Finding]:
    """One line for each layer of confinement of the programs that a model writes.

    A layer that does not work is worth a note where no other stands in for it. None stops a run,
    since scoring says under what it ran.

    Args:
        layers: name -> whether it works, whether it is used, what it brings or why not.
        is_root: whether scoring would run as root.
    """
    has_view = any(layers.get(name, (False,))[0] for name in _OWN_VIEW)
    findings = []
    for name, (works, is_used, about) in layers.items():
        needless = (name in _OWN_VIEW and has_view) or (name == "nobody" and not is_root)
        state = "in use" if is_used else "works, not needed" if works else "not here"
        what, text = f"sandbox: {name}", f"{state}: {about}"
        missed = not works and not needless
        findings.append(note(what, text, LAYER_FIXES[name]) if missed else ok(what, text))
    return findings


_OWN_VIEW = ("namespaces", "bubblewrap")
"""Layers that keep other processes and the network out of sight; one is enough."""
LAYER_FIXES = {
    "namespaces": "allow user namespaces (sysctl user.max_user_namespaces and "
    "kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile); without "
    "them and bubblewrap, a model's programs reach the network and see other processes",
    "bubblewrap": "install the package bubblewrap, which may be allowed what others are not",
    "landlock": "needs Linux 5.13 or newer with `landlock` in its list of security modules (lsm=); "
    "without it and the layers above, a model's programs read and write what you can",
    "nobody": "let other users read the folder of the Python interpreter, or do not run as root",
}
"""Layer -> how to get it; every layer that the sandbox offers."""
