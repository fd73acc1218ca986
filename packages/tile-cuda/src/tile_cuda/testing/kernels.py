"""Kernels in form FLAT, written by hand as the passes would leave them."""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import DType
from tile_core.ir import (
    AccessPtr,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Expr,
    For,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Stmt,
    Var,
    as_shape,
    cast,
    const,
    seq,
)
from tile_cuda.device import intrinsics as device

__all__ = ["add_one", "fill", "gemm"]

F16, F32, U8 = DType("float16"), DType("float32"), DType("uint8")


def integer(value: int) -> Expr:
    return const(value, "int32")


def tensor(name: str, elements: Any, dtype: DType, scope: str = "global", **more: Any) -> Buffer:
    return Buffer(name, as_shape((elements,)), dtype, scope, **more)


def fill(value: float = 3.0) -> PrimFunc:
    """One output of 32 floats, one thread each."""
    out, tx = tensor("out", 32, F32), Var("tx")
    body = BufferStore(out, const(value, F32), (tx,))
    return PrimFunc("fill", (out,), KernelLaunch((Var("bx"),), (integer(1),), (tx,), (integer(32),), body))


def add_one(shared_bytes: int = 0, elements: int = 1024) -> PrimFunc:
    """B = A + 1 in vectors of four; with `shared_bytes`, through a shared buffer of that size."""
    a, b = tensor("A", elements, F32), tensor("B", elements, F32)
    bx, tx = Var("bx"), Var("tx")
    place = Ramp(bx * 128 + tx * 4, integer(1), 4)
    value = BufferLoad(a, (place,)) + const(1.0, F32.with_lanes(4))
    body: Stmt = BufferStore(b, value, (place,))
    if shared_bytes:
        staged = tensor("staged", shared_bytes // 4, F32, "shared")
        mine = Ramp(tx * 4, integer(1), 4)
        body = Block(
            (staged,),
            seq(
                BufferStore(staged, value, (mine,)),
                device.sync_threads(),
                BufferStore(b, BufferLoad(staged, (mine,)), (place,)),
            ),
        )
    launch = KernelLaunch((bx,), (integer(elements // 128),), (tx,), (integer(32),), body)
    return PrimFunc("add_one", (a, b), launch)


def gemm(m: int, n: int, k: int) -> PrimFunc:
    """D = A B in fp16 with fp32 sums: 128 x 128 x 32 a block of four warps, two stages of cp.async, ldmatrix, mma."""
    a, b, d = tensor("A", m * k, F16), tensor("B", k * n, F16), tensor("D", m * n, F16)
    arena = tensor("arena", 2 * 2 * 128 * 32 * 2, U8, "shared")
    a_shared = tensor("A_shared", 2 * 128 * 32, F16, "shared", data=arena, offset=integer(0))
    b_shared = tensor("B_shared", 2 * 32 * 128, F16, "shared", data=arena, offset=integer(2 * 128 * 32 * 2))
    acc = tensor("acc", 128, F32, "local")
    a_regs, b_regs = tensor("a_regs", 32, F16, "local"), tensor("b_regs", 32, F16, "local")
    bx, by, tx, step = (Var(name) for name in ("bx", "by", "tx", "k"))
    lane, warp = tx % 32, tx // 32
    warp_m, warp_n = warp % 2, warp // 2

    def loop(extent: int, body: Any, kind: str = "unroll", name: str = "i") -> Stmt:
        var = Var(name)
        return For(var, integer(0), integer(extent), kind, body(var))

    def copy(stage: Expr, at: Expr) -> Stmt:
        def row_of_a(i: Expr) -> Stmt:
            row, column = i * 32 + tx // 4, tx % 4 * 8
            to = AccessPtr(a_shared, (stage * 4096 + row * 32 + column,), integer(8), "w")
            return device.cp_async(to, AccessPtr(a, ((by * 128 + row) * k + at * 32 + column,), integer(8), "r"), 16)

        def row_of_b(i: Expr) -> Stmt:
            row, column = i * 8 + tx // 16, tx % 16 * 8
            to = AccessPtr(b_shared, (stage * 4096 + row * 128 + column,), integer(8), "w")
            return device.cp_async(to, AccessPtr(b, ((at * 32 + row) * n + bx * 128 + column,), integer(8), "r"), 16)

        return seq(loop(4, row_of_a), loop(4, row_of_b), device.cp_async_commit())

    def multiply(stage: Expr) -> Stmt:
        def atom(kk: Expr) -> Stmt:
            def load_a(i: Expr) -> Stmt:
                row = stage * 4096 + (warp_m * 64 + i * 16 + lane % 16) * 32 + kk * 16 + lane // 16 * 8
                to = AccessPtr(a_regs, (i * 8,), integer(8), "w")
                return device.ldmatrix(to, AccessPtr(a_shared, (row,), integer(8), "r"), 4, False)

            def load_b(j: Expr) -> Stmt:
                row = stage * 4096 + (kk * 16 + lane % 16) * 128 + warp_n * 64 + j * 16 + lane // 16 * 8
                to = AccessPtr(b_regs, (j * 8,), integer(8), "w")
                return device.ldmatrix(to, AccessPtr(b_shared, (row,), integer(8), "r"), 4, True)

            def product(i: Expr, j: Expr) -> Stmt:
                registers = (
                    AccessPtr(acc, ((i * 8 + j) * 4,), integer(4), "rw"),
                    AccessPtr(a_regs, (i * 8,), integer(8), "r"),
                    AccessPtr(b_regs, (j * 4,), integer(4), "r"),
                )
                return device.mma(*registers, (16, 8, 16), "float16", "float16", "float32")

            products = loop(4, lambda i: loop(8, lambda j: product(i, j), name="j"))
            return seq(loop(4, load_a), loop(4, load_b, name="j"), products)

        return loop(2, atom, "serial", "kk")

    def store(i: Expr, j: Expr, half: Expr) -> Stmt:
        row = by * 128 + warp_m * 64 + i * 16 + half * 8 + lane // 4
        column = bx * 128 + warp_n * 64 + j * 8 + lane % 4 * 2
        pair = BufferLoad(acc, (Ramp((i * 8 + j) * 4 + half * 2, integer(1), 2),))
        return BufferStore(d, cast(pair, F16.with_lanes(2)), (Ramp(row * n + column, integer(1), 2),))

    steps = k // 32
    body = seq(
        loop(128, lambda i: BufferStore(acc, const(0.0, F32), (i,))),
        copy(integer(0), integer(0)),
        For(
            step,
            integer(0),
            integer(steps - 1),
            "serial",
            seq(
                copy((step + 1) % 2, step + 1),
                device.cp_async_wait(1),
                device.sync_threads(),
                multiply(step % 2),
                device.sync_threads(),
            ),
        ),
        device.cp_async_wait(0),
        device.sync_threads(),
        multiply(integer((steps - 1) % 2)),
        loop(4, lambda i: loop(8, lambda j: loop(2, lambda h: store(i, j, h), name="h"), name="j")),
    )
    grid, threads = (integer(n // 128), integer(m // 128)), (integer(128),)
    launch = KernelLaunch((bx, by), grid, (tx,), threads, Block((arena, acc, a_regs, b_regs), body))
    return PrimFunc("gemm", (a, b, d), launch)
