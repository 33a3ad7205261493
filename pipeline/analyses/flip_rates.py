"""How often an item's outcome changes with the date, beside how often it changes with nothing
changed: the noise floor.
"""

from typing import Any

import polars as pl

from pipeline.analyses import AXES, CONDITION, SERIES_KEY, Evidence, Outcomes, _stats as stats

TITLE = "Flip rates"
QUESTION = (
    "How often does an answer change with the date, and how often with the same date asked again?"
)

SCHEMA = pl.Schema(
    {name: pl.String() for name in SERIES_KEY}
    | dict(CONDITION)
    | {name: pl.Int64() for name in ("num_items", "num_dates", "num_flipping")}
    | {
        name: pl.Float64()
        for name in ("flipping_percent", "flipping_percent_low", "flipping_percent_high")
    }
    | {
        "pair_flip_percent": pl.Float64(),
        "pair_output_percent": pl.Float64(),
        "num_placebo_pairs": pl.Int64(),
    }
    | {
        name: pl.Float64()
        for name in ("placebo_flip_percent", "placebo_flip_percent_high", "placebo_output_percent")
    }
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each benchmark run, under its headline metric, and condition: those with dates,
    and controls with placebo copies.

    * `flipping_percent`: items whose outcome is not the same on all dates, with Wilson's 95%
      interval over items;
    * `pair_flip_percent`: (item, two dates) pairs whose outcomes differ; `pair_output_percent`:
      whose outputs differ in any bit;
    * `placebo_flip_percent`, `placebo_output_percent`: the same for (item, placebo copy) pairs,
      where the date is equal: what the engine does by itself. `placebo_flip_percent_high` is
      Wilson's upper end, taking pairs as independent: what 0 flips in few pairs cannot rule out.

    An outcome is right or wrong, or for metrics that grade (BLEU) the answer's text. Null where
    there is nothing to compare:
    a condition without dates has a noise floor only.
    """
    rows = [
        _row(o, condition)
        for o in evidence.outcomes()
        if o.is_headline
        for condition in _conditions(o)
    ]
    return pl.DataFrame(rows, schema=SCHEMA).sort(*SERIES_KEY, *AXES)


def _conditions(outcomes: Outcomes) -> list[dict[str, Any]]:
    """Conditions that have something to compare."""
    repeated = [c for c in outcomes.controls() if outcomes.placebos(c["condition"])[0].size]
    return [*outcomes.conditions(), *repeated]


def _row(outcomes: Outcomes, condition: dict[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    dates = outcomes.dates(condition["condition"])
    codes = outcomes.codes[:, dates]
    present = outcomes.present[:, dates]
    outputs = outcomes.outputs[:, dates]
    num_flipping, num_items = int(stats.flips(codes, present).sum()), int(present.any(axis=1).sum())
    low, high = stats.wilson(num_flipping, num_items)
    return {
        **outcomes.series,
        **condition,
        "num_items": num_items,
        "num_dates": len(dates),
        "num_flipping": num_flipping,
        "flipping_percent": _percent(num_flipping, num_items),
        "flipping_percent_low": 100 * low if num_items else None,
        "flipping_percent_high": 100 * high if num_items else None,
        "pair_flip_percent": _percent(*stats.pairwise_flips(codes, present)),
        "pair_output_percent": _percent(*stats.pairwise_flips(outputs, outputs >= 0)),
        **_placebo(outcomes, condition["condition"]),
    }


def _placebo(outcomes: Outcomes, condition: str) -> dict[str, Any]:
    """The columns about placebo copies."""
    copies, originals = outcomes.placebos(condition)
    num_flips, num_pairs = outcomes.placebo_flips(condition)
    again, first = outcomes.outputs[:, copies], outcomes.outputs[:, originals]
    outputs = stats.paired_flips(again, first, (again >= 0) & (first >= 0))
    return {
        "num_placebo_pairs": num_pairs,
        "placebo_flip_percent": _percent(num_flips, num_pairs),
        "placebo_flip_percent_high": 100 * stats.wilson(num_flips, num_pairs)[1]
        if num_pairs
        else None,
        "placebo_output_percent": _percent(*outputs),
    }


def _percent(count: int, total: int) -> float | None:
    return 100.0 * count / total if total else None
