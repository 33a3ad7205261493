"""Which models of two runs are compared, and what is refused."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.commands import compare
from pipeline.commands.compare import compare_evidence
from pipeline.core.errors import ConfigError, StoreError
from tests import synthetic
from tests.commands.compare.runs import measured, row, run_in, two_models


def test_single_models_and_engines_of_other_names_are_a_pair() -> None:
    a, b = (
        measured(num_items=5, num_dates=2),
        measured(num_items=5, num_dates=2, model="n", engine="batch-8"),
    )
    compared = row(a, b)
    assert (
        compared["model_a"],
        compared["model_b"],
        compared["engine_a"],
        compared["engine_b"],
    ) == ("m", "n", "default", "batch-8")


def test_a_model_that_both_have_is_compared_with_itself_alone() -> None:
    rows = compare_evidence(two_models("m", "n"), two_models("n", "o")).rows
    assert rows.select("model_a", "model_b").unique().rows() == [("n", "n")]


def test_named_pairs_are_compared_instead() -> None:
    rows = compare_evidence(
        two_models("m", "n"), two_models("n", "o"), [("m", "o"), ("n", "o")]
    ).rows
    assert rows.select("model_a", "model_b").unique().sort("model_a").rows() == [
        ("m", "o"),
        ("n", "o"),
    ]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("m", r"--pair: given 'm'; allowed: MODEL_OF_A=MODEL_OF_B"),
        ("m=", r"given 'm='; allowed"),
        ("a=b=c", r"given 'a=b=c'; allowed"),
        ("modle=m", r"'modle', which RUN_A has not; it has: model \(did you mean 'model'\?\)"),
        ("model=nn", r"'nn', which RUN_B has not; it has: model"),
    ],
)
def test_a_pair_that_cannot_be_is_refused(tmp_path: Path, pair: str, message: str) -> None:
    folder = run_in(tmp_path / "a", synthetic.Run(num_items=3, num_dates=1, model="model"))
    with pytest.raises(ConfigError, match=message):
        compare.compare(folder, folder, [pair])


@pytest.mark.parametrize(
    "other",
    [{"task": "gsm8k"}, {"style": "five_shot"}, {"date_format": "slashes", "control": False}],
    ids=["task", "style", "condition"],
)
def test_runs_without_a_common_key_are_refused_with_what_each_has(other: dict[str, Any]) -> None:
    a, b = measured(num_items=4, num_dates=2), measured(num_items=4, num_dates=2, **other)
    said = r"(?s)A and B have nothing in common.*A has: models m; mmlu.zero_shot.*B has: models m; "
    with pytest.raises(StoreError, match=said + ".*--pair"):
        compare_evidence(a, b)


def test_models_that_cannot_be_paired_are_named() -> None:
    with pytest.raises(
        StoreError,
        match=r"(?s)A has: models m, n; .*B has: models o; .*--pair MODEL_OF_A=MODEL_OF_B",
    ):
        compare_evidence(two_models("m", "n"), two_models("o"))


def test_runs_without_a_common_item_are_refused() -> None:
    parts = synthetic.parts(synthetic.Run(num_items=4, num_dates=2))
    renamed = {
        n: f.with_columns(pl.col("item_id").str.replace("test", "val"))
        if "item_id" in f.columns
        else f
        for n, f in parts.items()
    }
    with pytest.raises(
        StoreError, match=r"(?s)nothing in common.*items test-00000, .*items val-00000, "
    ):
        compare_evidence(synthetic.evidence_in(parts), synthetic.evidence_in(renamed))
