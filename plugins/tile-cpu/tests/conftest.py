"""Kernels as texts, lowered for the CPU and run by the interpreter after each pass."""

from __future__ import annotations

import textwrap

import numpy
import pytest

import tile_cpu.reference  # noqa: F401  (the interpreter learns the CPU's intrinsics)
from tile_core import tileop  # noqa: F401  (the parser needs the core ops)
from tile_core.interpreter import interpret, numpy_type
from tile_core.ir import Buffer, IRModule, PrimFunc, parse
from tile_core.target import parse_target
from tile_core.transform import (
    ApplyLayouts,
    BindTarget,
    FlattenBuffer,
    LayoutInference,
    LegalizeSafeMemoryAccess,
    LoopUnswitching,
    LowerThreadCode,
    LowerTileOp,
    PassContext,
    Pipeline,
    PipelinePlanning,
    SelectInstructions,
    SerializePipelines,
    TightenLoopBounds,
    VectorizeLoop,
)
from tile_cpu.plugin import BACKEND
from tile_cpu.target import resolve_target
from tile_cpu.transform import (
    FuseParallelLoops,
    GroupBlocks,
    LowerParallelLoops,
    PrefetchNextRows,
    PrefetchNextTiles,
    WidenKSteps,
)

LOWERING = (
    BindTarget,
    WidenKSteps,
    GroupBlocks,
    SelectInstructions,
    LayoutInference,
    PipelinePlanning,
    PrefetchNextTiles,
    SerializePipelines,
    LowerTileOp,
    ApplyLayouts,
    LowerThreadCode,
    FuseParallelLoops,
    LegalizeSafeMemoryAccess,
    LoopUnswitching,
    TightenLoopBounds,
    LowerParallelLoops,
    FlattenBuffer,
    VectorizeLoop,
    PrefetchNextRows,
)


class Lowered:
    """What the passes made of a text: the function after each one, and the context they reported to."""

    def __init__(self, text: str, target: str) -> None:
        self.source = parse(textwrap.dedent(text))
        assert isinstance(self.source, PrimFunc)
        self.context = PassContext(resolve_target(parse_target(target)), backend=BACKEND)
        self.after: dict[str, PrimFunc] = {}
        Pipeline("lowering", LOWERING).run(IRModule((self.source,)), self.context, self._keep)

    def _keep(self, pass_, module, form, seconds) -> None:
        self.after[pass_.name] = module.functions[0]

    @property
    def taken(self) -> list[tuple[str, str]]:
        return [(choice.op.name, choice.taken) for choice in self.context.choices]

    def check(self, sizes: dict[str, int] | None = None, atol: float = 1e-5, seed: int = 0) -> None:
        """The function computes the same after each pass."""
        expected = run(self.source, sizes or {}, seed)
        for name, function in self.after.items():
            if name == "LowerTileOp":
                # Intrinsics speak of physical rows already, loops of logical indices until ApplyLayouts has run.
                continue
            for a, b in zip(expected, run(function, sizes or {}, seed)):
                numpy.testing.assert_allclose(
                    a.astype("float64"), b.astype("float64"), atol=atol, rtol=1e-5, err_msg=f"after {name}"
                )


def run(function: PrimFunc, sizes: dict[str, int], seed: int) -> list[numpy.ndarray]:
    random = numpy.random.default_rng(seed)
    arrays = []
    for param in function.params:
        assert isinstance(param, Buffer)
        shape = [sizes[e.name] if hasattr(e, "name") else e.value for e in param.shape]
        values = random.integers(-8, 8, shape) if param.dtype.is_int else random.standard_normal(shape)
        arrays.append(values.astype(numpy_type(param.dtype)))
    interpret(function, *arrays, sizes=sizes)
    return arrays


@pytest.fixture
def lowered():
    """(text, target) → Lowered."""
    return lambda text, target="cpu -mcpu=x86-64-v3": Lowered(text, target)
