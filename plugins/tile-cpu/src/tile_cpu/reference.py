"""What the CPU's intrinsics compute, in numpy: importing this lets the interpreter run kernels lowered for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile_core.interpreter import convert, numpy_type, register_effect
from tile_core.ir import AccessPtr, Call, IntImm, StringImm
from tile_core.tileop import identity_value
from tile_core.tileop.default_candidates import accumulator_dtype

from . import intrinsics  # noqa: F401  (the rows that these give a meaning)

__all__: list[str] = []


def _gemm(machine: Any, call: Call) -> None:
    given = dict(call.annotations)
    m, n, k = given["m"], given["n"], given["k"]
    a_pointer, b_pointer, c_pointer = call.args[:3]
    wide = accumulator_dtype(_buffer(c_pointer).dtype)
    a_shape, b_shape = ((k, m) if given["trans_a"] else (m, k)), ((n, k) if given["trans_b"] else (k, n))
    a = _wide(_tile(machine, a_pointer, a_shape, given["lda"]), a_pointer, wide)
    b = _wide(_tile(machine, b_pointer, b_shape, given["ldb"]), b_pointer, wide)
    product = np.matmul(a.swapaxes(-1, -2) if given["trans_a"] else a, b.swapaxes(-1, -2) if given["trans_b"] else b)
    if not given["clear"]:
        product = product + _wide(_tile(machine, c_pointer, (m, n), given["ldc"]), c_pointer, wide)
    _write(machine, c_pointer, (m, n), given["ldc"], convert(product, wide, _buffer(c_pointer).dtype))


def _copy_transposed(machine: Any, call: Call) -> None:
    target, target_pitch, source, source_pitch, rows, columns = call.args
    r, c = machine.integer(rows), machine.integer(columns)
    values = _tile(machine, source, (r, c), machine.integer(source_pitch)).swapaxes(-1, -2)
    values = convert(values, _buffer(source).dtype, _buffer(target).dtype)
    _write(machine, target, (c, r), machine.integer(target_pitch), values)


def _reduce(machine: Any, call: Call) -> Any:
    kind, pointer, count = call.args
    assert isinstance(kind, StringImm) and isinstance(count, IntImm)
    values = _tile(machine, pointer, (1, count.value), 0)[..., 0, :]
    values = np.abs(values) if kind.value in ("abssum", "absmax") else values
    base = {"abssum": "sum", "absmax": "max"}.get(kind.value, kind.value)
    if values.dtype.kind == "f" and base in ("max", "min"):
        nothing = identity_value(kind.value, _buffer(pointer).dtype)
        values = np.where(np.isnan(values), values.dtype.type(nothing), values)
    function = {
        "sum": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "bitand": np.bitwise_and,
        "bitor": np.bitwise_or,
        "bitxor": np.bitwise_xor,
    }[base]
    result = function.reduce(values, axis=-1, dtype=values.dtype)
    return result if result.ndim else result[()]


def _worth_grouping(machine: Any, call: Call) -> Any:
    # Two threads, so that tests see both answers.
    blocks, group = (machine.integer(a) for a in call.args)
    return np.int32(blocks >= 8 * group)


def _tile(machine: Any, pointer: Any, shape: tuple[int, int], pitch: int) -> np.ndarray:
    """Rows `pitch` elements apart from where a pointer stands."""
    values = machine.load(_buffer(pointer), _indices(machine, pointer, shape, pitch), True, None, pointer.span)
    return np.asarray(values).reshape(*np.shape(values)[:-1], *shape)


def _write(machine: Any, pointer: Any, shape: tuple[int, int], pitch: int, values: np.ndarray) -> None:
    flat = values.reshape(*values.shape[:-2], shape[0] * shape[1])
    machine.store(_buffer(pointer), _indices(machine, pointer, shape, pitch), True, None, flat, pointer.span)


def _indices(machine: Any, pointer: AccessPtr, shape: tuple[int, int], pitch: int) -> tuple[Any, ...]:
    buffer = pointer.buffer
    strides = [machine.integer(s) for s in buffer.element_strides()]
    start: Any = 0
    for index, stride in zip(pointer.indices, strides):
        start = start + np.asarray(machine.evaluate(index)).astype(np.int64) * stride
    offsets = (np.arange(shape[0])[:, None] * pitch + np.arange(shape[1])).reshape(-1)
    left = np.asarray(start)[..., None] + offsets
    found = []
    for stride in strides:
        found.append(left // stride)
        left = left % stride
    return tuple(found)


def _buffer(pointer: Any) -> Any:
    assert isinstance(pointer, AccessPtr)
    return pointer.buffer


def _wide(values: np.ndarray, pointer: Any, wide: Any) -> np.ndarray:
    return convert(values, _buffer(pointer).dtype, wide).astype(numpy_type(wide))


register_effect("cpu.gemm", _gemm)
register_effect("cpu.copy_transposed", _copy_transposed)
register_effect("cpu.reduce", _reduce)
register_effect("cpu.worth_grouping", _worth_grouping)
register_effect("cpu.prefetch", lambda machine, call: None)
