"""What a kernel takes and gives: `tile_core.ir.signature`, by the runtime's name for it."""

from tile_core.ir.signature import KernelParam, Signature, evaluate, normalize_out_idx

__all__ = ["KernelParam", "Signature", "evaluate", "normalize_out_idx"]
