"""What was measured, as tables, as a conclusion in plain words, and as a JSON document."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from kernels_check.engine import EngineRow
from kernels_check.ops import OpRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything a check measured; None for a part that was not asked for."""

    ops: Sequence[OpRow] | None
    engine: Sequence[EngineRow] | None
    model: str
    """Name of the model that the engine ran; empty without one."""
    facts: dict[str, Any]
    """`versions`, `hardware` and, of the engine, `settings`."""

    @property
    def all_equal(self) -> bool:
        """Whether every row is bitwise equal."""
        are_ops_equal = all(row.equal for row in self.ops or ())
        return are_ops_equal and all(row.equal for row in self.engine or ())


def tables(findings: Findings) -> list[Table]:
    """A table for each part that was checked."""
    ops = [] if findings.ops is None else [ops_table(findings.ops)]
    if findings.engine is None:
        return ops
    return [*ops, engine_table(findings.engine, findings.model)]


def ops_table(rows: Sequence[OpRow]) -> Table:
    """One line for each op and dtype, with the batches in which a row got other bits than alone."""
    groups: dict[tuple[str, str], list[OpRow]] = {}
    for row in rows:
        groups.setdefault((row.op, row.dtype), []).append(row)
    tried = _sizes({row.batch_size for row in rows})
    heading = ("op", "dtype", "row sizes", "unequal batches", "by at most")
    title = f"Kernels on {rows[0].device}"
    caption = f"a row alone against the same row in batches of {tried}"
    table = Table(*heading, title=title, caption=caption, box=SIMPLE, pad_edge=False)
    for (op, dtype), members in groups.items():
        shapes = ", ".join(_shape(shape) for shape in dict.fromkeys(row.shape for row in members))
        differ = _sizes({row.batch_size for row in members if not row.equal})
        marked = _marked(differ, is_bad=differ != "none")
        table.add_row(op, dtype, shapes, marked, _largest(members))
    return table


def engine_table(rows: Sequence[EngineRow], model: str) -> Table:
    """One line for each schedule and kind of request."""
    heading = ("schedule", "requests", "differ", "other answer", "by at most", "cached")
    title = f"Completions of {model}"
    caption = "against one request at a time with a cold cache"
    table = Table(*heading, title=title, caption=caption, box=SIMPLE, pad_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        differ = _marked(str(row.num_differing), is_bad=not row.equal)
        cached = f"{100 * row.num_cached_tokens / max(row.num_prompt_tokens, 1):.0f}%"
        # A text has no number to subtract.
        largest = "" if row.kind == "text" else _largest([row])
        requests = f"{row.num_requests} {row.kind}"
        answers = str(row.num_differing_answers)
        table.add_row(row.schedule, requests, differ, answers, largest, cached)
    return table


def _marked(text: str, *, is_bad: bool) -> Text:
    return Text(text, style="bold red" if is_bad else "green")


def _shape(shape: tuple[int, ...]) -> str:
    return "→".join(map(str, shape))


def _sizes(sizes: set[int]) -> str:
    return ", ".join(map(str, sorted(sizes))) or "none"


def _largest(rows: Sequence[OpRow] | Sequence[EngineRow]) -> str:
    differences = [row.max_abs_difference for row in rows]
    finite = [value for value in differences if value is not None]
    return "not finite" if len(finite) < len(differences) else f"{max(finite, default=0.0):.2g}"


def conclusion(findings: Findings) -> str:
    """What the rows mean for a sweep, in plain words; nothing about a part that was not checked."""
    parts = []
    ops_differ = any(not row.equal for row in findings.ops or ())
    if findings.ops is not None:
        parts.append(_of_ops(findings.ops))
    if findings.engine is None:
        parts.append("Whether completions depend on the batch is for --engine to say.")
    elif all(row.equal for row in findings.engine):
        parts += ["None of it shows in completions." if ops_differ else "", _EQUAL]
    else:
        parts.append(_of_differing(findings.engine))
    if findings.engine is not None and not any(row.num_cached_tokens for row in findings.engine):
        parts.append("The prefix cache was never hit, so nothing is known about it.")
    return " ".join(part for part in parts if part)


_EQUAL = (
    "Every completion is bitwise equal, however requests were batched, ordered and cached: as far "
    "as these requests show, a flip between dates on this machine is not the engine's doing."
)


def _of_ops(rows: Sequence[OpRow]) -> str:
    differing = dict.fromkeys(f"{row.op} in {row.dtype}" for row in rows if not row.equal)
    if not differing:
        return "Every kernel gave a row the same bits alone and in every batch tried."
    names = ", ".join(differing)
    return f"Some of torch's kernels give a row other bits in a batch than alone: {names}."


def _of_differing(rows: Sequence[EngineRow]) -> str:
    schedules = ", ".join(dict.fromkeys(f"'{row.schedule}'" for row in rows if not row.equal))
    worst = max(row.num_differing_answers for row in rows)
    return (
        f"Completions depend on the schedule: some differ under {schedules}; at most {worst} in "
        "one schedule and kind give another answer. A flip between dates may be the engine's "
        "doing: give the sweep placebo dates (placebo = 3 under [calendar]) and hold every delta "
        "against their flips. On a GPU, keep batch_invariant on under [engine]."
    )


def document(findings: Findings) -> dict[str, Any]:
    """Everything measured, ready for JSON."""
    ops, engine = findings.ops, findings.engine
    return {
        "all_equal": findings.all_equal,
        "conclusion": conclusion(findings),
        "model": findings.model,
        **findings.facts,
        "ops": None if ops is None else [_row(row) for row in ops],
        "engine": None if engine is None else [_row(row) for row in engine],
    }


def _row(row: OpRow | EngineRow) -> dict[str, Any]:
    return {**asdict(row), "equal": row.equal}
