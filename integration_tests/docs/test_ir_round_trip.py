"""What every pass leaves prints and reads back equal, for the kernels of docs/examples."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from tile_core import api
from tile_core.cli.kernels import add_arguments, kernels_of
from tile_core.ir import IRModule, first_mismatch, parse, structural_key

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
KERNELS = {
    "gemm": "M=1000 N=1111 K=777",
    "gemm_sparse": "M=100 N=90 K=144",
    "softmax": "M=128 N=1000",
    "rmsnorm": "X=float32[128,1000] W=float32[1000]",
    "elementwise": "A=float32[100000] B=float32[100000]",
    "flash_attention": "batch=2 heads=4 kv_heads=2 query_len=100 key_len=333 dim=64 causal=True",
}


class ReadBack:
    """An instrument that prints, reads and compares what each pass leaves."""

    def __init__(self) -> None:
        self.passes: list[str] = []

    def after_pass(self, pass_: Any, module: IRModule, seconds: float) -> None:
        text = module.script()
        again = parse(text)
        assert first_mismatch(again, module) is None, f"after {pass_.name}"
        assert again.script() == text, f"after {pass_.name}"
        assert structural_key(again) == structural_key(module)
        self.passes.append(pass_.name)


@pytest.mark.parametrize("example", KERNELS)
def test_every_step_of_an_example_reads_back(example):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    values = [word for value in KERNELS[example].split() for word in ("--arg", value)]
    for _, function in kernels_of(parser.parse_args([str(EXAMPLES / f"{example}.py"), *values])):
        check = ReadBack()
        api.lower(function, "cpu", instruments=(check,))
        assert check.passes[-1] == "MakePackedAPI" and len(check.passes) > 15
