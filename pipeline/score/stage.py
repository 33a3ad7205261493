"""Stage 2: completions -> scores, on Ray workers, one chunk of distinct outputs at a time.

A worker that dies costs its chunk, which is given to another; a chunk that keeps killing its
workers is halved until the output that does it stands alone, and that one gets a row with status
`failed`.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline import cluster, tasks
from pipeline.core import tables
from pipeline.core.errors import StoreError
from pipeline.core.progress import Reporter
from pipeline.core.records import Score
from pipeline.plan import check_consent, layers, signatures
from pipeline.sandbox import run as sandbox
from pipeline.score import distinct, evaluate
from pipeline.score.distinct import Chunk
from pipeline.settings import SweepSpec
from pipeline.store import Place, Run, read_parquet, scan_parquet, write_json, write_parquet

RETRIES = 2
"""How often a chunk whose worker died is given to another before it is halved."""
MOST_DEADLY = 8
"""Single outputs that end their worker, before the rest of a chunk is given up: by then the machine
lacks memory, most likely."""


def score(run: Run, spec: SweepSpec, reporter: Reporter, address: str | None = None) -> None:
    """Make every score of `run` that is not there yet, and drop those of outputs, tasks or metrics
    that are no longer in it.

    Raises:
        StoreError: generation is not complete.
        ConfigError: a task runs model-written code without consent; a metric does not fit its task.
    """
    check_consent(spec)
    run.check_generated([model.name for model in spec.models])
    planned = list(distinct.chunks(run, spec))
    todo = distinct.unfinished(run, planned)
    if todo:
        _note_confinement(run, spec, reporter)
        with cluster.session(address) as resources:
            _score_chunks(run, todo, resources, reporter, sum(c.size for c in planned))
        _tell_failed(todo, reporter)
    else:
        reporter.say("score: every output is scored already")
    _drop_stale(run, {c.path for c in planned})


def progress(run: Run, spec: SweepSpec) -> tuple[int, int]:
    """Chunks scored and chunks in all.

    (0, 0) while generation is not complete, since chunks are cut from all outputs.
    """
    try:
        run.check_generated([model.name for model in spec.models])
    except StoreError:
        return 0, 0
    planned = list(distinct.chunks(run, spec))
    return len(planned) - len(distinct.unfinished(run, planned)), len(planned)


def _note_confinement(run: Run, spec: SweepSpec, reporter: Reporter) -> None:
    """Keep how programs are confined here, where the sweep has any, and say so where that is
    little.
    """
    if any(tasks.get(t.name, t.style).executes_code for t in spec.tasks):
        how = sandbox.confinement()
        write_json({"confinement": how}, run.folder / "scores" / "confinement.json")
        if not {"namespaces", "bubblewrap"} & {*sandbox.layers()}:
            reporter.say(
                f"score: programs run with no more than {how} around them; `datesweep "
                "doctor` says why"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker needs to score a chunk."""

    outputs: pl.DataFrame
    """As `distinct.distinct` gives them."""
    items: pl.DataFrame
    signatures: dict[str, str]
    """Of the metrics, by name."""
    known: pl.DataFrame
    """Rows of `Score` that are there already, for some of the outputs."""
    layers: tuple[str, ...] | None
    """How programs are confined, the same on every worker; None where there are none."""
    path: Place

    def unknown(self) -> pl.DataFrame:
        """The outputs that are still to be scored."""
        return self.outputs.join(
            self.known, on=tables.OUTPUT_KEY, how="anti", maintain_order="left"
        )

    def write(self, scored: pl.DataFrame) -> None:
        """Write what is known and what was `scored`, in a fixed order."""
        number = self.outputs.select(*tables.OUTPUT_KEY, pl.row_index("row"))
        ranked = pl.concat([self.known, scored]).join(number, on=tables.OUTPUT_KEY, how="left")
        rows = ranked.sort(pl.col("metric").cast(pl.Enum([*self.signatures])), "row").drop("row")
        write_parquet(rows, self.path)


def score_chunk(work: Work) -> None:
    """Score a chunk and write its files; what a worker does."""
    new = work.unknown()
    work.write(score_rows(work, new) if new.height else work.known.clear())


def score_rows(work: Work, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `Score` for some outputs of a chunk."""
    if work.layers is not None:
        sandbox.use(work.layers)
    return evaluate.scores(rows, work.items, work.signatures)


def _works(run: Run, todo: Iterable[Chunk]) -> Iterator[tuple[Chunk, Work]]:
    items = run.plan_table("items")
    for chunk, outputs in distinct.with_outputs(run, todo):
        asked = items.filter(task=chunk.task.name)
        yield (
            chunk,
            Work(
                outputs=outputs,
                items=asked[chunk.first_item : chunk.last_item + 1],
                signatures=signatures(chunk.task, asked),
                known=_known(chunk),
                layers=layers(chunk.task),
                path=chunk.path.resolve(),
            ),
        )


def _known(chunk: Chunk) -> pl.DataFrame:
    """Scores of a chunk that are there already: those of outputs that did not fail."""
    if not chunk.path.is_file():
        return pl.DataFrame(schema=tables.schema(Score))
    rows = read_parquet(chunk.path)
    return rows.join(rows.filter(status="failed"), on=tables.OUTPUT_KEY, how="anti")


def _score_chunks(
    run: Run, todo: list[Chunk], resources: cluster.Resources, reporter: Reporter, total: int
) -> None:
    import ray

    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(score_chunk)
    waiting, done = _works(run, todo), total - sum(c.size for c in todo)
    running: dict[Any, tuple[Chunk, Work]] = {}
    with reporter.stage("score", total, "distinct outputs") as stage:
        while True:
            # A few chunks more than workers: enough to keep them busy, few enough to keep memory
            # flat.
            for chunk, work in itertools.islice(waiting, 2 * resources.num_cpus - len(running)):
                running[remote.remote(work)] = chunk, work
            if not running:
                return
            for reference in ray.wait(list(running), timeout=5.0)[0]:
                chunk, work = running.pop(reference)
                _finish(reference, work, reporter)
                done += chunk.size
            stage.update(done)


def _finish(reference: Any, work: Work, reporter: Reporter) -> None:
    """Take note of a scored chunk; where it killed its workers, score it part by part."""
    import ray

    try:
        ray.get(reference)
    except cluster.worker_deaths() as error:
        outputs = work.outputs.height
        reporter.say(
            f"score: {type(error).__name__} {RETRIES + 1} times over {outputs} outputs; "
            "looking for the one that is to blame"
        )
        part = ray.remote(num_cpus=1, max_retries=0)(score_rows)
        new = work.unknown()
        work.write(
            evaluate.halving(
                lambda rows: ray.get(part.remote(work, rows)),
                new,
                lambda rows, cause: evaluate.failed(
                    rows, work.items, work.signatures, f"ended its worker: {evaluate.told(cause)}"
                ),
                MOST_DEADLY,
            )
        )


def _tell_failed(scored: list[Chunk], reporter: Reporter) -> None:
    """Say how many outputs could not be scored, and why the first one."""
    found = (
        scan_parquet([c.path for c in scored])
        .filter(pl.col("status") == "failed")
        .select("task", "item_id", "detail")
        .collect()
    )
    if found.height:
        task, item, cause = found.row(0)
        reporter.say(
            f"score: {found.height:,} scores failed and count as missing; the first, "
            f"{task} item {item}: {cause}"
        )


def _drop_stale(run: Run, current: set[Place]) -> None:
    for path in (run.folder / "scores").glob("*/*/*.parquet"):
        if path not in current:
            path.unlink()
