"""The page for kernels written for TileLang: its import lines work, and the modules give what they say."""

import importlib
import re
from pathlib import Path

import pytest
import torch

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CompileError, OptionError

PAGE = (Path(__file__).parents[2] / "docs" / "from-tilelang.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("line", [row[1] for row in rows("Import lines")])
def test_the_import_lines(line):
    exec(line.strip("`"), {})


def test_the_names_of_the_import_lines_are_all_there_is():
    """Every module by TileLang's name stands on the page."""
    for module in ("profiler", "autotuner", "math", "layout", "testing", "transform", "utils.tensor", "carver.arch"):
        assert f"tile_core.{module}" in PAGE
        importlib.import_module(f"tile_core.{module}")


def test_modules_give_what_the_package_gives():
    from tile_core.autotuner import AutoTuner, autotune
    from tile_core.profiler import Profiler, do_bench

    assert (autotune, AutoTuner) == (tile.autotune, tile.AutoTuner)
    assert (do_bench, Profiler) == (tile.do_bench, tile.Profiler)
    assert tile.math.next_power_of_2(17) == tile.next_power_of_2(17) == 32
    assert tile.DataType("float16").bits == 16 and tile.JITKernel is tile.CompiledKernel
    assert tile.utils.tensor.TensorSupplyType is tile.TensorSupplyType
    with pytest.raises(AttributeError, match=r"'tile_core\.profiler' has no attribute 'do_bank'"):
        tile.profiler.do_bank


def test_every_name_of_an_option_is_its_key():
    from tile_core.transform.peer_options import PEER_KEYS

    assert [key.value for key in tile.PassConfigKey] == list(PEER_KEYS)
    assert tile.PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS == "tl.disable_safe_memory_legalize"
    assert tile.PassConfigKey.TIR_DISABLE_VECTORIZE == "tirx.disable_vectorize"
    for name in re.findall(r"PassConfigKey\.([A-Z_0-9]+)", PAGE):
        assert hasattr(tile.PassConfigKey, name)


@T.prim_func
def doubled(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            B[i] = A[i] * 2.0


def test_options_are_named_or_written():
    named = tile.lower(doubled, "cpu", pass_configs={tile.PassConfigKey.TL_DISABLE_OUT_OF_BOUND_WARNING: True})
    written = tile.lower(doubled, "cpu", pass_configs={"tl.disable_out_of_bound_warning": True})
    assert named.sources == written.sources
    kernel = tile.compile(
        doubled, out_idx=-1, target="cpu", pass_configs={tile.PassConfigKey.TL_ENABLE_FAST_MATH: True}
    )
    assert torch.equal(kernel(torch.ones(32)), torch.full((32,), 2.0))
    assert kernel.get_profiler().func is kernel
    with pytest.raises(OptionError):
        tile.lower(doubled, "cpu", pass_configs={tile.PassConfigKey.TL_CONFIG_INDEX_BITWIDTH: 7})


def test_a_swizzle_that_a_kernel_asks_for():
    from tile_core.layout import make_half_bank_swizzled_layout, make_swizzled_layout

    seen = []

    @T.prim_func
    def turned(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=64):
            tile_ = T.alloc_shared((32, 64), "float16")
            T.annotate_layout({tile_: make_swizzled_layout(tile_)})
            seen.extend([make_swizzled_layout(tile_), make_half_bank_swizzled_layout(tile_)])
            T.copy(A, tile_)
            for i, j in T.Parallel(64, 32):
                B[i, j] = tile_[j, i]

    a = torch.randn(32, 64).half()
    assert torch.equal(tile.compile(turned, out_idx=-1, target="cpu")(a), a.T)
    assert "kernel.cu" in tile.lower(turned, "cuda -arch=sm_80").sources
    wide, half = seen
    # chunks of eight halves, permuted by the row; over 64 bytes by half the row
    assert wide.at(3, 8) == (3, (1 ^ 3) * 8) and half.at(3, 8) == (3, (1 ^ 1) * 8)


def test_a_swizzle_of_nothing_or_of_a_tile_that_it_does_not_fit():
    from tile_core.layout import make_full_bank_swizzled_layout, make_swizzled_layout

    with pytest.raises(CompileError) as caught:
        make_swizzled_layout("A_shared")
    assert caught.value.code == "E-LAYOUT-SWIZZLE"

    with pytest.raises(CompileError, match="128 bytes does not fit"):

        @T.prim_func
        def narrow(A: T.Tensor((8, 24), "float16")):
            with T.Kernel(1, threads=32):
                tile_ = T.alloc_shared((8, 24), "float16")
                T.annotate_layout({tile_: make_full_bank_swizzled_layout(tile_)})


def test_tensors_are_compared_with_a_share_that_may_differ():
    from tile_core.utils.tensor import torch_assert_close

    expected = torch.zeros(2000)
    nearly = expected.clone()
    nearly[5] = 1.0
    torch_assert_close(nearly, expected)
    torch_assert_close(nearly.half(), expected, check_dtype=False)
    nearly[6] = nearly[7] = 1.0
    with pytest.raises(AssertionError, match="mine against other: 3 of 2000"):
        torch_assert_close(nearly, expected, base_name="mine", ref_name="other")
    with pytest.raises(AssertionError, match=r"float16 differs"):
        torch_assert_close(expected.half(), expected)
    with pytest.raises(AssertionError, match="is on meta"):
        torch_assert_close(expected.to("meta"), expected)


def test_arguments_are_made_for_parameters():
    from tile_core.utils.tensor import get_tensor_supply

    kernel = tile.compile(doubled, out_idx=-1, target="cpu")
    supply = get_tensor_supply(tile.TensorSupplyType.One)
    (made,) = [supply(param) for param in kernel.signature.inputs]
    assert made.shape == (32,) and kernel(made.cpu()).sum() == 64


def test_an_element_type_is_its_name():
    assert getattr(torch, T.float16) is torch.float16 and isinstance(T.bfloat16, str)
    assert {"float16": 1}[T.float16] == 1 and f"{T.float32x4}" == "float32x4"
    assert T.float16 != T.float32 and T.float16 != "float32" and T.float16 == "half"


def test_persistent_kernels_know_the_processors():
    from tile_core.carver.arch import driver

    assert driver.get_num_sms() >= 1
