"""Two runs compared pair by pair: against plain recomputation, under simulated nulls and effects,
and by what is said of the rest.
"""

import dataclasses
import datetime
import functools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from pipeline import metrics, store
from pipeline.analyses import Evidence, stats
from pipeline.commands import compare as compared, join as joined
from pipeline.commands.compare import Comparison, _paired, _words
from pipeline.core.errors import ConfigError, StoreError
from tests import synthetic

COUNTS = [name for name, dtype in compared.SCHEMA.items() if dtype == pl.Int64()]


@functools.cache
def measured(**values: Any) -> Evidence:
    """The evidence of one made-up run; equal values give the same one."""
    return synthetic.evidence_of(synthetic.Run(**values))


def row(a: Evidence, b: Evidence, condition: str = "iso", **keys: str) -> dict[str, Any]:
    """The one row of the comparison under a condition."""
    found = compared.compare_evidence(a, b).rows.filter(condition=condition, **keys)
    assert found.height == 1
    return found.row(0, named=True)


def outcomes(**values: Any) -> dict[tuple[str, str], float]:
    """Right (1) or wrong (0) by item and variant, by way of the joined rows of `measured`."""
    rows = synthetic.rows_in(synthetic.parts(synthetic.Run(**values)))
    asked = rows.filter(replicate=0, metric="accuracy")
    return {(r["item_id"], r["variant"]): r["stats"][0] for r in asked.iter_rows(named=True)}


def cells(values: np.ndarray) -> stats.Cells:
    """(num_items, num_dates) outcomes as `Cells`; NaN where there is none."""
    return stats.Cells(
        index=np.where(np.isnan(values), -1, np.nan_to_num(values)).astype(np.int64),
        values=np.array([[0.0], [1.0]]),
        places=np.zeros((2, 1), dtype=np.uint8),
        num_stats=1,
    )


def pairs(a: np.ndarray, b: np.ndarray) -> _paired.Pairs:
    return _paired.pairs(cells(a), cells(b), metrics.get("accuracy").combine)


A = {
    "num_items": 40,
    "num_dates": 12,
    "placebo_every": 4,
    "noise": 0.3,
    "metrics": ("accuracy", "ece"),
}
B = A | {"seed": 1}


def test_scores_and_flips_equal_a_plain_recomputation() -> None:
    a, b = measured(**A), measured(**B)
    in_a, in_b = outcomes(**A), outcomes(**B)
    dated = sorted({variant for _, variant in in_a if variant != "control"})
    found = row(a, b, metric="accuracy")
    by_date = {
        v: [100 * np.mean([o[i, v] for i, w in o if w == v]) for o in (in_a, in_b)] for v in dated
    }
    gaps = {v: score_b - score_a for v, (score_a, score_b) in by_date.items()}
    assert found["score_a"] == pytest.approx(np.mean([s for s, _ in by_date.values()]))
    assert found["score_b"] == pytest.approx(np.mean([s for _, s in by_date.values()]))
    assert found["difference"] == pytest.approx(np.mean(list(gaps.values())))
    assert (found["lowest"], found["highest"]) == (
        pytest.approx(min(gaps.values())),
        pytest.approx(max(gaps.values())),
    )
    assert found["lowest_date"] == datetime.date.fromisoformat(
        min(gaps, key=lambda v: round(gaps[v], 9)).removeprefix("iso:")
    )
    assert found["highest_date"] == datetime.date.fromisoformat(
        max(gaps, key=lambda v: round(gaps[v], 9)).removeprefix("iso:")
    )
    pairs = [(in_a[key], in_b[key]) for key in in_a if key[1] != "control"]
    assert found["num_right_only_a"] == sum(x > y for x, y in pairs)
    assert found["num_right_only_b"] == sum(x < y for x, y in pairs)
    assert found["num_differing"] == found["num_right_only_a"] + found["num_right_only_b"] > 0
    assert (found["num_pairs"], found["num_items"], found["num_dates"]) == (len(pairs), 40, 12)


def test_a_control_is_compared_by_its_one_score() -> None:
    a, b = measured(**A), measured(**B)
    found = row(a, b, "control", metric="accuracy")
    scores = [
        e.by_variant.filter(variant="control", metric="accuracy")["score"].item() for e in (a, b)
    ]
    assert [found["score_a"], found["score_b"]] == pytest.approx(scores)
    assert (found["num_dates"], found["lowest"], found["lowest_date"], found["highest_date"]) == (
        0,
        None,
        None,
        None,
    )
    assert found["low"] <= found["difference"] <= found["high"]


