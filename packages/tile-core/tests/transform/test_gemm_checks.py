"""The checks on the plain gemm: nothing found, no solver, little time."""

from __future__ import annotations

import tile_core.language as T
from tile_core.ir import IRModule
from tile_core.target import Target
from tile_core.transform import (
    InjectAssumes,
    LegalizeNegativeIndex,
    PassContext,
    Simplify,
    VerifyBufferInit,
    VerifyFragmentIndex,
    VerifyLoopNesting,
    VerifyParallelLoop,
    VerifyRegions,
)

CHECKS = (
    LegalizeNegativeIndex,
    InjectAssumes,
    Simplify,
    VerifyLoopNesting,
    VerifyFragmentIndex,
    VerifyRegions,
    VerifyBufferInit,
    VerifyParallelLoop,
)
M, N, K = T.dynamic("M"), T.dynamic("N"), T.dynamic("K")


@T.prim_func
def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=128) as (bx, by):
        A_shared = T.alloc_shared((128, 32), "float16")
        B_shared = T.alloc_shared((32, 128), "float16")
        C_local = T.alloc_fragment((128, 128), "float32")
        T.clear(C_local)
        for ko in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
            T.copy(A[by * 128, ko * 32], A_shared)
            T.copy(B[ko * 32, bx * 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(128, 128):
            C_local[i, j] = T.max(C_local[i, j], 0.0)
        T.copy(C_local, C[by * 128, bx * 128])


def test_the_plain_gemm_is_checked_without_the_solver():
    context = PassContext(Target("cpu"))
    module = IRModule((gemm,))
    for pass_ in CHECKS:
        module = pass_().apply(module, context)
    assert not context.diagnostics
    assert context.solver_queries == 0
