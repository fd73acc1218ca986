# An element of four bits in a tile on the stack was stored to by a statement of C++ that declares an array. (Found by
# tools.fuzz.)
# fuzz: {"seed": 60072, "sizes": {"s": 1}, "special": false}
s = T.dynamic("s")


@T.prim_func
def kernel(Y: T.StridedTensor((2, 14), (22, s), "uint32"), Z: T.Tensor((2, 14), "int4")):
    with T.Kernel(2, threads=40) as bx:
        tile = T.alloc_shared((2, 8), "int4")
        for i, j in T.Parallel(2, 8):
            tile[i, j] = T.cast(Y[i, bx * 8 + j + 2], "int4")
        T.copy(tile, Z[0:2, bx * 8 : bx * 8 + 8])
