"""Caches: values of this process (`memory`), compiled kernels on disk (`disk`), and what names them (`key`)."""

from .disk import DiskCache, Entry
from .key import cache_key, code_digest
from .memory import MemoryCache

__all__ = ["DiskCache", "Entry", "MemoryCache", "cache_key", "code_digest"]