def test_the_interval_equals_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(1)
    a, b = (
        np.where(rng.random((30, 5)) < 0.1, np.nan, rng.random((30, 5)) < 0.5) for _ in range(2)
    )
    both = np.where(np.isnan(a + b), np.nan, 1.0)
    a, b = a * both, b * both
    low, high = _paired.interval(pairs(a, b), num_draws=4000)
    drawn = [rng.integers(30, size=30) for _ in range(4000)]
    plain = [np.mean(100 * (np.nanmean(b[d], axis=0) - np.nanmean(a[d], axis=0))) for d in drawn]
    assert [low, high] == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.8)
    assert high - low > 8


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_a_corpus_score_is_put_together_from_the_sums_of_each_draw(metric: str) -> None:
    kind = {
        "task": "wmt16_en_de",
        "metrics": (metric,),
        "num_items": 12,
        "num_dates": 3,
        "varying": 1.0,
    }
    a, b = measured(**kind), measured(**kind, seed=1)
    found, one = row(a, b), next(a.outcomes())
    other, columns = next(b.outcomes()), one.dates("iso")
    rng = np.random.default_rng(5)
    plain = []
    for _ in range(600):
        drawn = rng.integers(12, size=12)
        scores = [
            stats.scores_by_date(o.stats.items(drawn).dates(columns), o.metric.combine)
            for o in (one, other)
        ]
        plain.append(float(np.mean(scores[1] - scores[0])))
    spread = np.std(plain)
    assert [found["low"], found["high"]] == pytest.approx(
        np.quantile(plain, [0.025, 0.975]), abs=0.35 * spread
    )
    assert (found["num_right_only_a"], found["num_right_only_b"]) == (None, None)
    assert found["num_differing"] > 0


