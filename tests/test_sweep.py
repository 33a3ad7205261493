"""The whole sweep as one call, on a run that the simulated engine made."""

import pytest

from pipeline.analyses import analyse
from pipeline.core.errors import StoreError
from pipeline.core.progress import Reporter
from pipeline.plan import planned_spec
from pipeline.report import provenance_of, write_report
from pipeline.settings.schema import SweepSpec
from pipeline.store.run_folder import Run
from pipeline.sweep import run_sweep
from tests.runs import files_of


def test_a_run_knows_its_settings(simulated_run: Run, simulated_spec: SweepSpec) -> None:
    stored = planned_spec(simulated_run)
    assert stored == simulated_spec.model_copy(update={"data_root": None}), (
        "where the data lay is this machine's affair"
    )


def test_a_report_needs_tables(copied_run: Run, simulated_spec: SweepSpec) -> None:
    (copied_run.folder / "tables" / "deltas.parquet").unlink()
    with pytest.raises(StoreError, match="lacks the tables deltas; run `datesweep analyse"):
        write_report(copied_run, simulated_spec)


def test_a_simulated_run_says_so_in_its_report(simulated_run: Run) -> None:
    assert "simulated" in (simulated_run.folder / "report.html").read_text().lower()
    assert provenance_of(simulated_run, planned_spec(simulated_run)).is_simulated


def test_a_narrowed_run_says_so_in_its_report(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    narrowed = simulated_spec.model_copy(update={"narrowing": {"--limit": "3"}})
    assert provenance_of(simulated_run, narrowed).narrowing == {"--limit": "3"}


def test_provenance_holds_what_a_reader_needs_to_repeat_the_run(
    simulated_run: Run, simulated_spec: SweepSpec
) -> None:
    sections = provenance_of(simulated_run, simulated_spec).sections
    assert sections["Run"]["fingerprint"] == simulated_run.manifest().fingerprint[:16]
    assert "transformers" in sections["Versions"]
    assert "hash" in sections["Model simulated"]["chat template"]
    assert sections["Metrics"]["bleu"].startswith("nrefs:1")
    assert sections["Dates and conditions"]["February 29"] == "left out"


def test_analysing_again_writes_the_same_bytes(copied_run: Run, simulated_spec: SweepSpec) -> None:
    before = files_of(copied_run, "tables")
    analyse(copied_run, simulated_spec, Reporter())
    assert files_of(copied_run, "tables") == before


def test_a_finished_run_is_left_as_it_is(copied_run: Run, simulated_spec: SweepSpec) -> None:
    parts = ("plan", "completions", "scores", "tables")
    before = files_of(copied_run, *parts)
    run_sweep(simulated_spec, copied_run.folder, Reporter())
    assert files_of(copied_run, *parts) == before
