# A loop over a tile took the layout of a fragment of two of its axes, whose last round of threads is not full, and had
# no way back from threads and registers to elements. (Found by tools.fuzz.)
# fuzz: {"seed": 1, "sizes": {}, "special": false}
@T.prim_func
def kernel(A: T.Tensor((8, 17, 16), "int32"), B: T.Tensor((8, 16), "int32"), Z: T.Tensor((8, 17, 16), "int32")):
    with T.Kernel(1, threads=100):
        a = T.alloc_shared((8, 17, 16), "int32")
        row = T.alloc_fragment((8, 16), "int32")
        T.copy(A, a)
        T.copy(B, row)
        for i, j, k in T.Parallel(8, 17, 16):
            if j % 3 < 1:
                a[i, j, k] = row[i, k]
        T.copy(a, Z)
