"""What a sweep and a model may say.

In: TOML files and options of the command line. Out: `SweepSpec` and `ModelSpec`, checked, with every fault
listed at once. Nothing heavy is imported here, so that a misspelt key is told in under a second.
"""

from pipeline.settings.load import Faults as Faults
from pipeline.settings.load import check_model_names as check_model_names
from pipeline.settings.load import checked as checked
from pipeline.settings.load import load_model as load_model
from pipeline.settings.load import load_sweep as load_sweep
from pipeline.settings.load import model_file as model_file
from pipeline.settings.overrides import narrow as narrow
from pipeline.settings.overrides import set_engine as set_engine
from pipeline.settings.schema import CalendarSpec as CalendarSpec
from pipeline.settings.schema import ConditionsSpec as ConditionsSpec
from pipeline.settings.schema import EngineSpec as EngineSpec
from pipeline.settings.schema import ModelSpec as ModelSpec
from pipeline.settings.schema import SimulatedSpec as SimulatedSpec
from pipeline.settings.schema import SweepSpec as SweepSpec
from pipeline.settings.schema import TaskSpec as TaskSpec
from pipeline.settings.schema import TemplateSpec as TemplateSpec
from pipeline.settings.schema import WeightsSpec as WeightsSpec
from pipeline.settings.schema import configs_folder as configs_folder
from pipeline.settings.schema import model_names as model_names
from pipeline.settings.schema import summary as summary
