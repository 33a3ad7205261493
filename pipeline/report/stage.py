"""Tables and provenance become `report.html`."""

from pipeline.core import registry
from pipeline.core.errors import StoreError
from pipeline.report import page
from pipeline.report._shown import Tables
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


def write(folder: Place, tables: Tables, provenance: Provenance) -> Place:
    """Path of `report.html`, written into `folder`.

    It links to the tables that `Run.write_table` puts beside it as `tables/<name>.csv`.

    Args:
        folder: made if missing; a file of the same name is replaced.
        tables: results of all analyses by name; an empty one leaves its section out.
        provenance: what the page says about the run.
    """
    path = folder / "report.html"
    with replacing(path) as part:
        part.write_text(page.html(tables, provenance), encoding="utf-8")
    return path
