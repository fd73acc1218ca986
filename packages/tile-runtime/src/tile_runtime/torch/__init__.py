"""Kernels as torch operators: `op` makes one, with a schema, a fake implementation and a gradient."""

from .op import TorchOp, op

__all__ = ["TorchOp", "op"]
