"""The page about the language: its kernels are traced."""

import re

import tile_core as tile
import tile_core.language as T
from tile_core.frontend import from_source, jit_function
from tile_core.ir import PrimFunc


def test_the_kernels_of_the_page_trace(request, monkeypatch):
    text = (request.config.rootpath / "docs" / "language.md").read_text(encoding="utf-8")
    monkeypatch.setattr(tile, "jit", jit_function, raising=False)
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert len(blocks) == 6
    for block in blocks:
        name = "kernel" if "\nkernel = " in block else None
        made = from_source(block, {"T": T, "tile": tile}, name=name)
        if not isinstance(made, PrimFunc):
            assert made.is_eager
            from tile_core.frontend import TensorSpec

            spec = TensorSpec((1000,), "float32")
            made = made.specialise(made.bind((spec, spec), {})).prim_func
        assert "with T.Kernel" in made.script()
