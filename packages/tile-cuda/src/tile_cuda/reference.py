"""What CUDA's device functions compute, in numpy: importing this lets the interpreter run kernels lowered for CUDA.

The interpreter runs a block's threads side by side, so a collective has all lanes' values at hand. Asynchronous copies
are done at once, and meetings order nothing that is not in order already: that waits are where they must be is for the
emulator to show.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile_core.dtypes import DType
from tile_core.interpreter import convert, numpy_type, register_effect
from tile_core.ir import AccessPtr, Call

from .device import intrinsics  # noqa: F401  (the rows that these give a meaning)

__all__: list[str] = []

_WARP = 32


def _nothing(machine: Any, call: Call) -> None:
    """A meeting or a wait."""


def _cp_async(machine: Any, call: Call) -> None:
    target, source = call.args[0], call.args[1]
    assert isinstance(target, AccessPtr) and isinstance(source, AccessPtr)
    count = dict(call.annotations)["bytes"] * 8 // target.buffer.dtype.storage_bits
    wanted = machine.evaluate(call.args[2]) if len(call.args) > 2 else True
    outer = machine.mask
    predicate = np.broadcast_to(np.asarray(wanted), machine.batch_shape)[..., None]
    machine.mask = np.asarray(wanted) if outer is None else outer & wanted
    values = machine.load(source.buffer, _along(machine, source, count), True, predicate, call.span)
    machine.mask = outer
    machine.store(target.buffer, _along(machine, target, count), True, None, values, call.span)


def _ldmatrix(machine: Any, call: Call) -> None:
    given = dict(call.annotations)
    number, transposed = given["num"], given["trans"]
    target, source = call.args
    assert isinstance(target, AccessPtr) and isinstance(source, AccessPtr)
    count = 16 * 8 // source.buffer.dtype.storage_bits
    rows = machine.load(source.buffer, _along(machine, source, count), True, None, call.span)
    rows = _by_warp(machine, rows)
    matrices = rows[..., : number * 8, :].reshape(*rows.shape[:-2], number, 8, count)
    lane = np.arange(_WARP)
    pair = count // 4
    column = lane[:, None] % 4 * pair + np.arange(pair)
    row = np.broadcast_to(lane[:, None] // 4, column.shape)
    at = (column, row) if transposed else (row, column)
    # (warp, matrix, lane, pair) to (warp, lane, matrix, pair): a lane's registers follow each other.
    values = np.moveaxis(matrices[..., at[0], at[1]], -3, -2)
    values = values.reshape(*values.shape[:-2], number * pair)
    _store_registers(machine, target, values, call)


def _mma(machine: Any, call: Call) -> None:
    given = dict(call.annotations)
    m, n, k = given["shape"]
    pointers = [a for a in call.args if isinstance(a, AccessPtr)]
    c_pointer, a_pointer, b_pointer, *places = pointers
    c_type = DType(given["c"])
    wide = numpy_type(c_type if c_type.is_int or c_type.bits == 64 else DType("float32"))
    packed = max(1, 32 // DType(given["a"]).bits)
    _, b_maps, c_maps = _maps(m, k, packed)
    held = k // 2 if places else k
    a = _matrix(machine, a_pointer, (m, held), _maps(m, held, packed)[0], given["a"], wide)
    if places:
        words = machine.load(places[0].buffer, _along(machine, places[0], 1), True, None, places[0].span)
        a = _expanded(a, _by_warp(machine, words)[..., 0].astype(np.int64), k, given["selector"])
    b = _matrix(machine, b_pointer, (n, k), b_maps, given["b"], wide)
    c = _matrix(machine, c_pointer, (m, n), c_maps, given["c"], wide)
    total = c + np.matmul(a, np.swapaxes(b, -1, -2))
    result = total[..., c_maps[0], c_maps[1]]
    _store_registers(machine, c_pointer, convert(result, DType(wide.name), c_pointer.buffer.dtype), call)


def _expanded(kept: Any, words: Any, k: int, selector: int) -> Any:
    """A of mma.sp from what is kept of it, (…, 16, k / 2), and the lanes' metadata, (…, 32)."""
    group = 2 if k == 16 else 4
    row, chunk = np.arange(16)[:, None], np.arange(k // group)
    if k == 64:
        lane, bit = row % 8 * 4 + chunk // 8 * 2 + row // 8, chunk % 8 * 4
    else:
        lane, bit = row % 8 * 4 + 2 * selector + chunk // 4, row // 8 * 16 + chunk % 4 * 4
    places = words[..., lane] >> bit & 15
    whole = np.zeros((*kept.shape[:-1], k // group, group), kept.dtype)
    turns = (places >> 1 & 1,) if group == 2 else (places & 3, places >> 2)
    for turn, place in enumerate(turns):
        np.put_along_axis(whole, place[..., None], kept[..., turn :: len(turns), None], axis=-1)
    return whole.reshape(*kept.shape[:-1], k)


def _maps(m: int, k: int, packed: int) -> tuple[Any, Any, Any]:
    """(row, column) by lane and register of A, of B (as n × k) and of the accumulator (PTX ISA, fragments of mma)."""
    rows, parts = m // 8, k // (4 * packed)
    lane = np.arange(_WARP)[:, None]

    def depth(register: Any, halves: Any) -> Any:
        return lane % 4 * packed + halves * 4 * packed + register % packed

    a, b, c = np.arange(rows * parts * packed)[None], np.arange(parts * packed)[None], np.arange(2 * rows)[None]
    a_map = np.broadcast_arrays(lane // 4 + a // packed % rows * 8, depth(a, a // packed // rows))
    b_map = np.broadcast_arrays(lane // 4 + b * 0, depth(b, b // packed))
    c_map = np.broadcast_arrays(lane // 4 + c // 2 * 8, lane % 4 * 2 + c % 2)
    return a_map, b_map, c_map


def _matrix(machine: Any, pointer: AccessPtr, shape: tuple[int, int], maps: Any, dtype: str, wide: Any) -> Any:
    values = machine.load(pointer.buffer, _along(machine, pointer, maps[0].shape[1]), True, None, pointer.span)
    values = convert(_by_warp(machine, values), pointer.buffer.dtype, DType(wide.name))
    matrix = np.zeros((*values.shape[:-2], *shape), dtype=wide)
    matrix[..., maps[0], maps[1]] = values
    return matrix


def _shuffle(kind: str) -> Any:
    def effect(machine: Any, call: Call) -> Any:
        value, operand, width = (np.asarray(machine.evaluate(a)) for a in call.args[:3])
        threads = machine.batch_shape[-1]
        value = np.broadcast_to(value, (*np.shape(value)[:-1], threads) if np.ndim(value) else (threads,))
        thread = np.arange(threads)
        lane, size = thread % _WARP, int(np.ravel(width)[0])
        first = thread - lane + lane // size * size
        place = lane % size
        moved = np.broadcast_to(operand, np.broadcast_shapes(np.shape(operand), (threads,)))
        source = {
            "shfl": moved % size,
            "shfl_up": place - moved,
            "shfl_down": place + moved,
            "shfl_xor": place ^ moved,
        }[kind]
        inside = (source >= 0) & (source < size) & (first + source < threads)
        source = np.where(inside, first + source, thread)
        return np.take_along_axis(
            value, np.broadcast_to(source, np.broadcast_shapes(value.shape, source.shape)), axis=-1
        )

    return effect


def _along(machine: Any, pointer: AccessPtr, count: int) -> tuple[Any, ...]:
    """Indices of `count` elements along the last axis from where a pointer stands, a vector a thread."""
    found = [np.asarray(machine.evaluate(i))[..., None] for i in pointer.indices]
    found[-1] = found[-1] + np.arange(count)
    return tuple(found)


def _by_warp(machine: Any, values: Any) -> Any:
    """(…, threads, count) values as (…, warps, 32, count)."""
    threads = machine.batch_shape[-1]
    values = np.broadcast_to(values, (*values.shape[:-2], threads, values.shape[-1]))
    return values.reshape(*values.shape[:-2], threads // _WARP, _WARP, values.shape[-1])


def _store_registers(machine: Any, pointer: AccessPtr, values: Any, call: Call) -> None:
    flat = values.reshape(*values.shape[:-3], -1, values.shape[-1])
    machine.store(pointer.buffer, _along(machine, pointer, values.shape[-1]), True, None, flat, call.span)


for _name in ("sync_threads", "sync_warp", "bar_sync", "bar_arrive", "cp_async_commit", "cp_async_wait"):
    register_effect(f"cuda.{_name}", _nothing)
register_effect("cuda.cp_async", _cp_async)
register_effect("cuda.ldmatrix", _ldmatrix)
register_effect("cuda.mma", _mma)
register_effect("cuda.mma_sp", _mma)
for _name in ("shfl", "shfl_up", "shfl_down", "shfl_xor"):
    register_effect(f"cuda.{_name}", _shuffle(_name))
