"""Where sweep and model files are, and what they are called."""

import difflib
import os
import tomllib
from pathlib import Path

from pipeline.core.errors import ConfigError, nearest

_MOST_HINTS = 4
"""Sweeps that a hint names at most; all of them are listed behind it."""


def configs_folder() -> Path:
    """DATESWEEP_CONFIGS, else `configs` here, else the one beside the package."""
    if folder := os.environ.get("DATESWEEP_CONFIGS"):
        return Path(folder)
    here = Path("configs")
    return here if here.is_dir() else Path(__file__).parents[2] / "configs"


def model_names() -> list[str]:
    """Names of the model files in the configs folder."""
    return sorted(p.stem for p in (configs_folder() / "models").glob("*.toml"))


def model_path(entry: str, folder: Path = Path()) -> Path:
    """The model file for a path from `folder` that ends in .toml, or for a bare name."""
    return folder / entry if entry.endswith(".toml") else configs_folder() / f"models/{entry}.toml"


def unknown_model(entry: str) -> str:
    """What was given for a model, what is allowed, and the nearest name."""
    known = model_names()
    allowed = f"a .toml file or one of {', '.join(known)}{nearest(entry, known)}"
    return f"given {entry!r}; allowed: {allowed}"


def sweep_names() -> list[str]:
    """Names of the sweep files in the configs folder, with the folders that they are in."""
    folder = configs_folder() / "sweeps"
    return sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.toml"))


def sweep_path(name: str) -> Path:
    """The sweep file for a path or a bare name.

    Raises:
        ConfigError: there is no such file; the message names the nearest one.
    """
    folder, known = configs_folder() / "sweeps", sweep_names()
    for path in (Path(name), folder / f"{name}.toml"):
        if path.is_file():
            return path
    wanted = Path(name).relative_to(folder) if Path(name).is_relative_to(folder) else Path(name)
    hint = _nearest_sweeps(wanted.as_posix().removesuffix(".toml"), known)
    raise ConfigError(
        f"no sweep file {name!r}{hint}; in {folder} there are: {', '.join(known) or 'none'}"
    )


def summary(path: Path) -> dict[str, str]:
    """`title` and `licence` of a sweep or model file, unchecked; empty where it has none."""
    raw = tomllib.loads(path.read_text())
    return {key: str(raw.get(key, "")) for key in ("title", "licence")}


def _nearest_sweeps(wanted: str, known: list[str]) -> str:
    """As `nearest`: sweeps that begin as `wanted` does, else those whose last part is closest."""
    folder, last = Path(wanted).parent, Path(wanted).name
    near = [k for k in known if last and k.startswith(wanted)]
    near = near or [k for k in known if last and Path(k).name.startswith(last)]
    if not near:
        names = sorted({Path(k).name for k in known})
        close = difflib.get_close_matches(last, names, n=1, cutoff=0.5)
        near = [k for k in known if Path(k).name in close]
    near = [k for k in near if Path(k).parent == folder] or near
    return f" (did you mean {' or '.join(map(repr, near[:_MOST_HINTS]))}?)" if near else ""
