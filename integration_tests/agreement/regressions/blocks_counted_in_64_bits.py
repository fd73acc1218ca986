# A block's index of 64 bits was an int in C++, which functions of two equal types do not take. (Found by tools.fuzz.)
# fuzz: {"seed": 1, "sizes": {"n": 93}, "special": false}
n = T.dynamic("n", "int64")


@T.prim_func
def kernel(X: T.Tensor((n,), "int32"), Z: T.Tensor((n,), "int32")):
    with T.Kernel(T.ceildiv(n, 31), threads=32) as bx:
        tile = T.alloc_shared((31,), "int32")
        T.copy(X[bx * 31 : bx * 31 + 31], tile)
        for i in T.Parallel(13):
            if bx % 3 == 1:
                tile[i] = X[bx * 31 + i + 5]
        T.copy(tile, Z[bx * 31 : bx * 31 + 31])
