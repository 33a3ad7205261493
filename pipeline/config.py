"""Settings files: TOML in, frozen `SweepSpec` and `ModelSpec` out. Nothing else in the project parses settings.

Everything wrong with a sweep and its model files is reported at once, each fault with its file, its path in the file, what was given, what
is allowed and the nearest valid name. Importing this module, and refusing a bad file, loads nothing heavy.
"""

import datetime
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pipeline import dates, registry
from pipeline.errors import ConfigError, nearest


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
Auto = Literal["auto"]
TaskName = Annotated[str, _one_of("task", registry.names("tasks"))]
FormatName = Annotated[str, _one_of("date format", list(dates.DATE_FORMATS))]


class Spec(BaseModel):
    """Base of all settings: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CalendarSpec(Spec):
    """Which dates are swept."""

    first: Day = datetime.date(2024, 1, 1)
    last: Day = datetime.date(2024, 12, 31)
    step: Positive = 1
    """Days from one swept date to the next."""
    leap_day: Literal["skip", "keep"] = "skip"
    """`skip` leaves February 29 out, so that 2024 has the paper's 365 dates."""
    dates: Annotated[list[Day], Field(min_length=1)] | None = None
    """The dates themselves, instead of first, last and step."""
    formats: Annotated[list[FormatName], Field(min_length=1)] = ["iso"]
    control: bool = True
    """Also ask every item without a date."""
    placebo: NotNegative = 0
    """How many dates are asked a second time, elsewhere in the batch; they measure the engine's own noise."""

    def days(self) -> list[datetime.date]:
        """The swept dates, ascending, without repeats."""
        if self.dates is not None:
            return sorted(set(self.dates))
        return dates.calendar(self.first, self.last, self.step, self.leap_day)


class TaskSpec(Spec):
    """One task of a sweep."""

    name: TaskName
    style: Literal["zero_shot"] = "zero_shot"
    limit: Positive | None = None
    """At most this many items, chosen by a hash of their ids; None asks all."""
    max_tokens: Positive | None = None
    """Longest output in tokens, instead of the task's own."""


class EngineSpec(Spec):
    """How the engine runs; `auto` values are resolved for the platform in `engine.py` and recorded."""

    name: Name = "default"
    """Label of this engine setting, a column of every table."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    replicas: Positive | Auto = "auto"
    """Engines side by side; `auto` is GPUs / tensor-parallel size, and 1 on CPU."""
    threads: Positive | Auto = "auto"
    """CPU cores of one replica on CPU; `auto` divides the machine's cores among the replicas."""
    block_size: Positive | Auto = "auto"
    max_num_seqs: Positive | Auto = "auto"
    max_num_batched_tokens: Positive | Auto = "auto"
    kv_cache_gib: Positive = 2
    """Memory for keys and values on CPU, in whole GiB."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    prefix_caching: bool = True
    batch_invariant: bool | Auto = "auto"
    """vLLM's batch-invariant kernels; `auto` asks for them on GPU, and not on CPU, where vLLM has none."""
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
    """How the model's chat template is rendered."""

    kwargs: dict[str, bool | int | float | str] = {}
    """Extra variables of the template, e.g. `enable_thinking = false`."""
    clock: Day = datetime.date(2024, 7, 26)
    """What a template that asks for today's date gets; never the wall clock."""
    control_system: Literal["empty", "omit"] = "empty"
    """What a control prompt does with a system message that would be empty: keep it empty, or have none.

    `empty` changes the least: many templates insert a text of their own when there is no system message at all.
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

    accuracy: Annotated[float, Field(ge=0, le=1)] = 0.6
    amplitude: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Planted date effect: accuracy + amplitude * cos(2 pi * day of year / 365)."""
    flip: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of items whose outcome is drawn anew for each date, whether or not there is an effect."""
    seed: NotNegative = 0


class ModelSpec(Spec):
    """One model file."""

    name: Name
    title: str
    licence: str
    backend: Literal["vllm", "simulated"] = "vllm"
    weights: WeightsSpec
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """`auto` is float32 on CPU, bfloat16 on GPU."""
    tensor_parallel_size: Positive = 1
    max_model_len: Positive | None = None
    """Longest prompt plus output in tokens; None takes what the plan needs."""
    template: TemplateSpec = TemplateSpec()
    sampling: SamplingSpec = SamplingSpec()
    simulated: SimulatedSpec | None = None


class SweepSpec(Spec):
    """One sweep file, with its model files read in."""

    name: Name
    title: str = ""
    description: str = ""
    models: Annotated[list[ModelSpec], Field(min_length=1)]
    tasks: Annotated[list[TaskSpec], Field(min_length=1)]
    calendar: CalendarSpec = CalendarSpec()
    engine: EngineSpec = EngineSpec()
    data_root: str | None = None
    """A local mirror of Hub data sets, relative to the sweep file; None reads DATESWEEP_DATA, else the Hub."""
    allow_code_execution: bool = False
    """Consent to run programs that the model wrote, which HumanEval's scoring needs."""
    narrowing: dict[str, str] = {}
    """Options of the command line that narrowed the sweep; set by `narrow`, not in the file."""

    def model(self, name: str) -> ModelSpec:
        """The model called `name`."""
        return next(m for m in self.models if m.name == name)


