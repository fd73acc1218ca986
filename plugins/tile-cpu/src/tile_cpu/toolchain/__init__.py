"""The system's C++ compiler."""

from .compiler import TOOLCHAIN, CompilerToolchain, find_compiler

__all__ = ["TOOLCHAIN", "CompilerToolchain", "find_compiler"]
