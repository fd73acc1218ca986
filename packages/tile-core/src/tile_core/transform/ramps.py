"""Arithmetic on the indices of a vector: what stays a ramp, or a ramp whose lanes are in another order.

A ramp of stride 1 is one plain load or store. A reordered one, which ``j ^ 4`` of a butterfly gives, is one plain load
and a permutation of its lanes, written as a `Shuffle` of the ramp; anything else is a gather.
"""

from __future__ import annotations

from ..arith import Prover
from ..dtypes import DType
from ..ir import Broadcast, BufferLoad, Expr, IntImm, Ramp, Shuffle, binary, cast, const, is_one, unary

__all__ = ["load_in_order", "ramp_arithmetic", "ramp_cast"]


def ramp_arithmetic(op: str, a: Expr, b: Expr, prover: Prover) -> Expr | None:
    """`a op b` for integers, at least one with lanes, as a ramp or a reordered one; None where it is neither."""
    if isinstance(a, Shuffle) or isinstance(b, Shuffle):
        return _reordered(op, a, b, prover)
    if op in ("bitand", "bitor", "bitxor"):
        return _bitwise(op, a, b, prover)
    if op not in ("add", "sub", "mul"):
        return None
    if isinstance(b, Ramp) and not isinstance(a, Ramp) and a.dtype.lanes == 1:
        if op == "sub":
            return Ramp(binary("sub", a, b.base), unary("neg", b.stride), b.lanes)
        a, b = b, a
    if not isinstance(a, Ramp):
        return None
    if b.dtype.lanes == 1:
        if op == "mul":
            return Ramp(binary("mul", a.base, b), binary("mul", a.stride, b), a.lanes)
        return Ramp(binary(op, a.base, b), a.stride, a.lanes)
    if isinstance(b, Ramp) and op != "mul":
        return Ramp(binary(op, a.base, b.base), binary(op, a.stride, b.stride), a.lanes)
    return None


def ramp_cast(value: Expr, dtype: DType) -> Expr | None:
    """A ramp, reordered or not, in an integer type that is no narrower."""
    if isinstance(value, Shuffle) and isinstance(value.vectors[0], Ramp):
        ramp = ramp_cast(value.vectors[0], dtype)
        return None if ramp is None else Shuffle((ramp,), value.indices)
    if isinstance(value, Ramp) and dtype.is_int and dtype.bits >= value.dtype.bits:
        return Ramp(cast(value.base, dtype), cast(value.stride, dtype), value.lanes)
    return None


def load_in_order(load: BufferLoad) -> Expr:
    """A load through a reordered ramp, all of whose lanes are read, as a plain one whose lanes are then reordered."""
    index = load.indices[0]
    if load.predicate is not None or not isinstance(index, Shuffle) or not isinstance(index.vectors[0], Ramp):
        return load
    return Shuffle((BufferLoad(load.buffer, (index.vectors[0],), span=load.span),), index.indices, span=load.span)


def _bitwise(op: str, a: Expr, b: Expr, prover: Prover) -> Expr | None:
    """`ramp op constant` where the lanes' numbers take the low bits alone: the base is a multiple of their count."""
    if isinstance(a, (IntImm, Broadcast)):
        a, b = b, a
    b = b.value if isinstance(b, Broadcast) else b
    if not isinstance(a, Ramp) or not is_one(a.stride) or not isinstance(b, IntImm) or a.lanes & (a.lanes - 1):
        return None
    low = b.value & (a.lanes - 1)
    # Lanes that fall together make no ramp: only xor keeps all of them apart.
    if op != "bitxor" and low != (a.lanes - 1 if op == "bitand" else 0):
        return None
    offset = prover.simplify(binary("floormod", a.base, const(a.lanes, a.base.dtype)))
    if not (isinstance(offset, IntImm) and offset.value == 0):
        return None
    high = b.value - low if op == "bitxor" else b.value
    base = a.base if op == "bitxor" and high == 0 else binary(op, a.base, const(high, a.base.dtype))
    ramp = Ramp(base, a.stride, a.lanes)
    if op != "bitxor" or low == 0:
        return ramp
    return Shuffle((ramp,), tuple(lane ^ low for lane in range(a.lanes)))


def _reordered(op: str, a: Expr, b: Expr, prover: Prover) -> Expr | None:
    """The operator on a reordered ramp and what all lanes share: that on the ramp, reordered."""
    turned, other = (a, b) if isinstance(a, Shuffle) else (b, a)
    if not isinstance(turned, Shuffle) or (other.dtype.lanes != 1 and not isinstance(other, Broadcast)):
        return None
    (ramp,) = turned.vectors
    moved = ramp_arithmetic(op, ramp, b, prover) if turned is a else ramp_arithmetic(op, a, ramp, prover)
    if isinstance(moved, Shuffle):
        return Shuffle(moved.vectors, tuple(moved.indices[i] for i in turned.indices))
    return None if moved is None else Shuffle((moved,), turned.indices)
