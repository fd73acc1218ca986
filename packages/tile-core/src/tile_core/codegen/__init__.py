"""Printers: IR to source text."""

from .c_like import CPrinter
from .cpp_like import CppPrinter, element_count, formatted
from .host_c import HostCPrinter, abi_prelude, print_host
from .host_call import HostCall
from .host_python import HostPythonPrinter, print_host_python
from .postprocess import (
    postproc_key,
    postprocess,
    register_c_postproc,
    register_cuda_postproc,
    register_postproc,
    unregister_postproc,
)

__all__ = [
    "CPrinter",
    "CppPrinter",
    "HostCPrinter",
    "HostCall",
    "HostPythonPrinter",
    "abi_prelude",
    "element_count",
    "formatted",
    "postproc_key",
    "postprocess",
    "print_host",
    "print_host_python",
    "register_c_postproc",
    "register_cuda_postproc",
    "register_postproc",
    "unregister_postproc",
]
