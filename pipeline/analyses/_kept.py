"""Outcomes on disk while a run is analysed: every analysis asks for all of them, and only one fits
in memory beside its work.
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.analyses._outcomes import Outcomes

_ARRAYS = ("outputs", "output_answers", "values", "places")
"""What is large; the rest stays in memory, but for the answers' texts."""


class Kept:
    """A sequence of outcomes, to go through as often as wanted; its files go when it does."""

    def __init__(self) -> None:
        """None yet."""
        self._folder = tempfile.TemporaryDirectory(prefix="datesweep-")
        self._small: list[dict[str, Any]] = []

    def keeping(self, found: Iterable[Outcomes]) -> Iterator[Outcomes]:
        """The outcomes `found`, each of which is kept as it passes."""
        for one in found:
            place = self._place(len(self._small))
            for name in _ARRAYS:
                np.save(place / f"{name}.npy", getattr(one, name))
            one.answer_texts.to_frame("answer").write_ipc(place / "answer_texts.arrow")
            self._small.append(
                {
                    n: getattr(one, n)
                    for n in Outcomes.__slots__
                    if n not in (*_ARRAYS, "answer_texts")
                }
            )
            yield one

    def __iter__(self) -> Iterator[Outcomes]:
        for number, small in enumerate(self._small):
            place = self._place(number)
            arrays = {name: np.load(place / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
            texts = pl.read_ipc(place / "answer_texts.arrow")["answer"]
            yield Outcomes(**small, **arrays, answer_texts=texts)

    def _place(self, number: int) -> Path:
        place = Path(self._folder.name) / str(number)
        place.mkdir(exist_ok=True)
        return place
