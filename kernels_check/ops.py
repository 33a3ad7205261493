"""Kernels: does a row get the same bits alone as in a batch, at every place in it?

Covered: the dense kernels that a decoder spends its time in, as torch runs them on this device. Not
covered: attention, and the kernels that vLLM puts in the place of torch's; `engine.py` asks about
those together, by what comes out of the engine.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.core.errors import EngineError

if TYPE_CHECKING:
    import torch

BATCH_SIZES = (1, 2, 3, 8, 32, 128)
"""1 asks whether the kernel repeats itself; matrix kernels change tiling between the others."""
DTYPES = ("float32", "bfloat16", "float16")
SEED = 0

Function = Callable[["torch.Tensor"], "torch.Tensor"]
"""(batch, width) -> (batch, width out), row by row."""
Draw = Callable[..., "torch.Tensor"]
"""Standard normal numbers of the shape given, on the device and in the dtype under test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation and the sizes of one row to try it on."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    """The first number of each is the width of the row that goes in."""
    build: Callable[[Draw, tuple[int, ...]], Function]
    """Draws the weights for a shape and gives the operation that uses them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One row's result in one batch, compared with its result alone."""

    op: str
    dtype: str
    device: str
    """`cpu` or `cuda`."""
    shape: tuple[int, ...]
    batch_size: int
    position: int
    """Of the row in the batch, from 0."""
    equal: bool
    """Whether every bit is."""
    max_abs_difference: float | None
    """None where a difference is no finite number."""


def operations(device: str) -> list[Op]:
    """The operations to check, with layer sizes of SmolLM2 135M and Llama 3.1 8B.

    On CPU the largest is left out, so that it takes seconds.
    """
    layers: tuple[tuple[int, ...], ...] = ((576, 1536), (4096, 1024))
    if device == "cuda":
        layers += ((4096, 14336),)
    return [
        Op(name="matmul", shapes=layers, build=_matmul),
        Op(name="linear", shapes=layers, build=_linear),
        Op(name="RMSNorm", shapes=((576,), (4096,)), build=_rms_norm),
        Op(name="log-softmax", shapes=((49152,), (128256,)), build=_log_softmax),
    ]


def _matmul(draw: Draw, shape: tuple[int, ...]) -> Function:
    weight = draw(*shape) / shape[0] ** 0.5
    return lambda rows: rows @ weight


def _linear(draw: Draw, shape: tuple[int, ...]) -> Function:
    import torch

    # Stored the other way round than in `matmul`, as checkpoints do; the kernel may be another.
    weight, bias = draw(*reversed(shape)) / shape[0] ** 0.5, draw(shape[1])
    return lambda rows: torch.nn.functional.linear(rows, weight, bias)


def _rms_norm(draw: Draw, shape: tuple[int, ...]) -> Function:
    import torch

    weight = draw(*shape)
    return lambda rows: torch.nn.functional.rms_norm(rows, shape, weight, eps=1e-5)


def _log_softmax(draw: Draw, shape: tuple[int, ...]) -> Function:
    import torch

    # To float32 whatever the logits are, as vLLM does before it gathers log-probabilities.
    return lambda rows: torch.log_softmax(rows, dim=-1, dtype=torch.float32)


def find_device(wanted: str) -> str:
    """The torch device for `wanted` (`auto`, `cpu` or `gpu`): `cuda` or `cpu`.

    Raises:
        EngineError: a GPU is wanted and torch sees none.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    if wanted == "gpu" and not has_gpu:
        raise EngineError("--device: given 'gpu', but torch sees no GPU here; allowed: auto or cpu")
    return "cuda" if has_gpu and wanted != "cpu" else "cpu"


def check(
    device: str,
    ops: Sequence[Op],
    dtypes: Sequence[str] = DTYPES,
    batch_sizes: Sequence[int] = BATCH_SIZES,
) -> Iterator[OpRow]:
    """Rows for every op, shape, dtype, batch size and position (first, middle, last).

    A dtype that an op does not know here is left out.
    """
    for op in ops:
        for shape in op.shapes:
            for dtype in dtypes:
                yield from _check(op, shape, dtype, device, batch_sizes)


def _check(
    op: Op, shape: tuple[int, ...], dtype: str, device: str, batch_sizes: Sequence[int]
) -> Iterator[OpRow]:
    draw = _drawer(dtype, device)
    function = op.build(draw, shape)
    row, others = draw(1, shape[0]), draw(max(batch_sizes), shape[0])
    try:
        alone = function(row)[0]
    except NotImplementedError:
        return
    for size in batch_sizes:
        for position in sorted({0, size // 2, size - 1}):
            batch = others[:size].clone()
            batch[position] = row[0]
            equal, difference = compare(alone, function(batch)[position])
            yield OpRow(
                op=op.name,
                dtype=dtype,
                device=device,
                shape=shape,
                batch_size=size,
                position=position,
                equal=equal,
                max_abs_difference=difference,
            )


def _drawer(dtype: str, device: str) -> Draw:
    """Numbers drawn on CPU in float32 from a seed, the same for every device and dtype."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    return lambda *size: torch.randn(*size, generator=generator).to(
        device=device, dtype=getattr(torch, dtype)
    )


def compare(first: "torch.Tensor", second: "torch.Tensor") -> tuple[bool, float | None]:
    """Whether two tensors of one shape and dtype are equal in every bit, and how far apart at most.

    The difference is absolute, and None if not finite.
    """
    import torch

    if torch.equal(first.contiguous().view(torch.uint8), second.contiguous().view(torch.uint8)):
        return True, 0.0
    difference = float((first.double() - second.double()).abs().max())
    return False, difference if difference < float("inf") else None
