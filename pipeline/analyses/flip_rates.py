"""How often does an answer change with the date, and how often with the same date asked again?

The second is the noise floor of the first.
"""

from typing import Any

import polars as pl

from pipeline.analyses._evidence import Evidence
from pipeline.analyses._outcomes import AXES, CONDITION, SERIES, SERIES_KEY, Outcomes
from pipeline.analyses._stats import flips, paired_flips, pairwise_flips, percent, wilson

_FLIPPING = ("flipping_percent", "flipping_percent_low", "flipping_percent_high")
_PLACEBO = ("placebo_flip_percent", "placebo_flip_percent_high", "placebo_output_percent")

SCHEMA = pl.Schema(
    SERIES
    | CONDITION
    | dict.fromkeys(("num_items", "num_dates", "num_flipping"), pl.Int64())
    | dict.fromkeys((*_FLIPPING, "pair_flip_percent", "pair_output_percent"), pl.Float64())
    | {"num_placebo_pairs": pl.Int64()}
    | dict.fromkeys(_PLACEBO, pl.Float64())
)


def table(evidence: Evidence) -> pl.DataFrame:
    """One row for each benchmark run, under its headline metric, and condition.

    Conditions are those with dates, and controls with placebo copies.

    * `flipping_percent`: items whose outcome is not the same on all dates, with Wilson's 95%
      interval over items;
    * `pair_flip_percent`: (item, two dates) pairs whose outcomes differ; `pair_output_percent`:
      whose outputs differ in any bit;
    * `placebo_flip_percent`, `placebo_output_percent`: the same for (item, placebo copy) pairs,
      where the date is equal: what the engine does by itself. `placebo_flip_percent_high` is
      Wilson's upper end, taking pairs as independent: what 0 flips in few pairs cannot rule out.

    An outcome is right or wrong, or for metrics that grade (BLEU) the answer's text. Null where
    there is nothing to compare: a condition without dates has a noise floor only.
    """
    headlines = (o for o in evidence.outcomes() if o.is_headline)
    rows = [_row(o, condition) for o in headlines for condition in _conditions(o)]
    return pl.DataFrame(rows, schema=SCHEMA).sort(*SERIES_KEY, *AXES)


def _conditions(outcomes: Outcomes) -> list[str]:
    """Conditions that have something to compare."""
    repeated = [name for name in outcomes.controls() if outcomes.placebos(name)[0].size]
    return [*outcomes.conditions(), *repeated]


def _row(outcomes: Outcomes, condition: str) -> dict[str, Any]:
    """One row of the table."""
    dates = outcomes.dates(condition)
    codes, present = outcomes.codes[:, dates], outcomes.present[:, dates]
    outputs = outcomes.outputs[:, dates]
    num_flipping, num_items = int(flips(codes, present).sum()), int(present.any(axis=1).sum())
    low, high = wilson(num_flipping, num_items)
    return {
        **outcomes.key(condition),
        "num_items": num_items,
        "num_dates": len(dates),
        "num_flipping": num_flipping,
        "flipping_percent": percent(num_flipping, num_items),
        "flipping_percent_low": 100 * low if num_items else None,
        "flipping_percent_high": 100 * high if num_items else None,
        "pair_flip_percent": percent(*pairwise_flips(codes, present)),
        "pair_output_percent": percent(*pairwise_flips(outputs, outputs >= 0)),
        **_placebo(outcomes, condition),
    }


def _placebo(outcomes: Outcomes, condition: str) -> dict[str, Any]:
    """The columns about placebo copies."""
    copies, originals = outcomes.placebos(condition)
    num_flips, num_pairs = outcomes.placebo_flips(condition)
    again, first = outcomes.outputs[:, copies], outcomes.outputs[:, originals]
    high = 100 * wilson(num_flips, num_pairs)[1]
    return {
        "num_placebo_pairs": num_pairs,
        "placebo_flip_percent": percent(num_flips, num_pairs),
        "placebo_flip_percent_high": high if num_pairs else None,
        "placebo_output_percent": percent(*paired_flips(again, first, (again >= 0) & (first >= 0))),
    }
