"""The language through every path: interpreter, CPU, emulated CUDA, machine code, and a GPU where there is one."""
