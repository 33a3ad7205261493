"""What a run is on disk, and how anything gets there.

In: a folder or a URL. Out: `Run`, whose tables and JSON files are typed; files that are whole or
absent; locks.
"""

from pipeline.store.engine_facts import EngineFacts as EngineFacts
from pipeline.store.files import (
    read_parquet as read_parquet,
    replacing as replacing,
    scan_parquet as scan_parquet,
    write_json as write_json,
    write_parquet as write_parquet,
)
from pipeline.store.manifest import (
    Counts as Counts,
    Manifest as Manifest,
    PlanSettings as PlanSettings,
    TaskSettings as TaskSettings,
    differences as differences,
)
from pipeline.store.places import OBJECT_STORES as OBJECT_STORES, Place as Place
from pipeline.store.prompt_report import PromptReport as PromptReport, PromptTokens as PromptTokens
from pipeline.store.run_folder import PLAN_TABLES as PLAN_TABLES, Run as Run
from pipeline.store.telemetry import Telemetry as Telemetry
