"""What a printer says of element types that its language lacks."""

from __future__ import annotations

import pytest

import tile_core.language as T
from tile_core.codegen import CPrinter
from tile_core.errors import CompileError


@T.prim_func
def halves(A: T.Tensor((8,), "float16"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        B[0] = T.cast(A[0], "float32")


def test_a_type_that_the_backend_lacks_is_named():
    with pytest.raises(CompileError, match="A is float16, which the toy backend does not compute with") as caught:
        CPrinter().check_types(halves, "toy")
    assert caught.value.code == "E-CODEGEN-DTYPE" and caught.value.span is not None
    assert "float32" in caught.value.facts[0] and "uint8" in caught.value.help
