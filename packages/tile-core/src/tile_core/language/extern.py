"""Functions of the target's own language, called from a kernel, and the source that defines them."""

from __future__ import annotations

from typing import Any

from ..dtypes import as_dtype
from ..errors import CompileError, declare_codes
from ..frontend.builder import ScalarRef, known, require_builder
from ..frontend.operators import is_expression
from ..ir import AccessPtr, Buffer, BufferLoad, BufferRegion, Call, Expr, StringImm, as_expr, const, sum_of
from ..ir import binary as _binary

__all__ = ["access_ptr", "address_of", "call_extern", "call_pure_extern", "import_source"]

declare_codes(
    {
        "E-EXTERN": "a call of a function of the target's language that cannot be made",
        "E-POINTER": "a pointer to something that has no address",
    }
)

_MODES = {1: "r", 2: "w", 3: "rw", "r": "r", "w": "w", "rw": "rw"}


def call_extern(dtype: Any, func_name: str, *args: Any) -> Call:
    """Calls a function of the target's own language, defined by its headers or by `import_source`.

    Args:
        dtype: what it returns; ``void`` for a statement.
        func_name: its name there.
        args: scalars, texts, and pointers from `address_of` and `access_ptr`, whose modes say what the function does
            to memory.
    """
    builder = require_builder("T.call_extern")
    builder.require_kernel("T.call_extern")
    if not isinstance(func_name, str) or not func_name.replace("::", "_").isidentifier():
        raise CompileError(
            "E-EXTERN",
            f"T.call_extern cannot call {func_name!r}",
            facts=["allowed: the name of a function"],
            help='write T.call_extern("float32", "function", x)',
        )
    values = []
    for arg in args:
        if isinstance(arg, (Buffer, BufferRegion)):
            raise CompileError(
                "E-EXTERN",
                f"T.call_extern passes no whole buffer to {func_name}",
                facts=[f"found {arg!r}"],
                help="pass a pointer that says what is done through it: T.access_ptr(A, 'r')",
            )
        values.append(as_expr(arg))
    return Call("call_extern", (StringImm(func_name), *values), as_dtype(dtype))


def call_pure_extern(dtype: Any, func_name: str, *args: Any) -> Call:
    """`call_extern` of a function that only computes; calls are made as they stand, none is merged or left out.

    Args:
        dtype: what it returns.
        func_name: its name in the target's language.
        args: scalars, texts, and pointers from `address_of` and `access_ptr`.
    """
    return call_extern(dtype, func_name, *args)


def import_source(source: str | None = None) -> None:
    """Puts `source`, text of the target's own language, before the kernel: definitions that `call_extern` calls."""
    builder = require_builder("T.import_source")
    kernel = builder.require_kernel("T.import_source")
    if source is None:
        return
    if not isinstance(source, str):
        raise CompileError("E-EXTERN", f"T.import_source does not take {source!r}", help="pass the source as text")
    kernel.prelude = source if kernel.prelude is None else f"{kernel.prelude}\n{source}"


def address_of(obj: Any) -> AccessPtr:
    """A pointer to an element of a buffer, `obj`, through which any amount may be read and written."""
    return _pointer("T.address_of", obj, "rw", None)


def access_ptr(
    base: Any,
    access_type: Any = "r",
    *extents: Any,
    offset: Any = 0,
    extent: Any = None,
    ignore_last_ndim: int = 0,
) -> AccessPtr:
    """A pointer to a buffer or an element, with what is done through it.

    Args:
        base: a buffer (its first element) or an element.
        access_type: r, w or rw (or 1, 2, 3).
        extents: sizes whose product is the number of elements that are accessed.
        offset: elements from `base`, in the buffer's last dimension.
        extent: the number of elements, in place of `extents`; by default all from there to the buffer's end.
        ignore_last_ndim: of an element's indices the last so many count as 0: the pointer is to the start of the rows,
            planes, … that the others name.

    Raises:
        CompileError: no buffer or element, an amount that is no integer (E-POINTER).
    """
    mode = _MODES.get(access_type) if type(access_type) in (str, int) else None
    if mode is None:
        raise CompileError(
            "E-POINTER",
            f"T.access_ptr does not take access_type={access_type!r}",
            facts=["allowed: 'r', 'w', 'rw' or 1, 2, 3"],
            help="say what is done through the pointer",
        )
    for label, value in (("offset", offset), ("extent", extent), *(("extents", size) for size in extents)):
        number = known(value)
        if value is not None and (
            not as_index(value) or (label != "offset" and isinstance(number, int) and number < 0)
        ):
            raise CompileError(
                "E-POINTER",
                f"T.access_ptr does not take {label}={value!r}",
                facts=["allowed: integers and integer expressions, in elements"],
                help="say how many elements",
            )
    count: Any = extent
    for size in extents:
        count = size if count is None else count * size
    return _pointer("T.access_ptr", _row_start(base, ignore_last_ndim), mode, count, offset)


def as_index(value: Any) -> bool:
    """Whether a value is a number of elements: an integer or an integer expression."""
    if isinstance(value, (bool, str)) or not (isinstance(value, int) or is_expression(value)):
        return False
    return as_expr(value).dtype.is_int


def _row_start(base: Any, ignored: Any) -> Any:
    """The element with its last `ignored` indices 0."""
    if isinstance(base, ScalarRef):
        base = base.__tile_expr__()
    axes = base.buffer.ndim if isinstance(base, BufferLoad) else base.ndim if isinstance(base, Buffer) else 0
    count = known(ignored)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= axes:
        raise CompileError(
            "E-POINTER",
            f"T.access_ptr does not take ignore_last_ndim={ignored!r}",
            facts=[f"allowed: 0 to {axes}, the axes of {base!r}"],
            help="leave it out to point to the element itself",
        )
    if not count or not isinstance(base, BufferLoad):
        return base
    zeros = tuple([const(0, "int32")] * count)
    return BufferLoad(base.buffer, (*base.indices[: axes - count], *zeros), span=base.span)


def _pointer(what: str, base: Any, mode: str, count: Any, offset: Any = 0) -> AccessPtr:
    builder = require_builder(what)
    builder.require_kernel(what)
    if isinstance(base, ScalarRef):
        base = base.__tile_expr__()
    if isinstance(base, Buffer):
        buffer, indices = base, tuple([const(0, "int32")] * base.ndim)
    elif isinstance(base, BufferLoad):
        buffer, indices = base.buffer, base.indices
    else:
        raise CompileError(
            "E-POINTER",
            f"{what} cannot point to something that is no buffer and no element",
            facts=[f"found {base!r}"],
            help="pass a buffer A or an element A[i, j]",
        )
    if not buffer.memory.addressable:
        raise CompileError(
            "E-POINTER",
            f"{buffer.name} is in {buffer.scope} memory, which has no addresses",
            facts=[f"{buffer!r}"],
            help="copy the tile to shared memory first",
        )
    if is_expression(offset) or known(offset) != 0:
        indices = (*indices[:-1], _binary("add", indices[-1], offset))
    return AccessPtr(buffer, indices, _rest(buffer, indices) if count is None else as_expr(count), mode)


def _rest(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Elements from the one at `indices` to the buffer's end, in row-major order."""
    total: Expr = const(1, "int32")
    terms = []
    for extent, index in zip(reversed(buffer.shape), reversed(indices)):
        terms.append(_binary("mul", index, total))
        total = _binary("mul", total, extent)
    return _binary("sub", total, sum_of(terms))
