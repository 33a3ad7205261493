"""What sweep and model files may say, as frozen types."""

import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pipeline.core import conditions, dates, registry
from pipeline.core.dates import LeapDay
from pipeline.core.errors import nearest
from pipeline.core.records import Backend, Device


def _day(value: object) -> object:
    if type(value) is datetime.date:
        return value
    try:
        return datetime.date.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error}; allowed: a date like 2024-03-05") from None


def _one_of(kind: str, allowed: list[str]) -> Any:
    def check(value: object) -> object:
        if value not in allowed:
            hint = nearest(value, allowed) if isinstance(value, str) else ""
            raise ValueError(f"no such {kind}; allowed: {', '.join(allowed)}{hint}")
        return value

    return BeforeValidator(check)


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""A name that is also a part of a path."""
Day = Annotated[datetime.date, BeforeValidator(_day)]
Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
T = TypeVar("T")
Some = Annotated[list[T], Field(min_length=1)]
Auto = Literal["auto"]
TaskName = Annotated[str, _one_of("task", registry.names("tasks"))]
FormatName = Annotated[str, _one_of("date format", list(dates.DATE_FORMATS))]
PlacementName = Annotated[str, _one_of("placement", list(conditions.PLACEMENTS))]
WordingName = Annotated[str, _one_of("wording", list(conditions.WORDINGS))]
LocationName = Annotated[str, _one_of("location", list(conditions.LOCATIONS))]
MetricName = Annotated[str, _one_of("metric", registry.names("metrics"))]
StyleName = Annotated[str, _one_of("style", ["zero_shot", "five_shot", "cot"])]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class Spec(BaseModel):
    """Base of all settings: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CalendarSpec(Spec):
    """Which dates are swept."""

    first: Day = datetime.date(2024, 1, 1)
    last: Day = datetime.date(2024, 12, 31)
    step: Positive = 1
    """Days from one swept date to the next."""
    leap_day: LeapDay = "skip"
    """`skip` leaves February 29 out, so that 2024 has the paper's 365 dates."""
    dates: list[Day] | None = None
    """The dates themselves, instead of first, last and step; empty asks the control only."""
    years: Some[Annotated[int, Field(ge=1, le=9999)]] | None = None
    """Sweep the same days of each of these years, instead of the years that the dates name."""
    formats: Some[FormatName] = ["iso"]
    control: bool = True
    """Also ask every item without a date."""
    placebo: NotNegative = 0
    """Dates asked a second time, elsewhere in the batch, which measures the engine's own noise."""

    def days(self) -> list[datetime.date]:
        """The swept dates, ascending, without repeats."""
        if self.dates is None:
            days = dates.calendar(self.first, self.last, self.step, self.leap_day)
        else:
            days = sorted(set(self.dates))
        return days if self.years is None else dates.in_years(days, self.years)


class TaskSpec(Spec):
    """One task of a sweep."""

    name: TaskName
    style: StyleName = "zero_shot"
    rows: Positive | None = None
    """Rows the data set must have: another edition is an error, and not another experiment."""
    limit: Positive | None = None
    """At most this many items, as evenly from each of the task's groups as may be, chosen by a hash
    of their ids; None asks all."""
    subset_seed: NotNegative = 0
    """Which subset `limit` chooses."""
    max_tokens: Positive | None = None
    """Longest output in tokens, instead of the task's own."""
    metrics: Some[MetricName] | None = None
    """What answers are scored by, instead of the task's own metrics."""


class ConditionsSpec(Spec):
    """What is varied beside the date: every item is asked under every combination of the axes."""

    placements: Some[PlacementName] = ["system_start"]
    """Where the date stands. `template` is the `native` mode: the official chat template, with the
    swept date in the slot that it has."""
    wordings: Some[WordingName] = ["none"]
    """What else the system message says, before the task's own text."""
    option_orders: Some[NotNegative] = [0]
    """Seeded orders of options, different for each question; 0 is the order as loaded."""
    locations: Some[LocationName] = ["none"]
    """Where the system message says the user is."""


class EngineSpec(Spec):
    """How the engine runs; `auto` values are resolved for the platform, and recorded."""

    name: Name = "default"
    """Label of this engine setting, a column of every table: name the GPU or the batch size here,
    where runs are to be joined."""
    dtype: Dtype = "auto"
    """Precision of the weights and the computation, instead of the model file's."""
    device: Literal["auto", Device] = "auto"
    replicas: Positive | Auto = "auto"
    """Engines side by side; `auto` is GPUs / tensor-parallel size by node, on CPU one a node."""
    threads: Positive | Auto = "auto"
    """CPU cores of one replica, or of each rank on CPU; `auto` is the most that the nodes have."""
    block_size: Positive | Auto = "auto"
    max_num_seqs: Positive | Auto = "auto"
    """The batch size: the largest number of requests that are computed together."""
    max_num_batched_tokens: Positive | Auto = "auto"
    window: Positive | Auto = "auto"
    """Requests given to the engine at a time: those computed together, and those that wait."""
    kv_cache_gib: Positive = 2
    """Memory for keys and values on CPU, in whole GiB."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    prefix_caching: bool = True
    batch_invariant: bool | Auto = "auto"
    """vLLM's batch-invariant kernels; `auto` asks for them where the model has them, and on GPU,
    since vLLM has none for CPU."""
    seed: NotNegative = 0
    shard_rows: Positive = 2048
    """Completions in one file: what a crash can cost, per replica."""


class WeightsSpec(Spec):
    """Where a model's weights and tokenizer are: exactly one of `hub`, `path`, `package`."""

    hub: str | None = None
    revision: str | None = None
    """Commit of the Hub repository."""
    path: str | None = None
    """A local folder in Hugging Face layout, relative to the model file."""
    package: str | None = None
    """A Python package that carries a GGUF `file`, converted once into the cache."""
    file: str | None = None


