"""Caches: values of this process (`memory`), compiled kernels on disk (`disk`), and what names them (`key`)."""

from .binaries import BinaryStore
from .disk import DiskCache
from .entry import Entry
from .key import cache_key, code_digest
from .layers import Layers
from .memory import MemoryCache

__all__ = ["BinaryStore", "DiskCache", "Entry", "Layers", "MemoryCache", "cache_key", "code_digest"]
