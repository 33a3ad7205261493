"""What a run is on disk, and how anything gets there.

In: a folder or a URL. Out: `Run`, whose tables and JSON files are typed; files that are whole or absent; locks.
"""

from pipeline.store.files import read_parquet as read_parquet
from pipeline.store.files import replacing as replacing
from pipeline.store.files import scan_parquet as scan_parquet
from pipeline.store.files import write_json as write_json
from pipeline.store.files import write_parquet as write_parquet
from pipeline.store.places import OBJECT_STORES as OBJECT_STORES
from pipeline.store.places import Place as Place
from pipeline.store.run_folder import PLAN_TABLES as PLAN_TABLES
from pipeline.store.run_folder import Run as Run
from pipeline.store.run_folder import differences as differences
from pipeline.store.run_folder import fingerprint as fingerprint
