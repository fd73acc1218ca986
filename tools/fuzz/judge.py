"""`judge(program)`: whether the interpreter, the CPU and emulated CUDA agree about a kernel, to the last bit."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.arith.evaluate import evaluate
from tile_core.errors import InternalError, TileError
from tile_core.interpreter import interpret
from tile_core.interpreter.faults import ExecutionFault
from tile_core.ir import Buffer, Var, walk
from tile_core.testing.compare import to_numpy

from .kernels import Program

__all__ = ["PLACES", "Verdict", "arguments", "judge", "traced"]

PLACES = ("cpu", "cuda")
_TARGETS = {"cpu": ("cpu", "auto"), "cuda": ("cuda -arch=sm_80", "emulate")}
_SCHEDULES = (("in_order", 0), ("latest", 0), ("random", 1))


@dataclass
class Verdict:
    """What came of a kernel.

    Args:
        kind: "agree"; "refused" (with a typed error, everywhere it did not agree); or a fault: "trace", "interpreter",
            "compile", "finding" (of the emulator), "run", "differs", "crash", "hang".
        where: the place of a fault.
        detail: an error's text, or which elements differ.
        refused: place → code of the error.
    """

    kind: str
    where: str = ""
    detail: str = ""
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def is_fault(self) -> bool:
        return self.kind not in ("agree", "refused")

    def same_fault(self, other: Verdict) -> bool:
        """Whether both are one fault as far as can be told: of one kind, at one place, with one first line (numbers
        and names aside)."""
        return (self.kind, self.where, self._mark()) == (other.kind, other.where, other._mark())

    def _mark(self) -> str:
        if self.kind == "differs":
            return ""
        lines = self.detail.strip().split("\n")
        first = lines[-1] if lines[0].startswith("Traceback") else lines[0]
        return first.split(":", 2)[0] if self.kind == "finding" else first[:60]


def judge(program: Program, places: Sequence[str] = PLACES) -> Verdict:
    """Runs a kernel everywhere and compares."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _judge(program, places)


def traced(program: Program) -> Any:
    """The traced function of a program."""
    return tile.from_source(program.source, {"T": T}, name="kernel")


def arguments(function: Any, program: Program) -> list[np.ndarray]:
    """An array for each parameter: small integers in inputs, 77 in outputs, 0 in what kernels add to."""
    random = np.random.default_rng(program.seed)
    return [_argument(p, program, random) for p in function.params if isinstance(p, Buffer)]


def _judge(program: Program, places: Sequence[str]) -> Verdict:
    try:
        function = traced(program)
    except InternalError as error:
        return Verdict("trace", detail=str(error))
    except TileError as error:
        return Verdict("refused", detail=str(error), refused=dict.fromkeys(places, error.code))
    except Exception:
        return Verdict("trace", detail=traceback.format_exc(limit=-3))
    wanted = arguments(function, program)
    try:
        interpret(function, *wanted, check_written=True)
    except ExecutionFault as error:
        return Verdict("interpreter", detail=str(error))
    except Exception:
        return Verdict("interpreter", detail=traceback.format_exc(limit=-3))
    refused: dict[str, str] = {}
    for place in places:
        verdict = _run(function, program, place, wanted)
        if verdict.is_fault:
            return verdict
        if verdict.kind == "refused":
            refused[place] = verdict.detail
    return Verdict("refused" if len(refused) == len(places) else "agree", refused=refused)


def _run(function: Any, program: Program, place: str, wanted: list[np.ndarray]) -> Verdict:
    target, execution = _TARGETS[place]
    try:
        kernel = tile.compile(function, target=target, execution_backend=execution)
    except InternalError as error:
        return Verdict("compile", place, str(error))
    except TileError as error:
        return Verdict("refused", place, error.code)
    except Exception:
        return Verdict("compile", place, traceback.format_exc(limit=-3))
    for schedule in _SCHEDULES if place == "cuda" else (None,):
        tensors = [_tensor(a) for a in arguments(function, program)]
        try:
            _call(kernel, tensors, schedule)
        except TileError as error:
            return Verdict("finding" if place == "cuda" else "run", place, str(error))
        except Exception:
            return Verdict("run", place, traceback.format_exc(limit=-3))
        for param, ours, theirs in zip(function.params, tensors, wanted):
            difference = _difference(to_numpy(ours), theirs)
            if difference:
                label = f" ({schedule[0]})" if schedule else ""
                return Verdict("differs", place, f"{param.name}{label}: {difference}")
    return Verdict("agree", place)


def _call(kernel: Any, tensors: list[torch.Tensor], schedule: tuple[str, int] | None) -> None:
    if schedule is None:
        kernel(*tensors)
        return
    from tile_emulator import emulation

    with emulation(*schedule):
        kernel(*tensors)


def _difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    if ours.dtype.name == "bfloat16":
        ours, theirs = ours.astype("float32"), theirs.astype("float32")
    same = ours == theirs
    if ours.dtype.kind == "f":
        same |= np.isnan(ours) & np.isnan(theirs)
    if same.all():
        return ""
    where = tuple(int(x) for x in np.argwhere(~same)[0])
    return f"{(~same).sum()} of {same.size} differ, first at {where}: {ours[where]}, interpreted {theirs[where]}"


def _extent(extent: Any, sizes: dict[str, int]) -> int:
    return int(evaluate(extent, {v: sizes[v.name] for v in walk(extent) if isinstance(v, Var)}))


def _argument(param: Buffer, program: Program, random: np.random.Generator) -> np.ndarray:
    shape = tuple(_extent(e, program.sizes) for e in param.shape)
    name = param.dtype.name
    if name == "bfloat16" or name.startswith("float8"):
        import ml_dtypes

        dtype: Any = getattr(ml_dtypes, name)
    else:
        dtype = np.dtype(name)
    if param.name[0] in "ZVC":
        return np.full(shape, 1 if name == "bool" else 77).astype(dtype)
    if param.name[0] == "S":
        return np.zeros(shape, dtype)
    low = 0 if name[0] in "ub" else -3
    values = random.integers(low, 2 if name == "bool" else 4, shape)
    if not (program.special and "float" in name):
        return values.astype(dtype)
    rare = random.random(shape)
    floats = values.astype("float64")
    for share, value in ((0.05, np.nan), (0.08, np.inf), (0.11, -np.inf)):
        floats[(rare < share) & np.isfinite(floats)] = value
        rare = np.where(rare < share, 1.0, rare)
    return floats.astype(dtype)


def _tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())
