"""Tables of made-up runs, computed once a session."""

import polars as pl
import pytest

from pipeline.core import conditions
from tests.synthetic import Run, tables_of


@pytest.fixture(scope="session")
def tables() -> dict[str, pl.DataFrame]:
    small = {"num_items": 60, "num_dates": 8, "placebo_every": 4}
    return tables_of(
        Run(model="one", **small),
        Run(model="two", effect=0.9, **small),
        Run(model="one", task="wmt16_en_de", metrics=("bleu", "chrf"), **small),
    )


@pytest.fixture(scope="session")
def placements() -> dict[str, pl.DataFrame]:
    """Tables of one model and task, with the date in two places."""
    return tables_of(
        Run(num_items=40, num_dates=6, placebo_every=3),
        Run(num_items=40, num_dates=6, placement="user_end", control=False, seed=1),
    )


@pytest.fixture(scope="session")
def wordings() -> dict[str, pl.DataFrame]:
    """Tables of a sweep without dates under the six wordings, each asked twice."""
    runs = [
        Run(
            num_items=40,
            num_dates=0,
            wording=name,
            seed=i,
            placebo_every=1,
            noise=0.3,
            metrics=("accuracy", "ece"),
        )
        for i, name in enumerate(conditions.WORDINGS)
    ]
    return tables_of(*runs)
