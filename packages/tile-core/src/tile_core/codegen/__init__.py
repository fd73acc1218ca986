"""Printers: IR to source text."""

from .c_like import CPrinter
from .host_c import HostCPrinter, abi_prelude, print_host

__all__ = ["CPrinter", "HostCPrinter", "abi_prelude", "print_host"]
