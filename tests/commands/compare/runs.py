"""Made-up runs to compare."""

import functools
from pathlib import Path
from typing import Any

import polars as pl

from pipeline import store
from pipeline.analyses import Evidence
from pipeline.commands.compare import compare_evidence
from tests import synthetic

A = {
    "num_items": 40,
    "num_dates": 12,
    "placebo_every": 4,
    "noise": 0.3,
    "metrics": ("accuracy", "ece"),
}
B = A | {"seed": 1}


@functools.cache
def measured(**values: Any) -> Evidence:
    """The evidence of one made-up run; equal values give the same one."""
    return synthetic.evidence_of(synthetic.Run(**values))


def row(a: Evidence, b: Evidence, condition: str = "iso", **keys: str) -> dict[str, Any]:
    """The one row of the comparison under a condition."""
    rows = compare_evidence(a, b).rows.filter(condition=condition, **keys)
    assert rows.height == 1
    return rows.row(0, named=True)


def outcomes(**values: Any) -> dict[tuple[str, str], float]:
    """Right (1) or wrong (0) by item and variant, by way of the joined rows of `measured`."""
    rows = synthetic.rows_in(synthetic.parts(synthetic.Run(**values)))
    asked = rows.filter(replicate=0, metric="accuracy")
    return {(r["item_id"], r["variant"]): r["stats"][0] for r in asked.iter_rows(named=True)}


def two_models(*names: str) -> Evidence:
    return synthetic.evidence_of(
        *(synthetic.Run(num_items=5, num_dates=2, model=name) for name in names)
    )


def run_in(folder: Path, *runs: synthetic.Run, batch: int = 8, signature: str = "s") -> Path:
    """A scored run folder of made-up answers."""
    run, parts, first = store.Run(folder), synthetic.parts(*runs), runs[0]
    models = [{"name": r.model, "dtype": "auto"} for r in runs]
    settings = {
        "sweep": {"name": folder.name, "engine": {"max_num_seqs": batch}, "models": models},
        "checkpoints": {},
        "tasks": {},
    }
    run.write_manifest(synthetic.manifest(settings))
    for name in ("variants", "items"):
        store.write_parquet(parts[name], folder / "plan" / f"{name}.parquet")
    store.write_parquet(parts["completions"], run.completion_path(first.model, 0))
    scored = parts["scores"].with_columns(
        signature=pl.lit(signature), extraction_version=pl.lit(1, dtype=pl.Int64)
    )
    for path in ("0.parquet", "1.parquet"):
        half = scored.gather_every(2, int(path[0]))
        store.write_parquet(
            half, folder / "scores" / first.model / f"{first.task}.{first.style}" / path
        )
    return folder
