"""The report of a run: one HTML file that opens offline, for people who were not there.

`write` needs nothing but the tables of the analyses and the run's provenance, so a report can be
made again on any machine.
"""

from dataclasses import dataclass, field

import polars as pl

from pipeline.store import Place, replacing


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the numbers of a report come from."""

    title: str
    description: str
    is_simulated: bool = False
    """Whether the answers come from the simulated engine and not from a model; the report then says
    so in large letters."""
    narrowing: dict[str, str] = field(default_factory=dict)
    """What was cut from the sweep, e.g. {"limit": "10 items per task"}; empty when all of it
    ran."""
    sections: dict[str, dict[str, str]] = field(default_factory=dict)
    """Heading -> name -> value, shown in this order, e.g. {"Engine": {"vllm": "0.32.1"}}."""


def write(folder: Place, tables: dict[str, pl.DataFrame], provenance: Provenance) -> Place:
    """Path of `report.html`, written into `folder`.

    It links to the tables that `Run.write_table` puts beside it as `tables/<name>.csv`.

    Args:
        folder: made if missing; files of the same names are replaced. tables: results of the
            analyses by name. `deltas` and `by_date` are needed; a table that is missing or empty
            leaves its section out. provenance: what the page says about the run.
    """
    from pipeline.report import page

    path = folder / "report.html"
    with replacing(path) as part:
        part.write_text(page.html(tables, provenance), encoding="utf-8")
    return path
