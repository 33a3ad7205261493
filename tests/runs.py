"""Run folders, copied and compared."""

import shutil
from pathlib import Path

from pipeline.store.run_folder import Run


def copy_of(run: Run, folder: Path) -> Run:
    """A copy of `run` in `folder`, which is not there yet."""
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns(".lock"))
    return Run(folder)


def files_of(run: Run, *parts: str) -> dict[str, bytes]:
    """The content of every file in the folders `parts` of `run`, by its path."""
    return {
        str(path.relative_to(run.folder)): path.read_bytes()
        for part in parts
        for path in sorted((run.folder / part).rglob("*"))
        if path.is_file()
    }