def configs_folder() -> Path:
    """Where named models and sweeps are: DATESWEEP_CONFIGS, else `configs` here, else the one beside the package."""
    if folder := os.environ.get("DATESWEEP_CONFIGS"):
        return Path(folder)
    here = Path("configs")
    return here if here.is_dir() else Path(__file__).parent.parent / "configs"


def sweep_path(name: str) -> Path:
    """The sweep file for a path or a bare name.

    Raises:
        ConfigError: there is no such file; the message names the nearest one.
    """
    folder = configs_folder() / "sweeps"
    for path in (Path(name), folder / f"{name}.toml"):
        if path.is_file():
            return path
    known = sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.toml"))
    hint = nearest(Path(name).stem, known)
    raise ConfigError(f"no sweep file {name!r}{hint}; in {folder} there are: {', '.join(known) or 'none'}")


def model_names() -> list[str]:
    """Names of the model files in the configs folder."""
    return sorted(p.stem for p in (configs_folder() / "models").glob("*.toml"))


def summary(path: Path) -> dict[str, str]:
    """`title` and `licence` of a sweep or model file, empty where it has none; for lists, without checking the rest."""
    raw = tomllib.loads(path.read_text())
    return {key: str(raw.get(key, "")) for key in ("title", "licence")}


def narrow(
    spec: SweepSpec,
    *,
    limit: int | None = None,
    days: str | None = None,
    models: str | None = None,
    tasks: str | None = None,
) -> SweepSpec:
    """The sweep with fewer items, dates, models or tasks; what was narrowed is kept in `narrowing`.

    `days` is `2024-01-05,2024-07-05`, a range `2024-01-01..2024-01-31`, or a count of dates to spread over the calendar; `models` and
    `tasks` are names separated by commas.

    Raises:
        ConfigError: a name or date that the sweep does not have.
    """
    changes: dict[str, Any] = {}
    if limit is not None:
        if limit < 1:
            raise ConfigError(f"--limit: given {limit}; allowed: a whole number from 1")
        changes["tasks"] = [t.model_copy(update={"limit": min(limit, t.limit or limit)}) for t in spec.tasks]
    if tasks is not None:
        wanted = _choose("--tasks", tasks, [t.name for t in spec.tasks])
        changes["tasks"] = [t for t in changes.get("tasks", spec.tasks) if t.name in wanted]
    if models is not None:
        wanted = _choose("--models", models, [m.name for m in spec.models])
        changes["models"] = [m for m in spec.models if m.name in wanted]
    if days is not None:
        changes["calendar"] = spec.calendar.model_copy(update={"dates": _choose_days(days, spec.calendar.days())})
    given = {"--limit": limit, "--dates": days, "--models": models, "--tasks": tasks}
    return spec.model_copy(update={**changes, "narrowing": {k: str(v) for k, v in given.items() if v is not None}})


def _choose(option: str, given: str, allowed: list[str]) -> list[str]:
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in allowed]
    if unknown or not wanted:
        hints = "".join(nearest(name, allowed) for name in unknown)
        raise ConfigError(f"{option}: given {given!r}; allowed, as this sweep has them: {', '.join(allowed)}{hints}")
    return wanted


def _choose_days(given: str, allowed: list[datetime.date]) -> list[datetime.date]:
    form = "a count, dates like 2024-01-05,2024-07-05, or a range like 2024-01-01..2024-01-31"
    try:
        if given.isdigit() and int(given) > 0:
            return dates.spread(allowed, int(given))
        if ".." in given:
            first, last = (datetime.date.fromisoformat(part) for part in given.split(".."))
            days = [d for d in allowed if first <= d <= last]
        else:
            days = [datetime.date.fromisoformat(part.strip()) for part in given.split(",")]
    except ValueError as error:
        raise ConfigError(f"--dates: given {given!r} ({error}); allowed: {form}") from None
    missing = [d.isoformat() for d in days if d not in allowed]
    if missing or not days:
        span = f"{len(allowed)} dates from {allowed[0]} to {allowed[-1]}"
        raise ConfigError(f"--dates: given {given!r}; not swept: {', '.join(missing) or 'all of it'}; this sweep has {span}")
    return days
