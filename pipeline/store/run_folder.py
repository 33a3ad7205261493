"""The run folder: a stage reads one part of it and writes another.

A file is done if and only if it has its final name.

    manifest.json                  what the run was planned with: `Manifest`
    plan/<table>.parquet           what is asked: `PLAN_TABLES`
    plan/prompts.json              what was found of each model's prompts: `PromptReport`
    engines/<model>.json           versions, hardware and settings that the engine honoured
    completions/<model>/<shard>.parquet             what the models answered
    scores/<model>/<task>.<style>/<chunk>.parquet   what the answers are worth
    scores/metrics.json, confinement.json           which metrics were chosen; how programs ran
    tables/<name>.parquet, .csv    what the scores say
    report.html
    telemetry/<model>/<shard>.json how long it took and what the cache saved
    logs/                          what engines and workers said, on the machine itself if remote

Telemetry and logs are the only parts that differ between two runs of one sweep.

A folder is a local path, network drives included, or a URL that fsspec can write, such as
`s3://bucket/run`, with the package for its scheme installed (s3fs for this one) and credentials
where fsspec and Polars find them on every node. Run here: `memory://` and `file://` URLs, and S3
against a simulated server on one machine. Not run: Amazon's S3, Google's and Azure's stores.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from pipeline.core import cache, locks, tables
from pipeline.core.errors import StoreError, first_few, nearest
from pipeline.core.records import Arm, AskedItem, Item, PlanRow, Variant
from pipeline.store.engine_facts import EngineFacts, read_engine_facts, write_engine_facts
from pipeline.store.files import read_parquet, replacing, scan_parquet, write_json, write_parquet
from pipeline.store.lease import in_use, leased
from pipeline.store.manifest import Manifest, PlanSettings, differences
from pipeline.store.places import Place, Remote, place
from pipeline.store.prompt_report import PromptReport, from_json, to_json
from pipeline.store.telemetry import Telemetry, read_telemetry, write_telemetry

PLAN_TABLES: dict[str, type] = {
    "items": Item,
    "examples": Item,
    "variants": Variant,
    "asked": AskedItem,
    "arms": Arm,
    "requests": PlanRow,
}
"""Tables of the plan, and the record that each row of them is."""


class Run:
    """One run folder."""

    def __init__(self, folder: str | Place) -> None:
        """Name the folder, a path or a URL; nothing is read or written yet."""
        self.folder = place(folder)

    @classmethod
    def open(cls, folder: str | Place) -> "Run":
        """The run in an existing `folder`.

        Raises:
            StoreError: there is none; the message names the runs beside it.
        """
        run = cls(folder)
        if not run.manifest_path.is_file():
            raise StoreError(
                f"{folder} is no run folder (it has no "
                f"manifest.json){_beside(run.folder)}; `datesweep plan SWEEP` makes one"
            )
        return run

    @property
    def logs(self) -> Path:
        """Where engines write what they say; of a remote folder, in the cache of their machine."""
        if isinstance(self.folder, Path):
            return self.folder / "logs"
        digest = hashlib.sha256(self.folder.url.encode()).hexdigest()
        return cache.folder() / "logs" / f"{self.folder.name}-{digest[:8]}"

    @property
    def manifest_path(self) -> Place:
        """The file whose presence makes a folder a run."""
        return self.folder / "manifest.json"

    @property
    def report_path(self) -> Place:
        """Where the report goes."""
        return self.folder / "report.html"

    def manifest(self) -> Manifest:
        """What the run was planned with.

        Raises:
            StoreError: the file is not of this version of datesweep, or was changed by hand.
        """
        try:
            return Manifest.model_validate_json(self.manifest_path.read_text())
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise StoreError(
                f"{self.manifest_path} cannot be read: {where}: {first['msg']}; it was written by "
                "another version of datesweep, or changed by hand: give another folder with --out"
            ) from None

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the file that makes the folder a run."""
        write_json(manifest.model_dump(mode="json"), self.manifest_path)

    def claim(self, settings: PlanSettings) -> bool:
        """Whether the folder holds a plan for exactly these `settings`; False when it is new.

        Raises:
            StoreError: it holds a run of other settings; the message names the keys that differ.
        """
        if not self.manifest_path.is_file():
            return False
        planned = self.manifest()
        if planned.fingerprint == settings.fingerprint():
            return True
        old, new = (one.model_dump(mode="json") for one in (planned.settings, settings))
        lines = "\n  ".join(first_few(differences(old, new), 12))
        raise StoreError(
            f"{self.folder} holds a run of other settings; nothing was changed. "
            f"These keys differ:\n  {lines}\nGive another folder with --out, or delete this one."
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While inside, no other process works on this folder.

        The lock falls with the process, however it ends. A remote folder has a lease instead, which
        is weaker; `lease.leased` says how.

        Raises:
            StoreError: another process has it, or the folder cannot be written.
        """
        if isinstance(self.folder, Remote):
            with leased(self.folder):
                yield
            return
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locks.exclusive(self.folder / ".lock", wait=False))
            except locks.LockTakenError:
                raise in_use(self.folder) from None
            except OSError as error:
                raise StoreError(f"{self.folder} cannot be locked: {error}") from None
            yield

    def write_plan(
        self, manifest: Manifest, prompts: dict[str, PromptReport], frames: dict[str, pl.DataFrame]
    ) -> None:
        """Write the plan; the manifest comes last, so a folder with a manifest has a whole plan."""
        for name, record in PLAN_TABLES.items():
            path = self.folder / "plan" / f"{name}.parquet"
            write_parquet(frames[name], path, tables.schema(record))
        reports = {model: to_json(report) for model, report in prompts.items()}
        write_json(reports, self.folder / "plan" / "prompts.json")
        self.write_manifest(manifest)

    def plan_table(self, name: str) -> pl.DataFrame:
        """One of `PLAN_TABLES`."""
        return read_parquet(self.folder / "plan" / f"{name}.parquet")

    def requests(self) -> pl.LazyFrame:
        """The plan's requests with their names, in plan order.

        Columns `position`, `shard`, `task`, `style`, `item_id`, `variant`, `replicate`.
        """
        items = self.plan_table("asked").lazy().with_row_index("item")
        arms = self.plan_table("arms").lazy().with_row_index("arm")
        named = self._requests.with_row_index("position").join(
            items, on="item", maintain_order="left"
        )
        named = named.join(arms, on="arm", maintain_order="left")
        return named.select("position", "shard", "task", "style", "item_id", "variant", "replicate")

    @property
    def _requests(self) -> pl.LazyFrame:
        return scan_parquet([self.folder / "plan" / "requests.parquet"])

    def shard_sizes(self) -> dict[int, int]:
        """Requests of each shard, in plan order."""
        sizes = self._requests.group_by("shard").len().sort("shard").collect()
        return dict(zip(sizes["shard"].to_list(), sizes["len"].to_list(), strict=True))

    def shards_of(self, task: str, style: str, item_ids: pl.Series) -> list[int]:
        """Shards of the plan that ask some items of a benchmark, in order."""
        numbered = self.plan_table("asked").with_row_index("item").filter(task=task, style=style)
        items = numbered.filter(pl.col("item_id").is_in(item_ids.implode()))["item"]
        asking = self._requests.filter(pl.col("item").is_in(items.implode()))
        return asking.select(pl.col("shard").unique().sort()).collect()["shard"].to_list()

    def prompts(self) -> dict[str, PromptReport]:
        """What the plan found of each model's prompts."""
        reports = json.loads((self.folder / "plan" / "prompts.json").read_text())
        return {model: from_json(fields) for model, fields in reports.items()}

    def completion_path(self, model: str, shard: int) -> Place:
        """Where the completions of one shard go."""
        return self.folder / "completions" / model / f"{shard:06d}.parquet"

    def missing_shards(self, model: str, shards: list[int]) -> list[int]:
        """Those of `shards` that have no completions yet, in order."""
        # One listing: a store takes tens of milliseconds for each file asked after.
        done = {path.name for path in (self.folder / "completions" / model).glob("*.parquet")}
        return [s for s in shards if self.completion_path(model, s).name not in done]

    def completions(self, model: str | None = None) -> pl.LazyFrame:
        """All stored completions, of one model or of all."""
        return self._scan("completions", f"{model or '*'}/*.parquet")

    def scores(self) -> pl.LazyFrame:
        """All stored scores."""
        return self._scan("scores", "*/*/*.parquet")

    def check_generated(self, models: Iterable[str]) -> None:
        """Nothing, or StoreError with how much of each of `models` is missing."""
        shards = list(self.shard_sizes())
        missing = {name: len(self.missing_shards(name, shards)) for name in models}
        lines = [f"{name}: {n} of {len(shards)} shards" for name, n in missing.items() if n]
        if lines:
            raise StoreError(
                f"generation is not complete: {'; '.join(lines)} missing; "
                f"run `datesweep generate {self.folder}` first"
            )

    def chosen_metrics(self) -> dict[str, list[str]]:
        """Benchmark -> the metrics that were chosen for its scores; empty where none were."""
        path = self.folder / "scores" / "metrics.json"
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    def choose_metrics(self, chosen: dict[str, list[str]]) -> None:
        """Keep `chosen_metrics` beside the scores."""
        write_json(chosen, self.folder / "scores" / "metrics.json")

    def confinement(self) -> dict[str, str]:
        """How programs that the model wrote were confined; empty where none ran."""
        path = self.folder / "scores" / "confinement.json"
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    def _scan(self, part: str, pattern: str) -> pl.LazyFrame:
        files = self._files(part, pattern)
        if not files:
            raise StoreError(
                f"{self.folder} has no {part} yet; `datesweep status {self.folder}` tells "
                "what is done"
            )
        return scan_parquet(files)

    def _files(self, part: str, pattern: str) -> list[Place]:
        """The files of one part of the folder, in the order of their names part by part."""
        paths: list[Place] = [*(self.folder / part).glob(pattern)]
        return sorted(paths, key=lambda path: str(path).split("/"))

    def engine_facts(self, model: str) -> EngineFacts | None:
        """What the engine of `model` honoured when it started; None before the first start."""
        return read_engine_facts(self._engine_path(model))

    def write_engine_facts(self, model: str, facts: EngineFacts) -> None:
        """Keep what the engine of `model` honoured."""
        write_engine_facts(facts, self._engine_path(model))

    def _engine_path(self, model: str) -> Place:
        return self.folder / "engines" / f"{model}.json"

    def telemetry(self) -> list[Telemetry]:
        """How every shard was made so far."""
        return read_telemetry(self._files("telemetry", "*/*.json"))

    def write_telemetry(self, telemetry: Telemetry) -> None:
        """Keep how a shard was made."""
        path = self.folder / "telemetry" / telemetry.model / f"{telemetry.shard:06d}.json"
        write_telemetry(telemetry, path)

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        """Write an analysis table as parquet and CSV; list columns are left out of the CSV."""
        write_parquet(table, self.folder / "tables" / f"{name}.parquet")
        flat = table.select(c for c, t in table.schema.items() if not t.is_nested())
        with replacing(self.folder / "tables" / f"{name}.csv") as part:
            flat.write_csv(part, float_precision=6)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Every analysis table by name."""
        return {p.stem: read_parquet(p) for p in self._files("tables", "*.parquet")}


def _beside(folder: Place) -> str:
    """The runs beside a local `folder`, for an error message.

    A bucket may be long to list, or not be ours to list.
    """
    if isinstance(folder, Remote):
        return ""
    known = sorted(p.parent.name for p in folder.parent.glob("*/manifest.json"))
    there = f"; in {folder.parent} there are: {', '.join(known)}{nearest(folder.name, known)}"
    return there if known else ""
