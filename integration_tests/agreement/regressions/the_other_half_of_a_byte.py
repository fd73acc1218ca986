# A thread that reads its four bits while another writes the byte's other four is no race, but was one in the emulator.
# (Found by tools.fuzz.)
# fuzz: {"seed": 1, "sizes": {}, "special": false}
@T.prim_func
def kernel(A: T.Tensor((16,), "int32"), Z: T.Tensor((16,), "int4")):
    with T.Kernel(1, threads=32):
        tile = T.alloc_shared((16,), "int4")
        T.fill(tile, T.cast(-3, "int4"))
        for i in T.Parallel(16):
            if i % 3 < 2:
                tile[i] = tile[i] + T.cast(A[i], "int4")
        T.copy(tile, Z)
