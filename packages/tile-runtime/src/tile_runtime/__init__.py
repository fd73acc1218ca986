"""jit, kernel objects, caches, execution backends and torch integration of Tile.

Importing this package imports neither torch nor tvm_ffi; both come when a kernel is loaded.
"""

from .__about__ import __version__
from .kernel import Kernel
from .profile import Profiler, TensorSupplyType, do_bench
from .signature import KernelParam

__all__ = ["Kernel", "KernelParam", "Profiler", "TensorSupplyType", "__version__", "do_bench"]
