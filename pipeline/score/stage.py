"""Stage 2: completions -> scores, on Ray workers, one chunk of distinct outputs at a time.

A worker that dies costs its chunk, which is given to another; a chunk that keeps killing its
workers is halved until the output that does it stands alone, and that one gets a row with status
`failed`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from pipeline import cluster, tasks
from pipeline.core import tables
from pipeline.core.errors import StoreError
from pipeline.core.progress import Reporter
from pipeline.core.records import Score
from pipeline.plan import check_consent, signatures
from pipeline.sandbox.offers import strongest
from pipeline.sandbox.run import Sandbox
from pipeline.score import distinct
from pipeline.score.distinct import Chunk
from pipeline.score.evaluate import Scorer, describe, halving
from pipeline.settings import SweepSpec
from pipeline.store import Place, Run, read_parquet, scan_parquet, write_json, write_parquet

RETRIES = 2
"""How often a chunk whose worker died is given to another before it is halved."""
MOST_DEADLY = 8
"""Single outputs that end their worker, before the rest of a chunk is given up: by then the machine
lacks memory, most likely."""


def score(run: Run, spec: SweepSpec, reporter: Reporter, address: str | None = None) -> None:
    """Make every score of `run` that is not there yet, and drop those that are no longer in it.

    Raises:
        StoreError: generation is not complete.
        ConfigError: a task runs model-written code without consent; a metric does not fit its task.
    """
    check_consent(spec)
    run.check_generated([model.name for model in spec.models])
    planned = list(distinct.chunks(run, spec))
    todo = distinct.unfinished(run, planned)
    if todo:
        sandbox = _choose_sandbox(run, spec, reporter)
        with cluster.session(address) as resources:
            total = sum(chunk.size for chunk in planned)
            _score_chunks(_works(run, todo, sandbox), resources, reporter, todo, total)
        _report_failed(todo, reporter)
    else:
        reporter.say("score: every output is scored already")
    _drop_stale(run, {chunk.path for chunk in planned})


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


def _choose_sandbox(run: Run, spec: SweepSpec, reporter: Reporter) -> Sandbox | None:
    """The strongest sandbox, for all workers alike; None where no task runs programs.

    How it confines is kept beside the scores, and said where that is little.
    """
    if not any(tasks.get(task.name, task.style).executes_code for task in spec.tasks):
        return None
    sandbox = strongest()
    confinement = sandbox.confinement()
    write_json({"confinement": confinement}, run.folder / "scores" / "confinement.json")
    if not sandbox.has_own_root:
        reporter.say(
            f"score: programs run with no more than {confinement} around them; "
            "`datesweep doctor` says why"
        )
    return sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker needs to score a chunk."""

    outputs: pl.DataFrame
    """As `distinct.distinct` gives them."""
    known: pl.DataFrame
    """Rows of `Score` that are there already, for some of the outputs."""
    scorer: Scorer
    path: Place

    def unknown(self) -> pl.DataFrame:
        """The outputs that are still to be scored."""
        key = tables.OUTPUT_KEY
        return self.outputs.join(self.known, on=key, how="anti", maintain_order="left")

    def write(self, scores: pl.DataFrame) -> None:
        """Write what is known and new `scores`, in a fixed order."""
        number = self.outputs.select(*tables.OUTPUT_KEY, pl.row_index("row"))
        rows = pl.concat([self.known, scores]).join(number, on=tables.OUTPUT_KEY, how="left")
        metric = pl.col("metric").cast(pl.Enum([*self.scorer.signatures]))
        write_parquet(rows.sort(metric, "row").drop("row"), self.path, tables.schema(Score))


def score_chunk(work: Work) -> None:
    """Score a chunk and write its file; what a worker does."""
    outputs = work.unknown()
    work.write(score_outputs(work.scorer, outputs) if outputs.height else work.known.clear())


def score_outputs(scorer: Scorer, outputs: pl.DataFrame) -> pl.DataFrame:
    """Rows of `Score` for `outputs`, which may be a part of a chunk."""
    return scorer.scores(outputs)


def _works(run: Run, todo: Iterable[Chunk], sandbox: Sandbox | None) -> Iterator[Work]:
    items = run.plan_table("items")
    for chunk, outputs in distinct.with_outputs(run, todo):
        of_task = items.filter(task=chunk.task.name)
        scorer = Scorer(
            items=of_task[chunk.first_item : chunk.last_item + 1],
            signatures=signatures(chunk.task, of_task),
            sandbox=sandbox,
        )
        path = chunk.path.resolve()
        yield Work(outputs=outputs, known=_known(chunk), scorer=scorer, path=path)


def _known(chunk: Chunk) -> pl.DataFrame:
    """Scores of a chunk that are there already: those of outputs that did not fail."""
    if not chunk.path.is_file():
        return pl.DataFrame(schema=tables.schema(Score))
    rows = read_parquet(chunk.path)
    return rows.join(rows.filter(status="failed"), on=tables.OUTPUT_KEY, how="anti")


def _score_chunks(
    works: Iterable[Work],
    resources: cluster.Resources,
    reporter: Reporter,
    todo: list[Chunk],
    total: int,
) -> None:
    done = total - sum(chunk.size for chunk in todo)
    # A few chunks more than workers: enough to keep them busy, few enough to keep memory flat.
    num_at_once = 2 * resources.num_cpus
    with reporter.stage("score", total, "distinct outputs") as stage:
        for work, death in cluster.spread(
            score_chunk, works, num_at_once=num_at_once, retries=RETRIES
        ):
            if death:
                _score_in_parts(work, death, reporter)
            done += work.outputs.height
            stage.update(done)


def _score_in_parts(work: Work, death: Exception, reporter: Reporter) -> None:
    """Score a chunk that killed its workers part by part, down to the output that does it."""
    reporter.say(
        f"score: {type(death).__name__} {RETRIES + 1} times over {work.outputs.height} outputs; "
        "looking for the one that is to blame"
    )

    def give_up(outputs: pl.DataFrame, error: Exception) -> pl.DataFrame:
        return work.scorer.failed(outputs, f"ended its worker: {describe(error)}")

    def on_a_worker(outputs: pl.DataFrame) -> pl.DataFrame:
        rows: pl.DataFrame = cluster.on_a_worker(score_outputs, work.scorer, outputs)
        return rows

    work.write(halving(on_a_worker, work.unknown(), give_up, MOST_DEADLY))


def _report_failed(chunks: list[Chunk], reporter: Reporter) -> None:
    """Say how many outputs could not be scored, and why the first one."""
    failed = (
        scan_parquet([chunk.path for chunk in chunks])
        .filter(pl.col("status") == "failed")
        .select("task", "item_id", "detail")
        .collect()
    )
    if failed.height:
        task, item, cause = failed.row(0)
        reporter.say(
            f"score: {failed.height:,} scores failed and count as missing; "
            f"the first, {task} item {item}: {cause}"
        )


def _drop_stale(run: Run, current: set[Place]) -> None:
    for path in (run.folder / "scores").glob("*/*/*.parquet"):
        if path not in current:
            path.unlink()
