"""Outcomes on disk while a run is analysed.

Every analysis asks for all of them, and only one fits in memory beside its work.
"""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses._outcomes import Outcomes

_ARRAYS = ("outputs", "output_answers", "values", "stat_numbers")
"""What is large; the rest stays in memory, but for the answers' texts."""


class Spill:
    """A sequence of outcomes, to go through as often as wanted; its files go when it does."""

    def __init__(self) -> None:
        """None yet."""
        self._folder = tempfile.TemporaryDirectory(prefix="datesweep-")
        self._stubs: list[Outcomes] = []

    def add(self, outcomes: Outcomes) -> None:
        """Keep `outcomes` as the last of the sequence."""
        folder = Path(self._folder.name) / str(len(self._stubs))
        folder.mkdir()
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(outcomes, name))
        outcomes.answer_texts.to_frame("answer").write_ipc(folder / "answer_texts.arrow")
        no_arrays: dict[str, Any] = dict.fromkeys(_ARRAYS, np.empty(0))
        self._stubs.append(dataclasses.replace(outcomes, **no_arrays, answer_texts=pl.Series()))

    def __iter__(self) -> Iterator[Outcomes]:
        for number, stub in enumerate(self._stubs):
            folder = Path(self._folder.name) / str(number)
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
            texts = pl.read_ipc(folder / "answer_texts.arrow")["answer"]
            yield dataclasses.replace(stub, **arrays, answer_texts=texts)
