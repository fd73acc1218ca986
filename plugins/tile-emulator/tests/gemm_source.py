"""A pipelined fp16 gemm as one would write it for sm_80 by hand: cp.async in three stages, ldmatrix, mma.sync."""

from __future__ import annotations

__all__ = ["ARENA", "VIEWS", "gemm_source"]

STAGES, TILE, DEPTH = 3, 64, 32
STAGE_BYTES = TILE * DEPTH * 2
ARENA = 2 * STAGES * STAGE_BYTES
VIEWS = {"A_shared": (0, STAGES * STAGE_BYTES), "B_shared": (STAGES * STAGE_BYTES, STAGES * STAGE_BYTES)}


def gemm_source(pending: int = 1) -> str:
    """C[M, N] = A[M, K] · B[N, K]ᵀ in tiles of 64 × 64 × 32 by four warps; `pending` is the argument of the wait in the
    loop, 1 is right. Chunks of 16 bytes are swizzled over the rows."""
    return f"""
#define CHUNK(row, chunk) (((row) * 4 + ((chunk) ^ ((row) / 2 % 4))) * 8)
extern "C" __global__ void __launch_bounds__(128) gemm(const uint16_t* A, const uint16_t* B, float* C, int N, int K) {{
    TILE_SHARED(arena, {ARENA});
    uint16_t* As = (uint16_t*)(arena + 0);
    uint16_t* Bs = (uint16_t*)(arena + {STAGES * STAGE_BYTES});
    TILE_LOCAL(float, acc, 32);
    TILE_LOCAL(uint16_t, a, 16);
    TILE_LOCAL(uint16_t, b, 16);
    int t = threadIdx.x, lane = t % 32, warp = t / 32, bx = blockIdx.x, by = blockIdx.y;
    int wm = warp / 2 * 32, wn = warp % 2 * 32, steps = K / {DEPTH};
    for (int i = 0; i < 32; ++i) acc[i] = 0;
    for (int k = 0; k < steps + {STAGES - 1}; ++k) {{
        if (k >= {STAGES - 1}) {{
            int slot = (k - {STAGES - 1}) % {STAGES} * {TILE * DEPTH};
            tile::cp_async_wait<{pending}>(TILE_SYNC(0));
            tile::sync_threads(TILE_SYNC(1));
            for (int kk = 0; kk < 2; ++kk) {{
                for (int i = 0; i < 2; ++i)
                    tile::ldmatrix<4, false>(a + 8 * i, As + slot + CHUNK(wm + 16 * i + lane % 16, kk * 2 + lane / 16));  // @load_a
                for (int j = 0; j < 2; ++j)
                    tile::ldmatrix<4, false>(b + 8 * j, Bs + slot + CHUNK(wn + 16 * j + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2));  // @load_b
                for (int i = 0; i < 2; ++i)
                    for (int j = 0; j < 4; ++j) tile::mma_f16(acc + (i * 4 + j) * 4, a + 8 * i, b + 4 * j);
            }}
            tile::sync_threads(TILE_SYNC(2));
        }}
        if (k < steps) {{
            for (int i = 0; i < 2; ++i) {{
                int row = t / 4 + 32 * i, chunk = t % 4, slot = k % {STAGES} * {TILE * DEPTH};
                tile::cp_async<16>(As + slot + CHUNK(row, chunk), A + (by * {TILE} + row) * K + k * {DEPTH} + chunk * 8);  // @copy_a
                tile::cp_async<16>(Bs + slot + CHUNK(row, chunk), B + (bx * {TILE} + row) * K + k * {DEPTH} + chunk * 8);  // @copy_b
            }}
        }}
        tile::cp_async_commit();
    }}
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            for (int r = 0; r < 4; ++r)
                C[(by * {TILE} + wm + 16 * i + r / 2 * 8 + lane / 4) * N + bx * {TILE} + wn + 8 * j + lane % 4 * 2 + r % 2] = acc[(i * 4 + j) * 4 + r];
}}
"""
