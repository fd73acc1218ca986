# The next tile after the last one was computed by a division by the width of a panel that does not exist. (Found by
# tools.fuzz.)
# fuzz: {"seed": 1, "sizes": {"m": 5, "n": 3}, "special": false}
m, n = T.dynamic("m, n")


@T.prim_func
def kernel(A: T.Tensor((m, n), "int32"), Z: T.Tensor((m, n), "int32")):
    with T.Kernel(2, threads=32) as bx:
        tiles = T.PersistentTileScheduler(m, n, swizzle_size=2)
        tiles.init(bx)
        while tiles.valid():
            Z[tiles.m_idx, tiles.n_idx] = A[tiles.m_idx, tiles.n_idx] + bx
            tiles.next_tile()
