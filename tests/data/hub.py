"""A Hub that is a folder which `datasets` itself reads.

Only its network calls are replaced, by answers of recorded shape.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import polars as pl
import pytest
from datasets import Dataset, Features

from pipeline import tasks
from pipeline.core import cache
from pipeline.tasks import Source

MMLU = tasks.get("mmlu").source
COMMIT = "0123456789abcdef0123456789abcdef01234567"
QUIZ = Source(
    dataset="acme/quiz", config="all", split="test", url="https://example.org/quiz", licence="none"
)
ROWS = [
    {"question": f"Which way to {place}?", "answer": i % 2}
    for i, place in enumerate(("Umeå", "Graz", "Cádiz"))
]


class Hub:
    """Data sets in a folder, handed out under the names and commits of the Hub."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.asked, self.commit = root, list[str](), COMMIT
        self.gated = self.unreachable = False
        self.load = datasets.load_dataset
        monkeypatch.setattr(datasets, "load_dataset", self.load_dataset)
        monkeypatch.setattr(
            huggingface_hub.HfApi,
            "dataset_info",
            lambda api, name, **kwargs: self.dataset_info(name),
        )

    def publish(
        self,
        dataset: str,
        splits: Mapping[tuple[str, str], Iterable[Mapping[str, Any]]],
        features: Features | None = None,
    ) -> None:
        """Put (config, split) -> rows on the Hub, as Parquet and with the card's list of files."""
        lines = ["---", "configs:"]
        for (config, split), rows in splits.items():
            file = f"{config}/{split}-00000-of-00001.parquet"
            (self.root / dataset / config).mkdir(parents=True, exist_ok=True)
            Dataset.from_list([dict(r) for r in rows], features=features).to_parquet(
                self.root / dataset / file
            )
            lines += (
                [f"- config_name: {config}", "  data_files:"]
                if f"- config_name: {config}" not in lines
                else []
            )
            lines += [f"  - split: {split}", f"    path: {file}"]
        (self.root / dataset / "README.md").write_text("\n".join([*lines, "---", ""]))

    def dataset_info(self, name: str) -> huggingface_hub.DatasetInfo:
        self.asked.append(name)
        if self.unreachable:
            raise ConnectionError("no route to host")
        raw = {
            "id": name,
            "sha": self.commit,
            "private": False,
            "gated": "auto" if self.gated else False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
        }
        return huggingface_hub.DatasetInfo(**raw)

    def load_dataset(self, name: str, config: str, *, revision: str, **kwargs: Any) -> Any:
        assert revision == self.commit, "rows are read at the commit that is written down"
        if self.gated:
            raise datasets.exceptions.DatasetNotFoundError(
                f"Dataset '{name}' is a gated dataset on the Hub. You must be authenticated."
            )
        return self.load(str(self.root / name), config, **kwargs)


def source(config: str = "all", split: str = "test") -> Source:
    return Source(dataset=QUIZ.dataset, config=config, split=split, url=QUIZ.url, licence="none")


def fetched(path: str) -> Path:
    return cache.folder() / "data" / QUIZ.dataset / path


def mirror(root: Path, rows: list[dict[str, object]], suffix: str, where: Source = MMLU) -> Path:
    folder = root / where.dataset / where.config
    folder.mkdir(parents=True, exist_ok=True)
    if suffix == "parquet":
        pl.DataFrame(rows).write_parquet(folder / f"{where.split}.parquet")
    else:
        (folder / f"{where.split}.jsonl").write_text(
            "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        )
    return root
