"""Lending torch's allocator to a call that has no torch tensor among its arguments.

tvm-ffi lends the allocator of the framework whose tensors it sees. A kernel of scalars alone, or one called with numpy
arrays, has none, so for the length of the call torch's is set for this thread; nothing is registered for the process,
where it would meet other libraries that use tvm-ffi.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from tile_core.ffi import tvm_ffi_module

__all__ = ["torch_allocator"]


class _ExchangeAPI(ctypes.Structure):
    """The head of DLPackExchangeAPI (dlpack.h): version, older API, allocator."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocator", ctypes.c_void_p),
    )


@contextmanager
def torch_allocator() -> Iterator[None]:
    """Inside, outputs of packed functions called from this thread are torch tensors' storage."""
    set_allocator, allocator = _functions()
    before = ctypes.c_void_p()
    set_allocator(allocator, 0, ctypes.byref(before))
    try:
        yield
    finally:
        set_allocator(before, 0, None)


@cache
def _functions() -> tuple[Callable[..., int], ctypes.c_void_p]:
    import torch

    library = ctypes.CDLL(tvm_ffi_module().libinfo.find_libtvm_ffi())  # loaded already: the same library
    set_allocator = library.TVMFFIEnvSetDLPackManagedTensorAllocator
    set_allocator.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    set_allocator.restype = ctypes.c_int
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    pointer.restype = ctypes.c_void_p
    capsule = torch.Tensor.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    api = ctypes.cast(pointer(capsule, b"dlpack_exchange_api"), ctypes.POINTER(_ExchangeAPI)).contents
    return set_allocator, ctypes.c_void_p(api.allocator)
