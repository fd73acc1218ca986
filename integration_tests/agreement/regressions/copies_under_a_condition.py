# Asynchronous copies inside a condition of a pipelined loop were read before they were waited for. (Found by the
# example of block-sparse attention.)
# fuzz: {"seed": 5, "sizes": {}, "special": false}
@T.prim_func
def kernel(A: T.Tensor((64, 32), "float16"), mask: T.Tensor((8,), "int32"), C: T.Tensor((16, 32), "float32")):
    with T.Kernel(1, threads=64) as bx:
        a = T.alloc_shared((16, 32), "float16")
        b = T.alloc_shared((16, 32), "float16")
        scores = T.alloc_fragment((16, 16), "float32")
        weights = T.alloc_fragment((16, 16), "float16")
        acc = T.alloc_fragment((16, 32), "float32")
        T.copy(A[0:16, :], a)
        T.clear(acc)
        for k in T.Pipelined(4, num_stages=1):
            if mask[k] != 0:
                T.copy(A[k * 16 : k * 16 + 16, :], b)
                T.clear(scores)
                T.gemm(a, b, scores, transpose_B=True)
                T.copy(scores, weights)
                T.gemm(weights, b, acc)
        T.copy(acc, C)
