"""The row types: they are the architecture, and the schemas of tables (`tables.schema`).

A row's key is (model, engine, task, style, item_id, variant, replicate). `model` is the name of a
model file, `engine` the name of the engine setting of the run. Rows are joined by key, never by
position.
"""

import datetime
from dataclasses import dataclass
from typing import Literal, NewType, get_args

CONTROL = "control"
"""The variant without a date, and the first part of the name of others without one; they go through
the same code as every other."""

Index = NewType("Index", int)
"""A row number; 32 bits in tables."""

Status = Literal["scored", "no_answer", "failed", "timeout"]
"""What became of one completion.

* scored: an answer was found and scored;
* no_answer: the model gave none, which counts as 0 by each task's rule;
* timeout: the answer ran longer than it may (pass@1 counts it as 0; it is reported apart);
* failed: our machinery broke; the statistics are null and leave the mean.
"""
STATUSES: tuple[Status, ...] = get_args(Status)
"""In the order of their columns in tables."""

Backend = Literal["vllm", "simulated", "counting"]
"""What answers: vLLM, an engine that plants a date effect, or one that gives every request one of a
few fixed outputs, so that what is left to measure is everything around an engine."""
Device = Literal["cpu", "gpu"]
FinishReason = Literal["stop", "length", "abort", "error", "repetition"]
"""Why an output ends, as vLLM says it; all but the first two are rare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question of a benchmark, as the task loaded it."""

    task: str
    item_id: str
    """Unique within the task and stable across versions of the loader, e.g. `test-00017` or
    `HumanEval/17`."""
    group: str
    """A division of the task that reports may use (MMLU's subject), or an empty string."""
    fields: dict[str, str]
    """What the prompt and the scorer need beside the target, by name."""
    options: list[str]
    """The answer options of a multiple-choice item, in the order shown; empty for other tasks."""
    target: str
    """The right answer in the form `Task.extract` returns: a label, a number, a program, a
    translation."""
    references: list[str]
    """Reference translations; empty for other tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way in which every item is asked: a date, or none, under one condition.

    Each thing that may be varied has its own column.
    """

    variant: str
    """The name in the key: `control`, or the date format and the ISO date, as in `iso:2024-03-05`;
    what else differs from the usual follows, as in `iso:2024-03-05;placement=user_end;order=3`."""
    condition: str
    """The name without the date, as in `iso;placement=user_end;order=3`: variants of one condition
    differ in nothing but the date."""
    date: datetime.date | None
    """The date in the prompt; None for a control."""
    year: int | None
    """The swept year, where a sweep has several; else None."""
    date_format: str
    """A name in `dates.DATE_FORMATS`; empty for a control."""
    date_text: str
    """The date as the prompt shows it; empty for a control."""
    placement: str
    """Where the date stands, a name in `conditions.PLACEMENTS`; empty for a control."""
    wording: str
    """A name in `conditions.WORDINGS`: what the system message says beside the date; `none` is the
    task's own text alone."""
    option_order: int
    """Number of a seeded order of the answer options; 0 is the order as loaded."""
    location: str
    """A name in `conditions.LOCATIONS`: where the prompt says the user is; `none` says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedItem:
    """An item in a style; a row of the plan's table `asked`."""

    task: str
    style: str
    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A variant, or a placebo copy of one; a row of the plan's table `arms`."""

    variant: str
    replicate: int
    """0 for the sweep itself, 1, 2, ... for placebo copies, placed elsewhere in the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One request of the plan: which item under which arm. The same plan serves every model.

    Its row number, from 0, is its position in the prefix order, and its id at the engine.
    `Run.requests` shows rows with their names.
    """

    shard: Index
    item: Index
    """Row of the table `asked`."""
    arm: Index
    """Row of the table `arms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Every sampling value, resolved.

    Nothing is left to a default of the engine or of the checkpoint.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    """0 keeps every token."""
    seed: int | None
    """None when greedy, since the engine then draws nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the engine gets: token ids, never text, so no second chat template can be applied."""

    position: int
    token_ids: list[int]
    """(length,) the whole prompt with exactly one BOS where the model has one."""
    sampling: Sampling
    label_token_ids: tuple[int, ...]
    """(num_labels,) tokens whose log-probability is wanted at the first output position; empty for
    generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What the engine gives back for one request."""

    position: int
    text: str
    """Generated text without special tokens; empty for label requests."""
    label_logprobs: list[float]
    """(num_labels,) natural-log probabilities over the whole vocabulary, raw, in the order of the
    request's label tokens."""
    finish_reason: FinishReason
    num_prompt_tokens: int
    num_cached_tokens: int
    """Prompt tokens whose keys and values came from the prefix cache."""
    num_output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One stored output with its key.

    Nothing in it depends on the order of work, so a shard has the same bytes however it was made.
    """

    model: str
    engine: str
    task: str
    style: str
    item_id: str
    variant: str
    replicate: int
    prompt_hash: str
    """16 hexadecimal digits of the SHA-256 of the token ids sent."""
    output_id: str
    """16 hexadecimal digits naming the output, equal for equal outputs (`tables.output_id`)."""
    text: str
    label_logprobs: list[float]
    finish_reason: FinishReason
    num_prompt_tokens: int
    num_output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric of one distinct output of one item; completions with that output share it."""

    model: str
    engine: str
    task: str
    style: str
    item_id: str
    output_id: str
    metric: str
    status: Status
    answer: str
    """What was extracted: a label, a number, a program, a translation."""
    rule: str
    """The extraction rule that fired."""
    detail: str
    """Why a program failed, or the cause of `failed`; else empty."""
    stats: list[float] | None
    """Sufficient statistics of the metric for this segment; their sum gives the score. None where
    status is `failed`."""
    signature: str
    """The metric's settings and versions."""
    extraction_version: int
    """Version of the extraction that read the answer."""
