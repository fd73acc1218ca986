"""PrefetchNextTiles: which regions a gemm asks for ahead."""

import pytest

from tile_core.ir import Call, TileOpStmt, walk
from tile_core.tileop import Gemm

TEXT = """
    @T.prim_func
    def main(A: T.Buffer((64, 256), T.float32), B: T.Buffer((32, 256), T.float32), C: T.Buffer((64, 32), T.float32)):
        with T.Kernel(2) as by:
            A_shared = T.alloc_buffer((32, 16), T.float32, scope="shared")
            B_shared = T.alloc_buffer((32, 16), T.float32, scope="shared")
            C_local = T.alloc_buffer((32, 32), T.float32, scope="fragment")
            T.fill(C_local, value=T.float32(0.0))
            for ko in T.Pipelined(16{options}):
                T.copy(A[by * 32:by * 32 + 32, ko * 16:ko * 16 + 16], A_shared)
                T.copy(B[0:32, ko * 16:ko * 16 + 16], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_b=True)
                A_shared[0, 0] = 0.0
            T.copy(C_local, C[by * 32:by * 32 + 32, 0:32])
"""


def prefetches(result):
    ops = [n.op for n in walk(result.after["PrefetchNextTiles"].body) if isinstance(n, TileOpStmt)]
    [gemm] = [op for op in ops if isinstance(op, Gemm)]
    return [repr(region) for region in dict(gemm.annotations).get("prefetch", ())]


def test_the_next_steps_regions_are_asked_for(lowered):
    result = lowered(TEXT.format(options=", num_stages=2"))
    assert prefetches(result) == [
        "A[by * 32:by * 32 + 32, (ko + 1) * 16:(ko + 1) * 16 + 16]",
        "B[0:32, (ko + 1) * 16:(ko + 1) * 16 + 16]",
    ]
    [call] = [n for n in walk(result.after["VectorizeLoop"].body) if isinstance(n, Call) and n.op == "cpu.gemm"]
    assert dict(call.annotations)["prefetch"] == ((32, 16), (32, 16))
    result.check(atol=1e-4)


@pytest.mark.parametrize("options", ["", ", num_stages=0"])
def test_a_loop_that_asks_for_no_overlap_prefetches_nothing(lowered, options):
    assert prefetches(lowered(TEXT.format(options=options))) == []
