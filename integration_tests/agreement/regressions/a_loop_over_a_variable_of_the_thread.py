# A variable of the thread that is the same for all threads was taken to differ, so that no barrier could stand in a
# loop over it. (Found by the example of Stream-K.)
# fuzz: {"seed": 7, "sizes": {}, "special": false}
@T.prim_func
def kernel(A: T.Tensor((64, 48), "float16"), B: T.Tensor((48, 16), "float16"), C: T.Tensor((64, 16), "float32")):
    with T.Kernel(2, threads=64) as bx:
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((16, 16), "float16")
        acc = T.alloc_fragment((32, 16), "float32")
        begin = T.alloc_var("int32", init=bx * 3)
        while begin < bx * 3 + 3:
            count = T.min(3 - begin % 3, 2)
            T.clear(acc)
            for step in T.Pipelined(count, num_stages=2):
                T.copy(A[bx * 32, (begin % 3 + step) * 16], a)
                T.copy(B[(begin % 3 + step) * 16, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[bx * 32, 0])
            begin += count
