"""Other ways to see memory: views of buffers, and buffers over addresses.

A view shares the elements of what it shows; the compiler knows (`Buffer.data`). A buffer over an address is declared by
an Attr ``address`` around the statements that use it.
"""

from __future__ import annotations

from typing import Any

from ..arith import Simplifier
from ..dtypes import DType, as_dtype
from ..errors import CompileError, declare_codes
from ..frontend.builder import ScalarRef, reads_memory, require_builder
from ..frontend.placeholder import Placeholder
from ..frontend.signature import PointerType, as_extents
from ..ir import Binary, Buffer, BufferLoad, BufferRegion, Expr, IntImm, as_expr, binary, const

__all__ = ["make_tensor", "make_tensor_from_addr", "reshape", "view"]

declare_codes(
    {
        "E-VIEW": "a view of something that has no storage to show",
        "E-VIEW-SIZE": "a view of another size than what it shows",
        "E-VIEW-TYPE": "a view with element types that do not fit into each other",
        "E-ADDRESS": "a tensor over something that is no address",
    }
)


def view(src: Any, shape: Any = None, dtype: Any = None, strides: Any = None) -> Buffer:
    """Another shape, element type or other strides for a buffer's memory; no copy is made.

    Args:
        src: a buffer, contiguous unless `strides` says how to go through it.
        shape: extents; by default those of `src`, the last one scaled where `dtype` has another width.
        dtype: element type of whole bytes; by default that of `src`.
        strides: in elements of `dtype`, for a buffer in device memory; by default row-major.

    Raises:
        CompileError: `src` is no buffer or has gaps (E-VIEW), the sizes differ (E-VIEW-SIZE), the types do not fit
            (E-VIEW-TYPE).
    """
    return _view("T.view", src, shape, dtype, strides)


def reshape(src: Any, shape: Any) -> Buffer:
    """A buffer's memory with another shape of as many elements; no copy is made.

    Raises:
        CompileError: `src` is no buffer or has gaps (E-VIEW), the numbers of elements differ (E-VIEW-SIZE).
    """
    return _view("T.reshape", src, shape, None, None)


