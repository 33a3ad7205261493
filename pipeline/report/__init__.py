"""Stage 5: one HTML file that opens offline, for people who were not there; tables for a terminal.

In: the tables of the analyses, and where the run's numbers come from. Out: `report.html`. Nothing
else is needed, so a report can be made again on any machine.
"""

from pipeline.report.lines import Lines as Lines
from pipeline.report.provenance import Provenance as Provenance, provenance_of as provenance_of
from pipeline.report.stage import write as write, write_report as write_report
from pipeline.report.terminal import delta_table as delta_table
