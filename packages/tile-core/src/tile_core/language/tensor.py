"""Annotations of parameters: tensors, pointers, and tiles for macros."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..frontend.outside import placed
from ..frontend.signature import PointerType, TensorType, dynamic

__all__ = [
    "Buffer",
    "FragmentBuffer",
    "LocalBuffer",
    "SharedBuffer",
    "StridedTensor",
    "Tensor",
    "dyn",
    "ptr",
    "symbolic",
]

declare_codes({"E-TENSOR-OPTION": "an option of a tensor annotation that this version does not take"})


class Tensor:
    """A contiguous tensor in device memory: ``A: T.Tensor((M, N), "float16")`` or ``A: T.Tensor[[M, N],
    "float16"]``."""

    _scope = "global"

    @placed
    def __new__(cls, shape: Any, dtype: Any = "float32", data: Any = None, scope: str | None = None) -> Any:
        """The type of a tensor.

        Args:
            shape: extents: ints, or shape variables from T.dynamic or T.const.
            dtype: element type.
            data: a pointer to view; not in this version.
            scope: memory scope; the class's own by default.
        """
        _require_none("T." + cls.__name__, data=data)
        return TensorType(shape, dtype, scope=scope or cls._scope)

    def __class_getitem__(cls, parameters: Any) -> Any:
        if isinstance(parameters, tuple) and len(parameters) == 2:
            shape, dtype = parameters
            # T.Tensor[(n), dtype]: the parentheses of one extent are none
            if isinstance(shape, (tuple, list)) or isinstance(dtype, (DType, str)):
                return TensorType(shape, dtype, scope=cls._scope)
        return TensorType(parameters, scope=cls._scope)


class StridedTensor:
    """A tensor in device memory with given strides, in elements: ``T.StridedTensor((M, N), (ld, 1), "float16")``."""

    @placed
    def __new__(
        cls, shape: Any, strides: Any, dtype: Any = "float32", scope: str | None = None, *, data: Any = None
    ) -> Any:
        """The type of a tensor with strides."""
        _require_none("T.StridedTensor", data=data)
        return TensorType(shape, dtype, strides, scope or "global")

    def __class_getitem__(cls, parameters: Any) -> Any:
        return cls(*parameters)


class Buffer:
    """A tensor with everything that can be said of it: strides, scope, alignment in bytes."""

    @placed
    def __new__(
        cls,
        shape: Any,
        dtype: Any = "float32",
        data: Any = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> Any:
        """The type of a buffer; options without meaning here must be left at their defaults."""
        _require_none("T.Buffer", data=data, elem_offset=elem_offset, axis_separators=axis_separators)
        if offset_factor not in (0, 1) or buffer_type not in ("", "default"):
            raise CompileError(
                "E-TENSOR-OPTION",
                "T.Buffer does not take offset_factor and buffer_type",
                facts=[f"found offset_factor={offset_factor!r}, buffer_type={buffer_type!r}"],
                help="leave them out",
            )
        return TensorType(shape, dtype, strides, scope, align)

    def __class_getitem__(cls, parameters: Any) -> Any:
        return cls(*parameters)


class SharedBuffer(Tensor):
    """Annotation of a macro parameter: a tile in shared memory."""

    _scope = "shared"


class FragmentBuffer(Tensor):
    """Annotation of a macro parameter: a tile in registers."""

    _scope = "fragment"


class LocalBuffer(Tensor):
    """Annotation of a macro parameter: an array of a thread."""

    _scope = "local"


def ptr(dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False) -> PointerType:
    """Annotation of a raw pointer parameter: an address, or a tensor's ``data_ptr()``.

    Args:
        dtype: what it points to; for readers.
        storage_scope: global.
        is_size_var: left at False.
    """
    if storage_scope != "global" or is_size_var:
        raise CompileError(
            "E-TENSOR-OPTION",
            "T.ptr of a parameter points to global memory",
            facts=[f"found storage_scope={storage_scope!r}, is_size_var={is_size_var!r}"],
            help="write T.ptr(dtype)",
        )
    return PointerType(dtype)


# ``p: T.ptr`` means ``p: T.ptr()``.
setattr(ptr, "annotates_pointer", True)  # noqa: B010 - functions have no such attribute for type checkers
symbolic = dynamic


class _Dyn:
    """``T.dyn["m"]``: a shape variable, as `dynamic` makes it; bind it to a name to use it twice."""

    def __getitem__(self, name: str) -> Any:
        return dynamic(name)

    def __repr__(self) -> str:
        return "T.dyn"


dyn = _Dyn()


def _require_none(what: str, **options: Any) -> None:
    for key, value in options.items():
        if value is not None:
            raise CompileError(
                "E-TENSOR-OPTION",
                f"{what} does not take {key} in this version",
                facts=[f"found {key}={value!r}"],
                help=f"leave {key} out",
            )