class TemplateSpec(Spec):
    """How prompts are rendered.

    In `paper` mode (every placement but `template`) a prompt is the paper's text inside the model's
    special tokens, with no date but the swept one. In `native` mode (placement `template`) it is
    the official chat template, with the swept date in the slot that it has.
    """

    paper: str | None = None
    """Jinja template of `paper` mode, for models whose own template writes a date; None uses the
    checkpoint's template."""
    date_slot: str | None = None
    """Where the checkpoint's template takes its date from in `native` mode: the name of a template
    variable, or `clock`."""
    own_date: Literal["refuse", "keep"] = "refuse"
    """What to do where the template of `paper` mode writes a date beside the swept one."""
    system_role: Literal["system", "developer", "user"] = "system"
    """Role of the message with the system text; `user` puts it before the first user's turn, for
    templates without a system role."""
    kwargs: dict[str, bool | int | float | str] = {}
    """Extra variables of the template, e.g. `enable_thinking = false`."""
    clock: Day = datetime.date(2024, 7, 26)
    """What a template that asks for today's date gets; never the wall clock."""
    control_system: Literal["empty", "omit"] = "empty"
    """What a control does with a system message that would be empty: keep it empty, or have none.

    `empty` changes the least: many templates insert a text of their own where there is no message.
    """


class SamplingSpec(Spec):
    """How tokens are drawn; greedy unless said otherwise. Label tasks never draw."""

    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: NotNegative = 0
    """0 keeps every token."""
    seed: NotNegative = 0


class SimulatedSpec(Spec):
    """What a simulated engine pretends; for tests, dry runs and power analysis."""

    accuracy: Share = 0.6
    amplitude: Share = 0.0
    """Planted date effect: accuracy + amplitude * cos(2 pi * day of year / 365)."""
    flip: Share = 0.1
    """Share of items whose outcome is drawn anew for each date, effect or none."""
    seed: NotNegative = 0


class ModelSpec(Spec):
    """One model file."""

    name: Name
    title: str
    licence: str
    backend: Backend = "vllm"
    weights: WeightsSpec
    dtype: Dtype = "auto"
    """`auto` is float32 on CPU, bfloat16 on GPU."""
    tensor_parallel_size: Positive = 1
    max_model_len: Positive | None = None
    """Longest prompt plus output in tokens; None takes what the plan needs."""
    batch_invariant: bool = True
    """Whether vLLM has batch-invariant kernels for the model, for the engine's `auto`."""
    has_sliding_window: bool = False
    """Whether some layers attend to a window only; of these vLLM caches few blocks by itself."""
    reads_images: bool = False
    """Whether the checkpoint also reads images, for which the engine then reserves nothing."""
    thinking_tokens: NotNegative = 0
    """Tokens beside a task's longest output, for a model that thinks aloud before it answers."""
    label_form: Literal["spaced", "bare"] = "spaced"
    """Label tokens of multiple choice: ` A` behind the prefill `Answer:`, as in the paper, or `A`
    at the start of the assistant's turn."""
    template: TemplateSpec = TemplateSpec()
    sampling: SamplingSpec = SamplingSpec()
    simulated: SimulatedSpec | None = None


class SweepSpec(Spec):
    """One sweep file, with its model files read in."""

    name: Name
    title: str = ""
    description: str = ""
    models: Some[ModelSpec]
    tasks: Some[TaskSpec]
    calendar: CalendarSpec = CalendarSpec()
    conditions: ConditionsSpec = ConditionsSpec()
    engine: EngineSpec = EngineSpec()
    data_root: str | None = None
    """A local mirror of Hub data sets, relative to the sweep file; None reads DATESWEEP_DATA, else
    the Hub."""
    allow_code_execution: bool = False
    """Consent to run programs that the model wrote, which HumanEval's scoring needs."""
    narrowing: dict[str, str] = {}
    """Options of the command line that narrowed the sweep; set by `override`, not in the file."""

    def model(self, name: str) -> ModelSpec:
        """The model called `name`."""
        return next(m for m in self.models if m.name == name)
