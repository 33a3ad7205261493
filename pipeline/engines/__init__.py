"""What turns requests into outputs.

In: an iterator of `Request`. Out: an iterator of `Output`, as they finish. `vllm` is the real one; `simulated`
plants effects and measures our own overhead, and says so.
"""

from pipeline.engines.base import Engine as Engine
from pipeline.engines.base import EngineSettings as EngineSettings
from pipeline.engines.simulated import CountingEngine as CountingEngine
from pipeline.engines.simulated import Pretended as Pretended
from pipeline.engines.simulated import SimulatedEngine as SimulatedEngine
from pipeline.engines.vllm import VllmEngine as VllmEngine
from pipeline.engines.vllm import build as build
from pipeline.engines.vllm import processor as processor
from pipeline.engines.vllm import resolve as resolve