def make_tensor(ptr: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> Buffer:
    """A tensor in device memory that begins at a pointer: a `T.ptr` parameter, or an address loaded from a table.

    Args:
        ptr: a pointer, or a 64-bit integer. It must point to memory of the device that holds all of the tensor.
        shape: extents; they may be expressions of the kernel.
        dtype: element type.
        strides: in elements; by default row-major.

    Raises:
        CompileError: `ptr` is no address (E-ADDRESS), a shape is none (E-SHAPE).
    """
    return _over("T.make_tensor", ptr, shape, dtype, strides)


def make_tensor_from_addr(
    addr: Any, shape: Any, dtype: Any = "float32", strides: Any = None, storage_scope: str = "global"
) -> Buffer:
    """`make_tensor` for an integer expression `addr`; `storage_scope` must be global."""
    if storage_scope != "global":
        raise CompileError(
            "E-ADDRESS",
            "T.make_tensor_from_addr makes tensors in device memory",
            facts=[f"found storage_scope={storage_scope!r}"],
            help="leave storage_scope out; on chip use T.alloc_shared and T.view",
        )
    return _over("T.make_tensor_from_addr", addr, shape, dtype, strides)


def _view(what: str, src: Any, shape: Any, dtype: Any, strides: Any) -> Buffer:
    builder = require_builder(what)
    buffer = _source(what, src)
    element = buffer.dtype if dtype is None else as_dtype(dtype)
    in_registers = buffer.scope in ("fragment", "local", "var")
    if element.kind not in "biuf" or (
        in_registers and element.scalar is not buffer.dtype.scalar and 4 in (element.bits, buffer.dtype.bits)
    ):
        raise CompileError(
            "E-VIEW-TYPE",
            f"{what} cannot show {buffer.dtype} as {element}",
            facts=[f"{buffer!r}"],
            help="use types of whole bytes, in registers; T.cast and T.reinterpret convert single values",
        )
    if buffer.strides and strides is None:
        raise CompileError(
            "E-VIEW",
            f"{what} of {buffer.name}, whose elements need not lie side by side",
            facts=[f"{buffer!r}, strides {list(buffer.strides)!r}"],
            help="pass strides= to T.view, or take the parameter as a contiguous T.Tensor",
        )
    extents = _scaled_shape(what, buffer, element) if shape is None else as_extents(shape, "shape")
    steps: tuple[Expr, ...] = ()
    if strides is not None:
        steps = _strides(what, buffer, extents, strides)
    _require_size(what, buffer, extents, element, steps)
    if buffer.is_on_chip and not all(isinstance(e, IntImm) for e in extents):
        raise CompileError(
            "E-VIEW-SIZE",
            f"the shape of a view of {buffer.name} must be constants",
            facts=[f"{buffer!r}", f"shape: {list(extents)!r}"],
            help="give the extents of a tile as Python numbers",
        )
    for extent in (*extents, *steps):
        builder.adopt(extent)
    new = Buffer(
        builder.take_hint(f"{buffer.name}_view"),
        extents,
        element,
        buffer.scope,
        steps,
        buffer,
        None,
        buffer.align,
        span=builder.span,
    )
    home = builder.home.get(buffer)
    if home is not None:
        builder.home[new] = home
    return new


def _source(what: str, src: Any) -> Buffer:
    if isinstance(src, Placeholder):
        raise src.error()
    if isinstance(src, Buffer):
        if src.scope not in ("var", "barrier"):
            return src
        found = f"{src!r}"
    elif isinstance(src, ScalarRef):
        found = f"the variable {src.buffer.name}"
    elif isinstance(src, (BufferRegion, BufferLoad)):
        found = f"{src!r}, a part of {src.buffer.name}"
    else:
        found = f"{src!r}, a {type(src).__name__}"
    raise CompileError(
        "E-VIEW",
        f"{what} takes a whole buffer",
        facts=[f"found {found}"],
        help="view the whole buffer and index the view",
    )


def _scaled_shape(what: str, buffer: Buffer, element: DType) -> tuple[Expr, ...]:
    if element.storage_bits == buffer.dtype.storage_bits:
        return buffer.shape
    last = buffer.shape[-1]
    bits = binary("mul", last, buffer.dtype.storage_bits)
    scaled = Simplifier().simplify(binary("floordiv", bits, element.storage_bits))
    rest = Simplifier().simplify(binary("floormod", bits, element.storage_bits))
    if isinstance(rest, IntImm) and rest.value == 0:
        return (*buffer.shape[:-1], scaled)
    raise CompileError(
        "E-VIEW-SIZE",
        f"{what}: rows of {buffer.name} are no whole number of {element}",
        facts=[f"{buffer!r}", f"{last!r} elements of {buffer.dtype} a row"],
        help="pass shape= as well",
    )


def _strides(what: str, buffer: Buffer, extents: tuple[Expr, ...], strides: Any) -> tuple[Expr, ...]:
    steps = as_extents(strides, "strides")
    if buffer.is_on_chip:
        raise CompileError(
            "E-VIEW",
            f"{what}: strides are for buffers in device memory",
            facts=[f"{buffer!r}", f"strides: {list(steps)!r}"],
            help="leave strides out and compute the indices",
        )
    if len(steps) == len(extents):
        return steps
    raise CompileError(
        "E-SHAPE",
        f"{len(steps)} strides for {len(extents)} dimensions",
        facts=[f"shape: {list(extents)!r}", f"strides: {list(steps)!r}"],
        help="give one stride for each dimension, in elements",
    )


def _require_size(
    what: str, buffer: Buffer, extents: tuple[Expr, ...], element: DType, steps: tuple[Expr, ...]
) -> None:
    held = _bits(_count(buffer.shape), buffer.dtype)
    if buffer.strides:
        held = _bits(_reach(buffer.shape, buffer.strides), buffer.dtype)
    if steps:
        # What the strides reach must lie inside.
        wanted = _bits(_reach(extents, steps), element)
        verdict: Expr = binary("le", wanted, held)
    else:
        wanted = _bits(_count(extents), element)
        verdict = binary("eq", wanted, held)
    truth = Simplifier().simplify(verdict)
    if isinstance(truth, IntImm) and truth.value:
        return
    raise CompileError(
        "E-VIEW-SIZE",
        f"{what}: the view of {buffer.name} {'is' if isinstance(truth, IntImm) else 'is not known to be'} "
        f"{'of another size' if isinstance(truth, IntImm) else 'of its size'}",
        facts=[f"{buffer!r}", f"view: {element}{list(extents)!r}" + (f", strides {list(steps)!r}" if steps else "")],
        help="give a shape with as many elements; sizes known only at the call must cancel, as in (m, n) → (m * n,)",
    )


def _count(extents: tuple[Expr, ...]) -> Expr:
    total: Expr = const(1, "int64")
    for extent in extents:
        total = binary("mul", total, _wide(extent))
    return total


def _reach(extents: tuple[Expr, ...], strides: tuple[Expr, ...]) -> Expr:
    last: Expr = const(1, "int64")
    for extent, stride in zip(extents, strides):
        last = binary("add", last, binary("mul", binary("sub", _wide(extent), 1), _wide(stride)))
    return last


def _wide(expr: Expr) -> Expr:
    """The same size computed in 64 bits, so that equal products simplify to the same sum."""
    if isinstance(expr, IntImm):
        return const(expr.value, "int64")
    if isinstance(expr, Binary) and expr.op in ("add", "sub", "mul"):
        return binary(expr.op, _wide(expr.a), _wide(expr.b))
    return expr.astype("int64")


def _bits(count: Expr, dtype: DType) -> Expr:
    return binary("mul", count, dtype.storage_bits)


def _over(what: str, address: Any, shape: Any, dtype: Any, strides: Any) -> Buffer:
    builder = require_builder(what)
    value = _address(what, address)
    if builder.kernel is None and reads_memory(value):
        builder.require_kernel(f"{what} over an address in memory")
    extents = as_extents(shape, "shape")
    steps = () if strides is None else as_extents(strides, "strides")
    if steps and len(steps) != len(extents):
        raise CompileError(
            "E-SHAPE",
            f"{len(steps)} strides for {len(extents)} dimensions",
            facts=[f"shape: {list(extents)!r}", f"strides: {list(steps)!r}"],
            help="give one stride for each dimension, in elements",
        )
    for extent in (*extents, *steps):
        builder.adopt(extent)
    buffer = Buffer(
        builder.take_hint("tensor"), extents, as_dtype(dtype), "global", steps, None, None, 0, span=builder.span
    )
    builder.home[buffer] = builder.frame
    builder.wrap_rest("address", buffer, value)
    return buffer


def _address(what: str, value: Any) -> Expr:
    if isinstance(value, Placeholder):
        raise value.error()
    if isinstance(value, (Expr, ScalarRef, int)) and not isinstance(value, bool):
        expr = as_expr(value)
        if expr.dtype.lanes == 1 and (expr.dtype.name == "handle" or (expr.dtype.is_int and expr.dtype.bits == 64)):
            return expr
        found = f"{expr!r}, which is {expr.dtype}"
    else:
        found = f"{value!r}" if isinstance(value, PointerType) else f"{value!r}, a {type(value).__name__}"
    raise CompileError(
        "E-ADDRESS",
        f"{what} needs a pointer or a 64-bit address",
        facts=[f"found {found}"],
        help="take the pointer as a parameter, p: T.ptr, or load it from an int64 tensor of data_ptr() values",
    )