def of_null(
    rng: np.random.Generator, num_items: int, num_dates: int, effect: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of two runs that are equally good, up to `effect`: each has its own strength at each
    item, which all of its dates share.
    """
    share_a, share_b = rng.beta(0.5, 0.5, num_items), rng.beta(0.5, 0.5, num_items)
    draws = rng.random((2, num_items, num_dates))
    gained = rng.random((num_items, 1)) < effect
    return (draws[0] < share_a[:, None]).astype(float), (
        (draws[1] < share_b[:, None]) | gained
    ).astype(float)


def test_the_interval_covers_no_difference_95_times_in_100_though_dates_of_an_item_depend_on_each_other() -> (
    None
):
    rng, covered, called, naive = np.random.default_rng(0), 0, 0, 0
    repetitions = 300
    for _ in range(repetitions):
        a, b = of_null(rng, 60, 6)
        low, high = _paired.interval(pairs(a, b), num_draws=300)
        covered += low <= 0 <= high
        difference = float(100 * (b - a).mean())
        naive += abs(difference) <= 1.96 * 100 * (b - a).std() / np.sqrt(a.size)
        called += (
            stats.p_value(_paired.swapped(pairs(a, b), num_draws=300, seed=0), abs(difference))
            < 0.05
        )
    assert 0.92 <= covered / repetitions <= 0.975
    assert 0.025 <= called / repetitions <= 0.08, "the p-value keeps its level"
    assert naive / repetitions < 0.75, "taking outcomes as independent would not do"


def test_a_planted_effect_lies_in_the_interval_and_is_found() -> None:
    rng, covered = np.random.default_rng(3), 0
    for _ in range(40):
        a, b = of_null(rng, 200, 5, effect=0.5)
        low, high = _paired.interval(pairs(a, b))
        covered += low <= 25 <= high  # half of the items become right, and half of them were
        assert low > 0
        assert _paired.p_value(pairs(a, b), float(100 * (b - a).mean())) < 0.01
    assert covered >= 36


def test_the_p_value_is_that_of_all_swaps() -> None:
    rng = np.random.default_rng(8)
    gaps = rng.integers(-2, 4, 8)  # of 3 dates
    a, b = (
        np.array([[gap * sign > i for i in range(3)] for gap in gaps], dtype=float)
        for sign in (-1, 1)
    )
    signs = np.array([[1 - 2 * (n >> i & 1) for i in range(8)] for n in range(256)])
    exact = np.mean(np.abs(signs @ (b - a).mean(axis=1)) >= abs((b - a).mean(axis=1).sum()) - 1e-9)
    assert 0.02 < exact < 0.6
    difference = float(100 * (b - a).mean())
    assert _paired.p_value(pairs(a, b), difference, max_draws=8000) == pytest.approx(
        exact, abs=0.04
    )


def test_many_items_are_drawn_in_groups_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = of_null(np.random.default_rng(4), 900, 4)
    alone = _paired.interval(pairs(a, b), num_draws=3000)
    monkeypatch.setattr(_paired, "_MAX_GROUPS", 400)
    grouped = pairs(a, b)
    assert grouped.counts.shape == (400, 4)
    assert grouped.counts.sum() == a.size
    assert (grouped.b.sum(axis=0)[:, 0] == b.sum(axis=0)).all()
    assert _paired.interval(grouped, num_draws=3000) == pytest.approx(
        alone, abs=0.12 * (alone[1] - alone[0])
    )


def test_how_many_draws_are_made_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pairs(*of_null(np.random.default_rng(4), 50, 9))
    whole = (_paired.interval(found), _paired.p_value(found, 3.0))
    monkeypatch.setattr(_paired, "_DRAWS_AT_ONCE", 77)
    assert (_paired.interval(found), _paired.p_value(found, 3.0)) == whole


def test_a_small_p_value_comes_from_as_many_draws_as_the_correction_needs() -> None:
    wrong, right = (np.full((40, 2), value) for value in (0.0, 1.0))
    assert _paired.p_value(pairs(wrong, right), 100.0) == pytest.approx(1 / 1001)
    assert _paired.p_value(pairs(wrong, right), 100.0, max_draws=5000) == pytest.approx(1 / 5001)
    assert _paired.p_value(pairs(wrong, wrong), 0.0, max_draws=5000) == 1.0


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    a = synthetic.evidence_of(
        synthetic.Run(num_items=15, num_dates=4, metrics=("accuracy", "ece")),
        synthetic.Run(task="wmt16_en_de", metrics=("bleu", "chrf"), num_items=9, num_dates=3),
    )
    found = compared.compare_evidence(a, a)
    assert found.rows.height == 8
    for name in ("difference", "low", "high", "num_differing"):
        assert (found.rows[name] == 0).all()
    assert (found.rows["p_value_holm"] == 1).all()
    assert found.notes == []


def test_swapping_the_runs_negates_the_differences() -> None:
    a, b = measured(**A), measured(**B, no_answer=0.1)
    there, back = (compared.compare_evidence(x, y).rows for x, y in ((a, b), (b, a)))
    assert (there["difference"] != 0).any()
    for name, other in {
        "difference": "difference",
        "low": "high",
        "high": "low",
        "lowest": "highest",
        "highest": "lowest",
    }.items():
        assert there[name].to_list() == [
            None if value is None else pytest.approx(-value) for value in back[other]
        ], name
    for name, other in (
        ("score_a", "score_b"),
        ("num_right_only_a", "num_right_only_b"),
        ("num_dates_only_a", "num_dates_only_b"),
    ):
        assert there[name].to_list() == back[other].to_list()
    assert there["p_value"].to_list() == back["p_value"].to_list()


def test_the_order_of_rows_does_not_matter() -> None:
    values = {"num_items": 20, "num_dates": 5, "metrics": ("accuracy", "ece")}
    parts = [synthetic.parts(synthetic.Run(**values, seed=seed)) for seed in (0, 1)]
    first = compared.compare_evidence(*(synthetic.evidence_in(part) for part in parts))
    mixed = [
        {name: frame.sample(fraction=1, shuffle=True, seed=7) for name, frame in part.items()}
        for part in parts
    ]
    again = compared.compare_evidence(*(synthetic.evidence_in(part) for part in mixed))
    assert again.rows.equals(first.rows)


def test_only_common_items_and_dates_are_compared_and_the_rest_is_counted() -> None:
    a, b = measured(num_items=30, num_dates=6), measured(num_items=24, num_dates=9, seed=1)
    found = compared.compare_evidence(a, b)
    iso = found.rows.row(by_predicate=pl.col("condition") == "iso", named=True)
    assert (iso["num_items"], iso["num_dates"], iso["num_pairs"]) == (24, 6, 144)
    assert (
        iso["num_items_only_a"],
        iso["num_items_only_b"],
        iso["num_dates_only_a"],
        iso["num_dates_only_b"],
    ) == (6, 0, 0, 3)
    right = outcomes(num_items=30, num_dates=6)
    expected = np.mean(
        [
            value
            for (item, variant), value in right.items()
            if item < "test-00024" and variant != "control"
        ]
    )
    assert iso["score_a"] == pytest.approx(100 * expected)
    assert "left out, mmlu.zero_shot: 6 items only in A, 0 only in B" in found.notes
    assert "left out, iso: 0 dates only in A, 3 only in B" in found.notes


def test_an_outcome_that_failed_in_one_run_leaves_both() -> None:
    made = synthetic.Run(num_items=10, num_dates=3, varying=1.0)
    parts = synthetic.parts(made)
    lost = (
        parts["completions"]
        .filter(pl.col("variant").str.starts_with("iso"))["output_id", "item_id"]
        .row(0)
    )
    is_lost = (pl.col("output_id") == lost[0]) & (pl.col("item_id") == lost[1])
    broken = parts["scores"].with_columns(
        status=pl.when(is_lost).then(pl.lit("failed")).otherwise("status"),
        stats=pl.when(is_lost).then(None).otherwise("stats"),
    )
    a, b = synthetic.evidence_in(parts), synthetic.evidence_in(parts | {"scores": broken})
    found = row(a, b)
    assert found["num_outcomes_only_a"] > 0
    assert found["num_outcomes_only_b"] == 0
    assert found["num_pairs"] == 30 - found["num_outcomes_only_a"]
    assert (found["difference"], found["num_differing"]) == (0, 0), (
        "scored like it in A would be a difference that is none"
    )


def test_items_that_ask_something_else_are_not_pairs() -> None:
    parts = synthetic.parts(synthetic.Run(num_items=10, num_dates=2))
    other = parts["items"].with_columns(
        target=pl.when(pl.col("item_id") == "test-00003").then(pl.lit("Z")).otherwise("target")
    )
    found = compared.compare_evidence(
        synthetic.evidence_in(parts), synthetic.evidence_in(parts | {"items": other})
    )
    assert found.rows["num_items"].to_list() == [9, 9]
    assert found.rows["num_items_changed"].to_list() == [1, 1]
    assert "left out, mmlu: 1 items that ask something else in B" in found.notes


def test_what_one_run_alone_has_is_named() -> None:
    both = {"num_items": 6, "num_dates": 2}
    a = synthetic.evidence_of(
        synthetic.Run(**both),
        synthetic.Run(**both, task="gsm8k"),
        synthetic.Run(**both, placement="user_end", control=False),
    )
    found = compared.compare_evidence(a, measured(**both))
    assert found.rows["condition"].to_list() == ["control", "iso"]
    gone = [
        "gsm8k.zero_shot accuracy, control",
        "gsm8k.zero_shot accuracy, iso",
        "mmlu.zero_shot accuracy, iso;placement=user_end",
    ]
    assert found.notes == [f"left out, only in A: {'; '.join(f'm {name}' for name in gone)}"]


def test_conditions_are_compared_one_by_one() -> None:
    usual = [synthetic.Run(num_items=8, num_dates=3, seed=seed) for seed in (0, 1)]
    pair = [
        synthetic.evidence_of(run, dataclasses.replace(run, placement="user_end", control=False))
        for run in usual
    ]
    rows = compared.compare_evidence(*pair).rows
    assert rows["condition"].to_list() == ["control", "iso", "iso;placement=user_end"]


def test_one_item_has_no_interval() -> None:
    found = row(measured(num_items=1, num_dates=3), measured(num_items=1, num_dates=3, seed=2))
    assert (
        found["num_items"],
        found["low"],
        found["high"],
        found["p_value"],
        found["p_value_holm"],
    ) == (1, None, None, None, None)
    assert found["difference"] is not None


def test_the_noise_floor_stands_beside_the_outcomes_that_differ() -> None:
    found = row(measured(**A), measured(**B | {"placebo_every": 0}), metric="accuracy")
    assert found["placebo_flip_percent_a"] > 0
    assert found["placebo_flip_percent_b"] is None


def test_single_models_and_engines_of_other_names_are_a_pair() -> None:
    a, b = (
        measured(num_items=5, num_dates=2),
        measured(num_items=5, num_dates=2, model="n", engine="batch-8"),
    )
    found = row(a, b)
    assert (found["model_a"], found["model_b"], found["engine_a"], found["engine_b"]) == (
        "m",
        "n",
        "default",
        "batch-8",
    )


def two_models(*names: str) -> Evidence:
    return synthetic.evidence_of(
        *(synthetic.Run(num_items=5, num_dates=2, model=name) for name in names)
    )


def test_a_model_that_both_have_is_compared_with_itself_alone() -> None:
    rows = compared.compare_evidence(two_models("m", "n"), two_models("n", "o")).rows
    assert rows.select("model_a", "model_b").unique().rows() == [("n", "n")]


def test_named_pairs_are_compared_instead() -> None:
    rows = compared.compare_evidence(
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
        compared.compare(folder, folder, [pair])


@pytest.mark.parametrize(
    "other",
    [{"task": "gsm8k"}, {"style": "five_shot"}, {"date_format": "slashes", "control": False}],
    ids=["task", "style", "condition"],
)
def test_runs_without_a_common_key_are_refused_with_what_each_has(other: dict[str, Any]) -> None:
    a, b = measured(num_items=4, num_dates=2), measured(num_items=4, num_dates=2, **other)
    with pytest.raises(
        StoreError,
        match=r"(?s)A and B have nothing in common.*A has: models m; mmlu.zero_shot.*B has: models m; .*--pair",
    ):
        compared.compare_evidence(a, b)


def test_models_that_cannot_be_paired_are_named() -> None:
    with pytest.raises(
        StoreError,
        match=r"(?s)A has: models m, n; .*B has: models o; .*--pair MODEL_OF_A=MODEL_OF_B",
    ):
        compared.compare_evidence(two_models("m", "n"), two_models("o"))


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
        compared.compare_evidence(synthetic.evidence_in(parts), synthetic.evidence_in(renamed))


def run_in(folder: Path, *runs: synthetic.Run, batch: int = 8, signature: str = "s") -> Path:
    """A scored run folder of made-up answers."""
    run, parts, first = store.Run(folder), synthetic.parts(*runs), runs[0]
    models = [{"name": r.model, "dtype": "auto"} for r in runs]
    settings = {
        "sweep": {"name": folder.name, "engine": {"max_num_seqs": batch}, "models": models},
        "checkpoints": {},
        "tasks": {},
    }
    store.write_json({"settings": settings}, run.manifest_path)
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


def test_two_folders_are_compared_and_the_settings_that_differ_are_said(tmp_path: Path) -> None:
    a = run_in(tmp_path / "a", synthetic.Run(num_items=12, num_dates=3))
    b = run_in(
        tmp_path / "b", synthetic.Run(num_items=12, num_dates=3, seed=1), batch=16, signature="t"
    )
    found = compared.compare(str(a), str(b))
    assert found.names == (str(a), str(b))
    in_memory = compared.compare_evidence(
        measured(num_items=12, num_dates=3), measured(num_items=12, num_dates=3, seed=1)
    )
    assert found.rows.equals(in_memory.rows)
    assert found.notes == [
        "mmlu.zero_shot accuracy: A is scored as s (extraction 1), B as t (extraction 1)",
        "sweep.engine.max_num_seqs: A has 8, B 16",
    ]
    assert compared.compare(str(a), str(a)).notes == []


def test_scores_of_an_older_version_are_compared_too(tmp_path: Path) -> None:
    a, b = (run_in(tmp_path / name, synthetic.Run(num_items=5, num_dates=1)) for name in "ab")
    for path in (b / "scores").rglob("*.parquet"):
        store.write_parquet(pl.read_parquet(path).drop("signature", "extraction_version"), path)
    notes = compared.compare(a, b).notes
    assert notes == [
        "mmlu.zero_shot accuracy: A is scored as s (extraction 1), B as unknown "
        "(extraction unknown)"
    ]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no run folder"):
        compared.compare(str(tmp_path / "x"), str(tmp_path / "y"))


def test_the_rows_have_the_schema_that_is_documented_and_can_be_written(tmp_path: Path) -> None:
    rows = compared.compare_evidence(measured(**A), measured(**B)).rows
    assert rows.schema == compared.SCHEMA
    assert (
        not rows.select(COUNTS)
        .select(pl.exclude("year", "num_right_only_a", "num_right_only_b").has_nulls())
        .row(0)
        .count(True)
    )
    joined.write(rows, tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv").height == rows.height
    joined.write(rows, tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").equals(rows)


def printed(comparison: Comparison, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(compared.table_of(comparison))
    return capture.get()


def test_the_table_fits_80_columns_and_names_both_runs() -> None:
    found = compared.compare_evidence(measured(**A), measured(**B), names=("runs/[red]a", "runs/b"))
    text = printed(found)
    for row_ in found.rows.iter_rows(named=True):
        assert f"{row_['low']:.2f} to {row_['high']:.2f}" in text
    assert "B minus A: m" in text
    assert "A: runs/[red]a" in text, "names are text and no markup"
    gained, lost = (
        found.rows.filter(condition="iso", metric="accuracy")
        .select("num_right_only_b", "num_right_only_a")
        .row(0)
    )
    assert f"+{gained} -{lost}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_table_names_the_models_where_there_are_several() -> None:
    text = printed(
        compared.compare_evidence(
            two_models("m", "n"), two_models("n", "o"), [("m", "o"), ("n", "n")]
        ),
        120,
    )
    assert "m and o" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (999_499, "999k"), (999_500, "1.00M")],
)
def test_large_counts_are_shortened(value: int, shown: str) -> None:
    assert _words._count(value) == shown
