"""Memory: tiles in shared memory and registers, arrays and scalars of a thread, which live as long as the block that
allocates them; and workspaces in device memory."""

from __future__ import annotations

from typing import Any

from ..dtypes import as_dtype
from ..errors import CompileError, declare_codes
from ..frontend.builder import ScalarRef, known, require_builder
from ..frontend.placeholder import refuse_placeholder
from ..frontend.regions import static_value
from ..frontend.signature import as_extents
from ..ir import Buffer, BufferLoad, Expr, IntImm, Var, as_expr, const, find_scope, walk

__all__ = ["alloc_fragment", "alloc_global", "alloc_local", "alloc_shared", "alloc_var"]

declare_codes(
    {
        "E-ALLOC-SHAPE": "a buffer on chip whose shape is no tuple of positive constants",
        "E-ALLOC-SCOPE": "an allocation in memory that this function does not allocate in",
        "E-ALLOC-INIT": "an initial value that is no scalar",
    }
)

# What TileLang code says → the scope.
_TILE_SCOPES = ("shared", "fragment", "local")
_SCOPES = {"shared.dyn": "shared", "local.fragment": "fragment", "local.var": "var"}


def alloc_shared(shape: Any, dtype: Any, scope: str = "shared.dyn") -> Buffer:
    """A tile that all threads of the block see.

    Args:
        shape: extents, constants.
        dtype: element type.
        scope: ``shared`` (``shared.dyn`` means the same), or a shared scope of a backend.
    """
    return _allocate("T.alloc_shared", shape, dtype, scope, "shared")


def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> Buffer:
    """A tile in registers, spread over the threads of the block; the compiler chooses how.

    Args:
        shape: extents, positive constants.
        dtype: element type.
        scope: ``local.fragment`` (``fragment`` means the same), or a fragment scope of a backend; another scope on
            chip, ``local`` or ``shared``, allocates there.

    Raises:
        CompileError: an extent is no positive constant (E-ALLOC-SHAPE), a scope not on chip (E-ALLOC-SCOPE).
    """
    return _allocate("T.alloc_fragment", shape, dtype, scope, "fragment")


def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Buffer:
    """An array that each thread has for itself.

    Args:
        shape: extents, positive constants.
        dtype: element type.
        scope: ``local``.

    Raises:
        CompileError: an extent is no positive constant (E-ALLOC-SHAPE), another scope (E-ALLOC-SCOPE).
    """
    return _allocate("T.alloc_local", shape, dtype, scope, "local")


def alloc_global(shape: Any, dtype: Any, scope: str = "global") -> Buffer:
    """A workspace in device memory, which the call allocates and gives back; all launches of the function share it.

    Its contents are undefined at first. Inside `with T.Kernel` it is still one for the whole grid.

    Args:
        shape: extents: numbers, or expressions of shape variables and scalar parameters.
        dtype: element type.
        scope: global.

    Raises:
        CompileError: an extent depends on values that only the kernel has (E-ALLOC-SHAPE).
    """
    builder = require_builder("T.alloc_global")
    if scope != "global":
        raise CompileError(
            "E-ALLOC-SCOPE",
            f"T.alloc_global does not allocate in scope {scope!r}",
            facts=["allowed: 'global'"],
            help="on chip use T.alloc_shared, T.alloc_fragment or T.alloc_local",
        )
    if builder.eager is not None:
        builder.eager.require_solved(builder)
    extents = as_extents(shape, "shape")
    for extent in extents:
        for node in walk(extent):
            if isinstance(node, BufferLoad) or (isinstance(node, Var) and node in builder.home):
                raise CompileError(
                    "E-ALLOC-SHAPE",
                    "the size of a workspace must be known before the kernel starts",
                    facts=[f"found {node!r} in {list(extents)!r}"],
                    help="use numbers, shape variables and scalar parameters; allocate for the largest case",
                )
        builder.adopt(extent)
    root = builder.frames[0]
    buffer = Buffer(builder.take_hint("workspace"), extents, as_dtype(dtype), "global", span=builder.span)
    root.allocations.append(buffer)
    return buffer


def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Any:
    """A scalar that each thread has for itself: assigning to its name stores, reading loads.

    Args:
        dtype: element type.
        args: an initial value and a scope may stand here.
        init: initial value; without one it must be assigned before it is read.
    """
    builder = require_builder("T.alloc_var")
    for value in args:
        if isinstance(value, str) and (value in _SCOPES or value == "var"):
            scope = value
        elif init is None:
            init = value
        else:
            raise CompileError(
                "E-ALLOC-INIT",
                "T.alloc_var has two initial values",
                facts=[f"found {init!r} and {value!r}"],
                help="pass init= alone",
            )
    buffer = _allocate("T.alloc_var", (1,), dtype, scope, "var")
    ref = ScalarRef(buffer, (const(0, "int32", builder.span),))
    if init is not None:
        if isinstance(init, (Buffer, str)):
            raise CompileError(
                "E-ALLOC-INIT",
                "the initial value of T.alloc_var is no scalar",
                facts=[f"found {init!r}"],
                help="pass a number or an expression",
            )
        builder.store(buffer, ref.indices, as_expr(init, buffer.dtype))
    return ref


def _allocate(what: str, shape: Any, dtype: Any, scope: str, family: str) -> Buffer:
    builder = require_builder(what)
    builder.require_kernel(what)
    name = _SCOPES.get(scope, scope) if isinstance(scope, str) else repr(scope)
    # A scope that is given decides: alloc_fragment(…, "local") is how some kernels write alloc_local.
    families = ("var",) if family == "var" else _TILE_SCOPES
    if name.split(".")[0] not in families:
        find_scope(name)
        raise CompileError(
            "E-ALLOC-SCOPE",
            f"{what} does not allocate in scope {scope!r}",
            facts=[f"allowed: {', '.join(map(repr, families))}, or a scope of a backend that begins so"],
            help="use T.alloc_shared, T.alloc_fragment, T.alloc_local or T.alloc_var",
        )
    extents = constant_extents(what, shape)
    hint = name.split(".")[0]
    return builder.allocate(Buffer(builder.take_hint(hint), extents, as_dtype(dtype), name, span=builder.span))


def constant_extents(what: str, shape: Any) -> tuple[Expr, ...]:
    items = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return tuple([_extent(what, axis, value, items) for axis, value in enumerate(items)])


def _extent(what: str, axis: int, value: Any, items: tuple[Any, ...]) -> IntImm:
    refuse_placeholder(value)
    if isinstance(value, ScalarRef):
        found = f"the variable {value.buffer.name}"
    elif isinstance(value, Expr):
        number = known(static_value(value)) if value.dtype.is_int else value
        if isinstance(number, int) and number > 0:
            return IntImm(number)
        found = f"{value!r}"
    elif isinstance(value, int) and not isinstance(value, bool):
        if value > 0:
            return IntImm(value)
        found = str(value)
    elif hasattr(value, "__index__") and not isinstance(value, bool):
        return _extent(what, axis, value.__index__(), items)
    else:
        found = f"{value!r}, a {type(value).__name__}"
    raise CompileError(
        "E-ALLOC-SHAPE",
        f"the shape of {what} must be positive constants",
        facts=[f"dimension {axis}: {found}", f"shape: {list(items)!r}"],
        help="give the extents of a tile, such as (128, 64), and loop over tiles",
    )
