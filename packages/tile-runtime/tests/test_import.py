"""Importing the runtime is light."""

import subprocess
import sys


def test_importing_the_runtime_imports_neither_torch_nor_tvm_ffi():
    program = (
        "import sys, tile_runtime, tile_runtime.plugin, tile_runtime.backends.tvm_ffi; "
        "print([m for m in ('torch', 'tvm_ffi', 'z3', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
