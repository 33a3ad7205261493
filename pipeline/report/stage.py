"""Tables and provenance become `report.html`."""

import polars as pl

from pipeline.core import registry
from pipeline.core.errors import StoreError
from pipeline.report import page
from pipeline.report.provenance import Provenance, provenance_of
from pipeline.settings import SweepSpec
from pipeline.store import Place, Run, replacing


def write_report(run: Run, spec: SweepSpec) -> Place:
    """The path of the report of `run`, written from its tables.

    Raises:
        StoreError: there are no tables yet.
    """
    tables = run.tables()
    if missing := sorted({*registry.names("analyses")} - {*tables}):
        raise StoreError(
            f"{run.folder} lacks the tables {', '.join(missing)}; run `datesweep analyse "
            f"{run.folder}` first"
        )
    return write(run.folder, tables, provenance_of(run, spec))


def write(folder: Place, tables: dict[str, pl.DataFrame], provenance: Provenance) -> Place:
    """Path of `report.html`, written into `folder`.

    It links to the tables that `Run.write_table` puts beside it as `tables/<name>.csv`.

    Args:
        folder: made if missing; files of the same names are replaced.
        tables: results of the analyses by name. `deltas` and `by_date` are needed; a table that is
            missing or empty leaves its section out.
        provenance: what the page says about the run.
    """
    path = folder / "report.html"
    with replacing(path) as part:
        part.write_text(page.html(tables, provenance), encoding="utf-8")
    return path
