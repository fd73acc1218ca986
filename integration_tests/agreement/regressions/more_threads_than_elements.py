# Threads without an element of a fragment read their register, which nothing had written. (Found by the fuzzer.)
# fuzz: {"seed": 1034, "sizes": {"n0": 2, "n1": 16}, "special": false}
n0 = T.dynamic("n0")
n1 = T.dynamic("n1")


@T.prim_func
def kernel(Y: T.Tensor((n0, n1), "int32"), Z: T.Tensor((n0, n1), "int32")):
    with T.Kernel(T.ceildiv(n1, 8), T.ceildiv(n0, 3), threads=96) as (bx, by):
        t = T.alloc_fragment((3, 8), "int32")
        T.copy(Y[by * 3 : by * 3 + 3, bx * 8 : bx * 8 + 8], t)
        for k in range(2):
            for i, j in T.Parallel(3, 8):
                t[i, j] = Y[by * 3 + i, bx * 8 + j] + ((i + j) % 3 - t[i, j])
        T.copy(t, Z[by * 3 : by * 3 + 3, bx * 8 : bx * 8 + 8])
