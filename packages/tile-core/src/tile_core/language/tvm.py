"""Statements in TVM's words that mean something here: parameters typed by `match_buffer`, blocks with declared
accesses, pointers and barriers under their TVM names."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import CompileError, declare_codes
from ..frontend.builder import Frame, ScalarRef, require_builder
from ..frontend.signature import TensorType
from ..ir import (
    AccessPtr,
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    TileOpStmt,
    Var,
    as_expr,
    binary,
    cast,
    walk,
)
from .extern import access_ptr
from .statements import alloc_buffer
from .warp import sync_threads, sync_warp

__all__ = [
    "match_buffer",
    "reads",
    "sblock",
    "sblock_alloc_buffer",
    "tvm_access_ptr",
    "tvm_storage_sync",
    "type_annotation",
    "writes",
]

declare_codes(
    {
        "E-SBLOCK": "accesses that a T.sblock makes and does not declare, or declarations outside of one",
        "E-SYNC-SCOPE": "memory that threads of a block do not meet for",
    }
)


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Buffer:
    """Makes a parameter that is annotated as ``T.handle`` a tensor, as an annotation ``T.Tensor(shape, dtype)`` does.

    Args:
        param: the parameter; stands before `with T.Kernel`, once for each.
        shape, dtype, strides: of the tensor.
        align: bytes that its start is aligned to; -1 for what the framework gives.
        data, elem_offset, scope, offset_factor, buffer_type, axis_separators: left at their defaults.

    Raises:
        CompileError: no such parameter, or an option without meaning here (E-MATCH-BUFFER).
    """
    builder = require_builder("T.match_buffer")
    given = {"data": data, "elem_offset": elem_offset, "axis_separators": axis_separators}
    odd = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    odd += [] if scope == "global" else [f"scope={scope!r}"]
    odd += [] if offset_factor in (0, 1) else [f"offset_factor={offset_factor!r}"]
    odd += [] if buffer_type in ("", "default") else [f"buffer_type={buffer_type!r}"]
    if odd:
        raise CompileError(
            "E-MATCH-BUFFER",
            f"T.match_buffer does not take {', '.join(odd)}",
            facts=["allowed: shape, dtype, strides and align of a tensor in device memory"],
            help="leave them out; T.view shows memory in another shape or type",
        )
    parameter = any(param is handle for handle in builder.handles)
    if not parameter or param in builder.matched or builder.kernel is not None or shape is None:
        facts = [f"found {param!r}, shape {shape!r}"]
        if isinstance(param, Var) and param in builder.matched:
            facts.append(f"it is {builder.matched[param]!r} already")
        raise CompileError(
            "E-MATCH-BUFFER",
            "T.match_buffer makes a parameter of the function a tensor, once and before its kernels",
            facts=facts,
            help="annotate the parameter with T.handle and write A = T.match_buffer(a, (M, N), dtype) before "
            "`with T.Kernel`; parts of a tensor are slices",
        )
    kind = TensorType(shape, dtype, strides, align=max(0, align))
    buffer = builder.matched[param] = kind.buffer(param.name, builder.span)
    for expr in (*buffer.shape, *buffer.strides):
        builder.adopt(expr)
    return buffer


class sblock:
    """Statements as a block: names and tiles made inside end with it. `reads` and `writes` may declare what it
    touches.

    Args:
        name: for readers.
        no_realize: left at False.
    """

    def __init__(self, name: str = "", no_realize: bool = False) -> None:
        if not isinstance(name, str) or no_realize:
            raise CompileError(
                "E-SBLOCK",
                f"T.sblock does not take name={name!r}, no_realize={no_realize!r}",
                help='write `with T.sblock("name"):`',
            )
        require_builder("T.sblock")
        self.name = name
        self.declared: dict[str, set[Buffer]] = {}

    def __enter__(self) -> None:
        builder = require_builder("T.sblock")
        builder.push(Frame("block", builder.span, "the T.sblock"))
        builder.blocks.append(self)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        builder = require_builder("T.sblock")
        builder.blocks.pop()
        frame = builder.pop()
        if kind is not None:
            return
        body = frame.body()
        self._check(body, frame.span)
        builder.emit_built(body)

    def _check(self, body: Any, span: Any) -> None:
        own = {b for node in walk(body) if isinstance(node, Block) for b in node.allocations}
        touched = _touched(body)
        for what, declared in self.declared.items():
            for buffer, node in touched[what].items():
                if buffer in declared or buffer in own:
                    continue
                raise CompileError(
                    "E-SBLOCK",
                    f"the block {what} {buffer.name}, which T.{what} does not name",
                    span=node.span or span,
                    spans=[("the block", span)],
                    facts=[f"T.{what} names {', '.join(sorted(b.name for b in declared)) or 'nothing'}"],
                    help=f"add {buffer.name} to T.{what}, or leave T.{what} out",
                )


def reads(*buffer_slices: Any) -> None:
    """Declares the tensors and tiles that the enclosing `sblock` reads; reading another one is an error.

    Args:
        buffer_slices: buffers, slices or elements.
    """
    _declare("reads", buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """Declares the tensors and tiles that the enclosing `sblock` writes; writing another one is an error.

    Args:
        buffer_slices: buffers, slices or elements.
    """
    _declare("writes", buffer_slices)


def sblock_alloc_buffer(shape: Any, dtype: Any = "float32", data: Any = None, scope: str = "global") -> Buffer:
    """`alloc_buffer` inside of an `sblock`.

    Args:
        shape, dtype, scope: as for `alloc_buffer`.
        data: left out.
    """
    if data is not None:
        raise CompileError(
            "E-SBLOCK",
            "T.sblock_alloc_buffer does not take data",
            facts=[f"found data={data!r}"],
            help="use T.view for another shape or type of a tile",
        )
    return alloc_buffer(shape, dtype, scope)


def tvm_storage_sync(storage_scope: str) -> None:
    """`sync_threads` for ``"shared"`` and ``"shared.dyn"``, `sync_warp` for ``"warp"``.

    Args:
        storage_scope: memory that must have what threads wrote before.
    """
    if storage_scope in ("shared", "shared.dyn"):
        sync_threads()
    elif storage_scope == "warp":
        sync_warp()
    else:
        raise CompileError(
            "E-SYNC-SCOPE",
            f"T.tvm_storage_sync does not take {storage_scope!r}",
            facts=["allowed: 'shared', 'shared.dyn', 'warp'"],
            help="blocks meet at T.sync_grid(), or between two `with T.Kernel`",
        )


def type_annotation(dtype: Any) -> DType:
    """An element type, as `tvm_access_ptr` takes it.

    Args:
        dtype: the type, or its name.
    """
    return as_dtype(dtype)


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: Any) -> AccessPtr:
    """`access_ptr` in TVM's order.

    Args:
        ptype: the buffer's element type, or `type_annotation` of it.
        data: the buffer.
        offset: of the first element, counted in row-major order.
        extent: how many elements are accessed.
        rw_mask: 1 reads, 2 writes, 3 both.
    """
    if not isinstance(data, Buffer) or as_dtype(ptype) is not data.dtype:
        raise CompileError(
            "E-POINTER",
            "T.tvm_access_ptr points into a buffer of its element type",
            facts=[f"found type {ptype!r}, data {data!r}"],
            help="pass the buffer itself: T.tvm_access_ptr(A.dtype, A, offset, extent, 1)",
        )
    rest: Expr = as_expr(offset)
    indices: list[Expr] = []
    for extent_of_axis in reversed(data.shape[1:]):
        width = cast(extent_of_axis, rest.dtype)
        indices.insert(0, binary("floormod", rest, width))
        rest = binary("floordiv", rest, width)
    return access_ptr(BufferLoad(data, (rest, *indices)), rw_mask, extent=extent)


def _declare(what: str, slices: tuple[Any, ...]) -> None:
    builder = require_builder(f"T.{what}")
    if not builder.blocks:
        raise CompileError(
            "E-SBLOCK", f"T.{what} outside a T.sblock", help="leave it out, or open a `with T.sblock():`"
        )
    declared = builder.blocks[-1].declared.setdefault(what, set())
    for item in [i for s in slices for i in (s if isinstance(s, (list, tuple)) else (s,))]:
        buffer = item if isinstance(item, Buffer) else getattr(item, "buffer", None)
        if not isinstance(item, (Buffer, BufferRegion, BufferLoad, ScalarRef)) or buffer is None:
            raise CompileError(
                "E-SBLOCK",
                f"T.{what} names something that is no part of a buffer",
                facts=[f"found {item!r}"],
                help="name buffers, slices A[0:4, :] or elements A[i, j]",
            )
        declared.add(_root(buffer))


def _touched(body: Any) -> dict[str, dict[Buffer, Any]]:
    """What statements read and write, each with a place where they do."""
    found: dict[str, dict[Buffer, Any]] = {"reads": {}, "writes": {}}
    for node in walk(body):
        if isinstance(node, BufferLoad):
            found["reads"].setdefault(_root(node.buffer), node)
        elif isinstance(node, BufferStore):
            found["writes"].setdefault(_root(node.buffer), node)
        elif isinstance(node, AccessPtr):
            for mode, what in (("r", "reads"), ("w", "writes")):
                if mode in node.mode:
                    found[what].setdefault(_root(node.buffer), node)
        elif isinstance(node, TileOpStmt):
            for _, role, region in node.op.operands():
                if role != "out":
                    found["reads"].setdefault(_root(region.buffer), node)
                if role != "in":
                    found["writes"].setdefault(_root(region.buffer), node)
    return found


def _root(buffer: Buffer) -> Buffer:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer
