"""What a sweep and a model may say.

In: TOML files and options of the command line. Out: `SweepSpec` and `ModelSpec`, checked, with
every fault listed at once. Nothing heavy is imported here, so that a misspelt key is told in under
a second.
"""

from pipeline.settings.faults import checked as checked
from pipeline.settings.files import (
    configs_folder as configs_folder,
    model_names as model_names,
    model_path as model_path,
    summary as summary,
    sweep_names as sweep_names,
    unknown_model as unknown_model,
)
from pipeline.settings.load import load_sweep as load_sweep, model_file as model_file
from pipeline.settings.overrides import Overrides as Overrides, override as override
from pipeline.settings.schema import (
    CalendarSpec as CalendarSpec,
    ConditionsSpec as ConditionsSpec,
    EngineSpec as EngineSpec,
    ModelSpec as ModelSpec,
    SimulatedSpec as SimulatedSpec,
    SweepSpec as SweepSpec,
    TaskSpec as TaskSpec,
    TemplateSpec as TemplateSpec,
    WeightsSpec as WeightsSpec,
)
