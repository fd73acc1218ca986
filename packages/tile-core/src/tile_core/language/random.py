"""Random numbers: Philox4x32-10 as cuRAND draws it, the same bits on every target.

A generator is a thread's own: a key (`seed`), a stream of 2^64 numbers (`seq`) and the place in it. The number at a
place is a function of the three, so nothing but the place is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, known, require_builder
from ..frontend.operators import is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import Buffer, BufferLoad, BufferStore, Call, Expr, If, Seq, as_expr, binary, cast, const
from .operands import operand_error, require_option

__all__ = ["rng_init", "rng_rand", "rng_rand_float"]

declare_codes(
    {
        "E-RNG-GENERATOR": "a generator of random numbers that this version does not have",
        "E-RNG-INIT": "random numbers before T.rng_init",
    }
)

PHILOX = "curandStatePhilox4_32_10_t"
_SHORT = ("philox", "Philox4_32_10", PHILOX)
UINT32, UINT64, FLOAT32, FLOAT64 = DType("uint32"), DType("uint64"), DType("float32"), DType("float64")


@dataclass
class _Generator:
    """A generator in the kernel that is being traced: variables of the thread."""

    kernel: Any
    seed: Expr
    sequence: Expr
    place: Buffer
    spare: dict[int, tuple[Buffer, Buffer]]


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = PHILOX) -> None:
    """Begins the executing thread's generator.

    Args:
        seed: the key, an integer of up to 64 bits.
        seq: the stream; by default the thread's number in the whole grid, so that every thread has its own.
        off: the place of the first number.
        generator: curandStatePhilox4_32_10_t.

    Raises:
        CompileError: another generator (E-RNG-GENERATOR).
    """
    op = "T.rng_init"
    builder = require_builder(op)
    kernel = builder.require_kernel(op)
    if generator not in _SHORT:
        raise CompileError(
            "E-RNG-GENERATOR",
            f"{op} has no generator {generator!r}",
            facts=[f"allowed: {PHILOX!r}"],
            help="leave generator out: Philox has 2^64 streams of 2^64 numbers, and any of them begins at once",
        )
    key = builder.bind("seed", _integer(op, "seed", seed))
    stream = builder.bind("sequence", _thread_number(builder) if seq is None else _integer(op, "seq", seq))
    place = _variable(builder, "rng_place", UINT64, _integer(op, "off", off))
    spare = {
        bits: (
            _variable(builder, f"rng_has_normal{bits}", DType("int32"), const(0, "int32")),
            _variable(builder, f"rng_normal{bits}", dtype, const(0, dtype)),
        )
        for bits, dtype in ((32, FLOAT32), (64, FLOAT64))
    }
    kernel.generator = _Generator(kernel, key, stream, place, spare)


def rng_rand() -> Expr:
    """The next number of the executing thread's generator, uint32, all 32 bits random."""
    op = "T.rng_rand"
    builder = require_builder(op)
    return _draw(builder, _generator(op, builder))


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next random float.

    Args:
        bit: 32 or 64, the width of the float.
        dist: uniform, in (0, 1]; or normal, with mean 0 and variance 1 (Box and Muller's pairs, of which the second
            is kept for the next call).
    """
    op = "T.rng_rand_float"
    builder = require_builder(op)
    generator = _generator(op, builder)
    width = require_option(op, "bit", known(bit), (32, 64))
    if require_option(op, "dist", dist, ("uniform", "normal")) == "normal":
        return _normal(builder, generator, width)
    return builder.bind("uniform", _uniform(_draw(builder, generator), FLOAT32 if width == 32 else FLOAT64))


def _integer(op: str, label: str, value: Any) -> Expr:
    refuse_placeholder(value)
    number = known(value)
    if isinstance(number, int) and not isinstance(number, bool) and -(2**63) <= number < 2**64:
        return const(number % 2**64, UINT64)
    if is_expression(value) and as_expr(value).dtype.is_int:
        return cast(as_expr(value), UINT64)
    raise (
        operand_error(op, label, value)
        if is_expression(value)
        else CompileError(
            "E-OPERAND-OPTION",
            f"{op} does not take {label}={value!r}",
            facts=["allowed: integers of up to 64 bits"],
            help="pass an integer",
        )
    )


def _thread_number(builder: Builder) -> Expr:
    """The number of the executing thread among those of all blocks."""
    kernel = builder.kernel
    number: Expr = const(0, UINT64)
    for var, extent in reversed([*zip(kernel.thread_vars, kernel.threads), *zip(kernel.grid_vars, kernel.grid)]):
        number = binary("add", binary("mul", number, cast(as_expr(extent), UINT64)), cast(var, UINT64))
    return number


def _variable(builder: Builder, name: str, dtype: DType, value: Expr) -> Buffer:
    buffer = Buffer(name, (const(1, "int32"),), dtype, "var", span=builder.span)
    builder.allocate(buffer)
    builder.emit(BufferStore(buffer, cast(value, dtype), (const(0, "int32"),)))
    return buffer


def _generator(op: str, builder: Builder) -> _Generator:
    kernel = builder.require_kernel(op)
    found: _Generator | None = getattr(kernel, "generator", None)
    if found is None or builder.home[found.place].ended:
        raise CompileError(
            "E-RNG-INIT",
            f"{op} without a generator",
            help="write T.rng_init(seed) before it, outside of the loop or branch that it stands in",
        )
    return found


def _draw(builder: Builder, generator: _Generator) -> Expr:
    zero = const(0, "int32")
    place = BufferLoad(generator.place, (zero,))
    call = Call("philox", (generator.seed, generator.sequence, place), UINT32)
    drawn = builder.bind("random", call)
    builder.emit(BufferStore(generator.place, binary("add", place, const(1, UINT64)), (zero,)))
    return drawn


def _uniform(bits: Expr, dtype: DType) -> Expr:
    """As cuRAND has it: the middle of the interval for fp32, its upper end for fp64; rounded once."""
    scale = 2.0**-32
    offset = scale / 2 if dtype is FLOAT32 else scale
    return Call("fma", (cast(bits, dtype), const(scale, dtype), const(offset, dtype)), dtype)


def _normal(builder: Builder, generator: _Generator, width: int) -> Expr:
    dtype = FLOAT32 if width == 32 else FLOAT64
    has, spare = generator.spare[width]
    zero = const(0, "int32")
    result = _variable(builder, "normal", dtype, BufferLoad(spare, (zero,)))
    made = builder.frame.stmts
    first = len(made)
    radius, angle = _polar32(builder, generator) if width == 32 else _polar64(builder, generator)
    one = builder.bind("first", binary("mul", Call("sin", (angle,), dtype), radius))
    other = builder.bind("second", binary("mul", Call("cos", (angle,), dtype), radius))
    pair = made[first:]
    del made[first:]
    # The pair is drawn where nothing was kept.
    pair += [
        BufferStore(result, one, (zero,), span=builder.span),
        BufferStore(spare, other, (zero,), span=builder.span),
        BufferStore(has, const(1, "int32"), (zero,), span=builder.span),
    ]
    kept = BufferStore(has, const(0, "int32"), (zero,), span=builder.span)
    builder.emit(If(binary("eq", BufferLoad(has, (zero,)), 0), Seq(tuple(pair)), kept, span=builder.span))
    return builder.bind("normal", BufferLoad(result, (zero,)))


def _polar32(builder: Builder, generator: _Generator) -> tuple[Expr, Expr]:
    u = _uniform(_draw(builder, generator), FLOAT32)
    turn = 2.0**-32 * 2 * pi
    bits = cast(_draw(builder, generator), FLOAT32)
    angle = Call("fma", (bits, const(turn, FLOAT32), const(turn / 2, FLOAT32)), FLOAT32)
    logarithm = binary("mul", const(-2.0, FLOAT32), Call("log", (u,), FLOAT32))
    return builder.bind("radius", Call("sqrt", (logarithm,), FLOAT32)), builder.bind("angle", angle)


def _polar64(builder: Builder, generator: _Generator) -> tuple[Expr, Expr]:
    """Two numbers of 53 bits from four draws."""

    def wide() -> Expr:
        low, high = cast(_draw(builder, generator), UINT64), cast(_draw(builder, generator), UINT64)
        return cast(binary("bitxor", low, binary("shl", high, const(21, UINT64))), FLOAT64)

    scale = 2.0**-53
    u = Call("fma", (wide(), const(scale, FLOAT64), const(scale / 2, FLOAT64)), FLOAT64)
    half_turns = Call("fma", (wide(), const(scale * 2, FLOAT64), const(scale, FLOAT64)), FLOAT64)
    logarithm = binary("mul", const(-2.0, FLOAT64), Call("log", (u,), FLOAT64))
    angle = binary("mul", half_turns, const(pi, FLOAT64))
    return builder.bind("radius", Call("sqrt", (logarithm,), FLOAT64)), builder.bind("angle", angle)
