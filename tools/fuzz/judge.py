"""`judge(program)`: whether the interpreter, the CPU and emulated CUDA agree about a kernel, to the last bit."""

from __future__ import annotations

import math
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
from tile_core.dtypes import DType
from tile_core.errors import InternalError, TileError
from tile_core.interpreter import interpret, numpy_type
from tile_core.interpreter.faults import ExecutionFault
from tile_core.ir import Buffer, Expr, Var, walk
from tile_core.testing.carriers import all_values, from_tensor, pack_nibbles, to_tensor, unpack_nibbles

from .kernels import Program

__all__ = ["PLACES", "Argument", "Verdict", "arguments", "judge", "traced"]

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


def arguments(function: Any, program: Program) -> list[Any]:
    """An `Argument` for each tensor, a number for each scalar parameter."""
    random = np.random.default_rng(program.seed)
    return [
        Argument.make(p, program, random) if isinstance(p, Buffer) else program.sizes.get(p.name, 1)
        for p in function.params
    ]


@dataclass
class Argument:
    """The memory of a tensor: values one after the other, and how the tensor lies in them."""

    dtype: DType
    values: np.ndarray
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def make(cls, param: Buffer, program: Program, random: np.random.Generator) -> Argument:
        """Small integers for inputs, 77 (3 in narrow types) for outputs, 0 for what kernels add to, values of all
        kinds for F and G; see `Maker`."""
        dtype = param.dtype.scalar
        shape = [_value(e, program) for e in param.shape]
        shape[-1] *= param.dtype.lanes
        strides = tuple([_value(e, program) for e in param.strides])
        count = sum((n - 1) * s for n, s in zip(shape, strides)) + 1 if strides else math.prod(shape)
        values = _values(param.name, dtype, count, program, random)
        return cls(dtype, values if strides else values.reshape(shape), tuple(shape), strides)

    def array(self) -> np.ndarray:
        """What the interpreter works on; four-bit elements lie two in a byte."""
        if self.dtype.bits == 4:
            self.values = pack_nibbles(self.values)
        if not self.strides:
            return self.values
        size = self.values.itemsize
        return np.ndarray(self.shape, self.values.dtype, self.values, strides=[s * size for s in self.strides])

    def tensor(self) -> torch.Tensor:
        """What a kernel is called with."""
        memory = to_tensor(self.values.copy(), self.dtype)
        return torch.as_strided(memory, self.shape, self.strides) if self.strides else memory

    def difference(self, tensor: torch.Tensor) -> str:
        """How a tensor that a kernel was called with differs from this one's memory, gaps between rows included."""
        memory = tensor.as_strided((self.values.size,), (1,), 0) if self.strides else tensor
        ours = from_tensor(memory, self.dtype)
        theirs = unpack_nibbles(self.values, self.dtype) if self.dtype.bits == 4 else self.values
        if ours.dtype.kind not in "biu":
            ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        same = ours == theirs
        if ours.dtype.kind == "f":
            same |= np.isnan(ours) & np.isnan(theirs)
        if same.all():
            return ""
        where = tuple(int(x) for x in np.argwhere(~same)[0])
        return f"{(~same).sum()} of {same.size} differ, first at {where}: {ours[where]}, interpreted {theirs[where]}"


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
        interpret(function, *[a.array() if isinstance(a, Argument) else a for a in wanted], check_written=True)
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


def _run(function: Any, program: Program, place: str, wanted: list[Any]) -> Verdict:
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
        given = [a.tensor() if isinstance(a, Argument) else a for a in arguments(function, program)]
        try:
            _call(kernel, given, schedule)
        except TileError as error:
            return Verdict("finding" if place == "cuda" else "run", place, str(error))
        except Exception:
            return Verdict("run", place, traceback.format_exc(limit=-3))
        for param, ours, theirs in zip(function.params, given, wanted):
            difference = theirs.difference(ours) if isinstance(theirs, Argument) else ""
            if difference:
                label = f" ({schedule[0]})" if schedule else ""
                return Verdict("differs", place, f"{param.name}{label}: {difference}")
    return Verdict("agree", place)


def _call(kernel: Any, given: list[Any], schedule: tuple[str, int] | None) -> None:
    if schedule is None:
        kernel(*given)
        return
    from tile_emulator import emulation

    with emulation(*schedule):
        kernel(*given)


def _value(extent: Expr, program: Program) -> int:
    return int(evaluate(extent, {v: program.sizes[v.name] for v in walk(extent) if isinstance(v, Var)}))


def _values(name: str, dtype: DType, count: int, program: Program, random: np.random.Generator) -> np.ndarray:
    held = numpy_type(dtype)
    if name[0] in "ZVC":
        return np.full(count, 1 if dtype.is_bool else 3 if dtype.bits < 8 or "float8" in dtype.name else 77).astype(
            held
        )
    if name[0] == "S":
        return np.zeros(count, held)
    if name[0] in "FGR":
        found = all_values(dtype)
        return found[random.integers(0, found.size, count)]
    low = 0 if dtype.is_bool or dtype.kind == "u" else -3
    values = random.integers(low, 2 if dtype.is_bool else 4, count)
    if not program.special:
        return values.astype(held)
    rare = random.random(count)
    if dtype.is_int:
        found = all_values(dtype)
        return np.where(rare < 0.3, found[random.integers(0, found.size, count)], values.astype(held))
    if not dtype.is_float:
        return values.astype(held)
    floats = values.astype("float64")
    for share, value in ((0.05, np.nan), (0.08, np.inf), (0.11, -np.inf)):
        floats[(rare < share) & np.isfinite(floats)] = value
        rare = np.where(rare < share, 1.0, rare)
    return floats.astype(held)
