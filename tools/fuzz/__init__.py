"""The differential fuzzer: random kernels, interpreted, on the CPU and as emulated CUDA; see docs/testing.md."""
