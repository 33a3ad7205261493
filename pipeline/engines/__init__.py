"""What turns requests into outputs.

In: an iterator of `Request`. Out: an iterator of `Output`, as they finish. `vllm` is the real one;
`simulated` plants effects and measures our own overhead, and says so.
"""

from pipeline.engines.base import Engine as Engine, EngineSettings as EngineSettings
from pipeline.engines.simulated import (
    CountingEngine as CountingEngine,
    Pretended as Pretended,
    SimulatedEngine as SimulatedEngine,
)
from pipeline.engines.vllm import (
    VllmEngine as VllmEngine,
    build as build,
    processor as processor,
    resolve as resolve,
)
