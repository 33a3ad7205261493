"""What turns requests into outputs.

In: an iterator of `Request`. Out: an iterator of `Output`, as they finish. `vllm` is the real one;
`simulated` plants effects, `counting` measures our own overhead, and both say so.
"""

from pipeline.engines.base import (
    Engine as Engine,
    EngineSettings as EngineSettings,
    resolve as resolve,
)
from pipeline.engines.counting import CountingEngine as CountingEngine
from pipeline.engines.simulated import Pretended as Pretended, SimulatedEngine as SimulatedEngine
from pipeline.engines.vllm import VllmEngine as VllmEngine, build as build, processor as processor
