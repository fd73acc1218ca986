"""Profiler on plain Python kernels: what it makes, compares and times."""

import pytest
import torch

from tile_core.dtypes import DType
from tile_core.errors import OptionError
from tile_core.ir import Buffer, Evaluate, IntImm, PrimFunc, SizeVar, Var
from tile_runtime.profile import Profiler, TensorSupplyType
from tile_runtime.profile.supply import supply_tensor
from tile_runtime.signature import Signature, normalize_out_idx


def const(value):
    return IntImm(value)


M = SizeVar("M")
FLOAT32 = DType("float32")


def function(*params, out_idx=()):
    return PrimFunc("scale", params, Evaluate(const(0)), (("out_idx", out_idx),))


def tensor(name, *shape, dtype="float32"):
    return Buffer(name, tuple(const(e) if isinstance(e, int) else e for e in shape), DType(dtype))


def signature(out_idx=(2,)):
    return Signature(function(tensor("A", M, 4), Var("s", FLOAT32), tensor("C", M, M * 2 + 1), out_idx=out_idx))


def double(A, s):
    return A * 2


def test_signature_tells_inputs_outputs_and_shapes():
    found = signature(out_idx=(-1,))
    assert [param.name for param in found.inputs] == ["A", "s"]
    assert [param.name for param in found.outputs] == ["C"] and found.out_idx == (2,)
    assert found.shape_of(found.params[2], {"M": 5}) == (5, 11)
    assert [symbol.name for symbol in found.symbols] == ["M"]


def test_a_missing_size_is_named():
    found = signature()
    with pytest.raises(OptionError, match="the dimension M of A: float32"):
        found.shape_of(found.params[0])


@pytest.mark.parametrize(
    ("out_idx", "problem"),
    [
        (3, "3 is no position in a list of 3 parameters"),
        (-4, "-4 is no position in a list of 3 parameters"),
        ([2, -1], "parameter 2 is named twice"),
        (1, "parameter 1 (s) is no tensor"),
        (True, "True is no position in a list of 3 parameters"),
    ],
)
def test_a_bad_out_idx_says_why(out_idx, problem):
    with pytest.raises(OptionError) as caught:
        normalize_out_idx(out_idx, function(tensor("A", M, 4), Var("s", FLOAT32), tensor("C", M, 4)))
    assert str(caught.value) == (
        f"error[E-OUT-IDX]: scale: out_idx={out_idx!r}: {problem}\n"
        "   parameters: 0: A, 1: s, 2: C\n"
        "  help: name tensors by their position, from 0 to 2 or from -1 to -3"
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn", "int8", "uint8", "int64", "bool", "uint16"])
@pytest.mark.parametrize("kind", TensorSupplyType)
def test_every_kind_fills_every_type(kind, dtype):
    made = supply_tensor((64,), dtype, kind)
    assert str(made.dtype) == f"torch.{dtype}" and made.shape == (64,)
    if kind is TensorSupplyType.Zero:
        assert not made.to(torch.float32).any()
    elif kind is TensorSupplyType.One:
        assert made.to(torch.float32).eq(1).all()
    else:
        assert made.to(torch.float32).unique().numel() > 1


def test_a_type_without_torch_tensors_is_refused():
    with pytest.raises(OptionError, match="torch has no tensors of type int4"):
        supply_tensor((1,), "int4")


def test_sizes_give_dimensions_and_scalars():
    made = Profiler(double, signature()).make_inputs({"M": 2, "s": 7})
    assert made[0].shape == (2, 4) and made[1] == 7
    assert Profiler(double, signature()).make_inputs({"M": 2})[1] == 1


def test_outputs_are_compared():
    profiler = Profiler(double, signature())
    sizes = {"M": 3}
    profiler.assert_allclose(double, dynamic_symbolic_constraints=sizes)
    with pytest.raises(AssertionError, match="C: 12 of 12 elements"):
        profiler.assert_allclose(lambda A, s: A * 2 + 1, dynamic_symbolic_constraints=sizes)
    profiler.assert_allclose(lambda A, s: A * 2 + 1, dynamic_symbolic_constraints=sizes, max_mismatched_ratio=1.0)
    profiler.assert_allclose(lambda A, s: A * 2 + 1, dynamic_symbolic_constraints=sizes, atol=1.5)


def test_in_place_kernels_are_compared_by_what_they_write():
    def ours(A, s, C):
        C.copy_(A * s)

    def theirs(A, s, C):
        C.copy_(A * s if s == 1 else A)

    A, C = torch.randn(4, 4), torch.zeros(4, 4).t()
    profiler = Profiler(ours, signature(out_idx=()))
    profiler.assert_allclose(theirs, [A, 1, C])
    assert not C.any(), "the caller's tensors stay as they are"
    with pytest.raises(AssertionError, match="C: "):
        profiler.assert_allclose(theirs, [A, 2, C])


def test_a_reference_with_another_number_of_results_is_refused():
    with pytest.raises(AssertionError, match=r"the kernel gives 1 tensors \(C\), the reference 2"):
        Profiler(double, signature()).assert_allclose(lambda A, s: (A, A), dynamic_symbolic_constraints={"M": 2})


def test_an_inconsistent_kernel_is_found():
    runs = []

    def flaky(A, s):
        runs.append(1)
        return A + (len(runs) == 3)

    with pytest.raises(AssertionError, match="C of run 2 differs from run 0"):
        Profiler(flaky, signature()).assert_consistent(5, {"M": 2})
    Profiler(double, signature()).assert_consistent(3, {"M": 2})


def test_nan_is_consistent_with_itself():
    Profiler(lambda A, s: A * float("nan"), signature()).assert_consistent(2, {"M": 2})


def test_manual_check_and_timing():
    profiler = Profiler(double, signature())
    seen = []
    inputs = [torch.ones(2, 4), 1]
    profiler.manual_assert_close(double, inputs, lambda actual, expected: seen.append((actual, expected)))
    assert torch.equal(seen[0][0][0], seen[0][1][0])
    assert profiler.do_bench(input_tensors=inputs, n_warmup=1, n_repeat=3) > 0
    assert torch.equal(profiler.run_once(sizes={"M": 2}).new_zeros(2, 4), torch.zeros(2, 4))
