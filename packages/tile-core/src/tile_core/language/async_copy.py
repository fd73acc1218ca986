"""Copies that go on while the kernel does, and groups of them that it waits for.

A copy is under way from where it stands until a wait for its group. What it reads may not be written, and what it
writes may not be touched, before. On targets without such copies it is done at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..frontend.builder import known, require_builder
from ..frontend.operators import as_condition
from ..ir import AccessPtr, Call, Evaluate, Expr, IntImm, const
from ..tileop import Copy
from .operands import annotation_pairs, paired_regions, require_loop_layout, require_width

__all__ = ["async_copy", "ptx_commit_group", "ptx_cp_async", "ptx_wait_group"]

declare_codes({"E-ASYNC": "an asynchronous copy or a wait that no device can carry out"})

_SIZES = (4, 8, 16)
VOID = DType("void")


def async_copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Starts to copy a tile from global to shared memory, as a group of its own; `ptx_wait_group` waits for it.

    Operands and options are those of `T.copy`.

    Raises:
        CompileError: it does not go from global to shared memory (E-ASYNC), or as for `T.copy`.
    """
    builder = require_builder("T.async_copy")
    builder.require_kernel("T.async_copy")
    source, target = paired_regions("T.async_copy", ("src", src), ("dst", dst))
    if source.buffer.is_on_chip or target.buffer.memory.level != "block" or not target.buffer.memory.addressable:
        raise CompileError(
            "E-ASYNC",
            "T.async_copy goes from global to shared memory",
            facts=[f"src = {source.buffer!r}", f"dst = {target.buffer!r}"],
            help="use T.copy for other memories",
        )
    require_width("T.async_copy", coalesced_width)
    moving = [e for e in target.tile_extents() if not (isinstance(e, IntImm) and e.value == 1)]
    require_loop_layout("T.async_copy", loop_layout, moving)
    given = {"coalesced_width": coalesced_width, "loop_layout": loop_layout, "asynchronous": True}
    builder.emit_op(Copy(source, target, annotation_pairs("T.async_copy", given, annotations), span=builder.span))
    ptx_commit_group()


def ptx_cp_async(dst_access_ptr: Any, src_access_ptr: Any, num_elems: int, predicate: Any = None) -> None:
    """The executing thread starts to copy neighbouring elements from global to shared memory.

    Args:
        dst_access_ptr, src_access_ptr: pointers from T.access_ptr or T.address_of, to elements of one type.
        num_elems: how many; 4, 8 or 16 bytes together, and aligned to that.
        predicate: where it is false, zeros are written and nothing is read.

    Raises:
        CompileError: no pointers from global to shared memory, or a size that is none of these (E-ASYNC).
    """
    builder = require_builder("T.ptx_cp_async")
    builder.require_kernel("T.ptx_cp_async")
    pointers = (dst_access_ptr, src_access_ptr)
    if not all(isinstance(p, AccessPtr) for p in pointers):
        raise _refused("T.ptx_cp_async needs two pointers", pointers, 'write T.access_ptr(tile[i, j], "w")')
    target, source = dst_access_ptr.buffer, src_access_ptr.buffer
    if source.is_on_chip or target.memory.level != "block" or source.dtype is not target.dtype:
        raise _refused(
            "T.ptx_cp_async copies elements of one type from global to shared memory",
            (target, source),
            "point to shared memory first, then to global memory",
        )
    count = known(num_elems)
    size = target.dtype.bytes
    if not isinstance(count, int) or isinstance(count, bool) or count * size not in _SIZES:
        raise _refused(
            f"T.ptx_cp_async does not take num_elems={num_elems!r}",
            (target,),
            f"copy {' or '.join(str(n // size) for n in _SIZES if n % size == 0)} elements of {target.dtype} at a time",
        )
    args: list[Expr] = [
        AccessPtr(target, dst_access_ptr.indices, const(count, "int32"), "w"),
        AccessPtr(source, src_access_ptr.indices, const(count, "int32"), "r"),
    ]
    if predicate is not None:
        args.append(as_condition(predicate, builder.span))
    builder.emit(Evaluate(Call("async_copy", tuple(args), VOID, (("bytes", count * size),))))


def ptx_commit_group() -> None:
    """Makes a group of the executing thread's asynchronous copies since the last group."""
    builder = require_builder("T.ptx_commit_group")
    builder.require_kernel("T.ptx_commit_group")
    builder.emit(Evaluate(Call("async_commit", (), VOID)))


def ptx_wait_group(num: int) -> None:
    """Waits until at most `num` of the executing thread's groups are under way; other threads' copies are known to be
    done after a T.sync_threads() behind that."""
    builder = require_builder("T.ptx_wait_group")
    builder.require_kernel("T.ptx_wait_group")
    pending = known(num)
    if not isinstance(pending, int) or isinstance(pending, bool) or not 0 <= pending < 1 << 16:
        raise CompileError(
            "E-ASYNC",
            f"T.ptx_wait_group does not take {num!r}",
            facts=["allowed: a constant number of groups, from 0"],
            help="write T.ptx_wait_group(0) to wait for all",
        )
    builder.emit(Evaluate(Call("async_wait", (IntImm(pending),), VOID)))


def _refused(summary: str, found: tuple[Any, ...], help: str) -> CompileError:
    return CompileError("E-ASYNC", summary, facts=[f"found {item!r}" for item in found], help=help)
