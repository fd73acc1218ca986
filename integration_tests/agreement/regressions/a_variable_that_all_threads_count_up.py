# A variable of each thread, the same on all of them, was one for the block on the CPU although a loop over the threads
# counted it up: the first thread's loop ended those of the others. (Found by tools.fuzz.)
# fuzz: {"seed": 3, "sizes": {}, "special": false}
@T.prim_func
def kernel(A: T.Tensor((64,), "int32"), Z: T.Tensor((64, 3), "int32")):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        v = T.alloc_var("int32", init=0)
        w = T.alloc_var("int32", init=0)
        n = T.alloc_var("int32", init=0)
        v = T.shfl_xor(A[t], 1)
        while w < 3:
            w += 1
            v = v * 2 + t
        for e in T.serial(2):
            for k in T.serial(e + 1):
                n += 1
                Z[t, 2] = n + t
            v = T.shfl_xor(v, 2) + n
        if n == 3:
            Z[t, 0] = v
        Z[t, 1] = w
