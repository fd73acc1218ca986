"""Functions in C++ that a kernel brings along and calls."""

import torch

import tile_core as tile
import tile_core.language as T

SOURCE = """
static inline float twice(float x) { return x + x; }
static inline void reverse(float* x, int n) {
  for (int i = 0; i < n / 2; ++i) {
    float kept = x[i];
    x[i] = x[n - 1 - i];
    x[n - 1 - i] = kept;
  }
}
static inline float total(const float* x, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i];
  return sum;
}
"""


def test_a_kernel_calls_its_own_functions():
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16, 32), "float32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(16, threads=1) as bx:
            T.import_source(SOURCE)
            s = T.alloc_shared((32,), "float32")
            T.copy(A[bx, 0], s)
            for j in T.Parallel(32):
                s[j] = T.call_extern("float32", "twice", s[j])
            T.call_extern("void", "reverse", T.access_ptr(s, "rw"), 32)
            C[bx] = T.call_extern("float32", "total", T.access_ptr(A[bx, 0], "r", 32), 32)
            T.copy(s, B[bx, 0])

    a, b, c = torch.randn(16, 32), torch.zeros(16, 32), torch.zeros(16)
    kernel = tile.compile(main, target="cpu")
    kernel(a, b, c)
    assert torch.equal(b, (2 * a).flip(1))
    torch.testing.assert_close(c, a.sum(1))
    assert kernel.get_kernel_source().count("float twice(float x)") == 1
