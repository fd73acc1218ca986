"""JitFunction on a stand-in frontend: when it traces, which kernel it takes, what the quick way is."""

import inspect
from types import SimpleNamespace

import pytest
import torch

from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, OptionError
from tile_core.frontend import EagerFunction, LazyFunction, Specialisation
from tile_core.ir import Buffer, Evaluate, IntImm, IRModule, PrimFunc, SizeVar
from tile_core.plugin.api import Artifact
from tile_core.target import Target
from tile_runtime import jit
from tile_runtime.arguments import argument_error
from tile_runtime.kernel import Kernel
from tile_runtime.options import CompileOptions


class Eager(EagerFunction):
    """Parameters in capitals are tensors; a first extent is symbolic where the function is called dynamic."""

    def __init__(self, function):
        self.function, self.traces = function, 0
        self.signature = inspect.signature(function)
        names = self.signature.parameters
        self.parameters = [SimpleNamespace(name=n, kind="tensor" if n.isupper() else "constant") for n in names]

    def bind(self, args, kwargs):
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return list(bound.arguments.values())

    def specialise(self, values, rules=None):
        self.traces += 1
        first = 1 if self.function.__name__ == "dynamic" else 0
        params, positions, static, constants = [], [], [], []
        for position, (parameter, value) in enumerate(zip(self.parameters, values)):
            if parameter.kind == "constant":
                constants.append((parameter.name, value))
                continue
            shape = [IntImm(extent) for extent in value.shape]
            shape[:first] = [SizeVar("M")] * first
            static += [(position, dim) for dim in range(first, len(shape))]
            params.append(Buffer(parameter.name, tuple(shape), DType(value.dtype)))
            positions.append(position)
        body = Evaluate(IntImm(self.function.__globals__.get("BLOCK", 0)))
        prim_func = PrimFunc(self.function.__name__, tuple(params), body, (("values", tuple(constants)),))
        return Specialisation(prim_func, tuple(positions), tuple(static), "none")


class Lazy(LazyFunction):
    def __init__(self, function):
        self.function = function

    def trace(self, *args, **kwargs):
        return PrimFunc(self.function.__name__, (), Evaluate(IntImm(0)))


@pytest.fixture
def compiled(monkeypatch):
    """The kernels made; each checks extents and types like a real one, and returns (itself, inputs)."""
    made = []

    def compile_kernel(function, options):
        artifact = Artifact(Target("cpu"), function.name, function, IRModule((function,)), {})
        kernel = Kernel(artifact, lambda: None, "fake", str(len(made)), "compiled")

        def entry(*inputs):
            kernel.calls += 1
            for param, value in zip(kernel.signature.inputs, inputs, strict=True):
                fixed = [value.shape[dim] if isinstance(e, int) else e for dim, e in enumerate(param.shape)]
                if f"torch.{param.dtype}" != str(value.dtype) or any(a is not b for a, b in zip(fixed, param.shape)):
                    raise argument_error(kernel.signature, param.name, "ndim", "other", "this")
            return kernel, inputs

        kernel.entry, kernel.calls = entry, 0
        made.append(kernel)
        return kernel

    monkeypatch.setattr(jit, "compile_kernel", compile_kernel)
    return made


def make(function, monkeypatch, style=Eager, **options):
    monkeypatch.setattr(jit, "jit_function", style)
    return jit.JitFunction(function, CompileOptions.read(options))


def plain(A, B, block=64):
    """The docstring."""


def dynamic(A):
    return None


def test_it_looks_like_the_function(compiled, monkeypatch):
    made = make(plain, monkeypatch)
    assert made.__name__ == "plain" and made.__doc__ == "The docstring." and made.mode == "eager"


def test_one_kernel_serves_equal_calls(compiled, monkeypatch):
    f, A = make(plain, monkeypatch), torch.zeros(2, 3)
    results = [f(A, A) for _ in range(5)]
    assert len(compiled) == 1 and f._style.function.traces == 1
    assert all(kernel is compiled[0] and inputs == (A, A) for kernel, inputs in results)


@pytest.mark.parametrize(
    "other",
    [
        lambda A: (A[:1], A),
        lambda A: (A.double(), A),
        lambda A: (A, A, 128),
        lambda A: (A, A, 64.0),
        lambda A: (A, A, True),
        lambda A: (A, A, [64]),
    ],
)
def test_another_shape_type_or_value_gives_another_kernel(compiled, monkeypatch, other):
    f, A = make(plain, monkeypatch), torch.zeros(2, 3)
    for _ in range(4):
        first, _ = f(A, A)
        second, _ = f(*other(A))
        assert first is compiled[0] and second is compiled[1]
    for _ in range(3):
        assert f(*other(A))[0] is compiled[1]
    assert f(A, A)[0] is compiled[0]
    assert len(compiled) == 2


def test_values_go_by_name_too(compiled, monkeypatch):
    f, A = make(plain, monkeypatch), torch.zeros(2, 3)
    assert f(A, A, 64)[0] is f(A, A)[0] is f(A, B=A, block=64)[0]
    assert len(compiled) == 1


def test_symbolic_sizes_are_traced_once(compiled, monkeypatch):
    f = make(dynamic, monkeypatch)
    for size in (1, 2, 3, 4, 2, 9):
        kernel, (A,) = f(torch.zeros(size, 3))
        assert kernel is compiled[0] and A.shape == (size, 3)
    f(torch.zeros(2, 5))
    assert f._style.function.traces == 2 and len(compiled) == 2


def test_the_quick_way_builds_no_keys(compiled, monkeypatch):
    f, A = make(plain, monkeypatch), torch.zeros(2, 3)
    f(A, A), f(A, A)
    monkeypatch.setattr(f, "_style", None)
    assert f(A, A)[0] is compiled[0]


def test_arguments_that_fit_no_kernel_raise(compiled, monkeypatch):
    f, A = make(dynamic, monkeypatch), torch.zeros(2, 3)

    def refuse(*inputs):
        raise argument_error(compiled[0].signature, "A", "strides[0]", "3", "1")

    f(A), f(A)
    compiled[0].entry = refuse
    f._fast.entry = refuse
    with pytest.raises(ArgumentError, match="strides"):
        f(A)
    assert len(compiled) == 1


BLOCK = 1


def reads_global(A):
    return BLOCK


def test_a_changed_global_is_traced_anew(compiled, monkeypatch):
    f, A = make(reads_global, monkeypatch), torch.zeros(2, 3)
    monkeypatch.setitem(globals(), "BLOCK", 1)
    f(A), f(A), f(A)
    assert len(compiled) == 1
    monkeypatch.setitem(globals(), "BLOCK", 2)
    kernel, _ = f(A)
    assert len(compiled) == 2 and kernel is compiled[1] and kernel.prim_func.body.value.value == 2


def test_lazy_calls_return_kernels(compiled, monkeypatch):
    f = make(plain, monkeypatch, Lazy)
    assert f(1, 2) is f(1, 2) is compiled[0]
    assert f(1, 3) is compiled[1] and f(1, 2.0) is compiled[2] and f(1, True) is not compiled[0]
    assert f.mode == "lazy"


def test_compile_and_trace_run_nothing(compiled, monkeypatch):
    f, A = make(plain, monkeypatch), torch.zeros(2, 3)
    assert isinstance(f.trace(A, A), PrimFunc) and compiled == []
    assert f.compile(A, A) is compiled[0] and compiled[0].calls == 0


def test_a_method_gets_its_object(compiled, monkeypatch):
    def method(self, A):
        return None

    owner = type("Owner", (), {"method": make(method, monkeypatch)})()
    kernel, inputs = owner.method(torch.zeros(2))
    assert len(inputs) == 1 and kernel.prim_func.attr("values")[0] == ("self", owner)


def test_out_idx_is_for_the_lazy_style(compiled, monkeypatch):
    with pytest.raises(OptionError) as caught:
        make(plain, monkeypatch, out_idx=-1)
    assert str(caught.value) == (
        "error[E-JIT-OUT-IDX]: plain: out_idx has no meaning here, the function returns its outputs itself\n"
        "  help: make the outputs with T.empty(shape, dtype) and return them"
    )


def test_a_traced_function_is_refused(compiled, monkeypatch):
    with pytest.raises(OptionError, match="traced already"):
        make(PrimFunc("f", (), Evaluate(IntImm(0))), monkeypatch)


def test_eight_threads_get_right_results(compiled, monkeypatch):
    import threading

    f, wrong = make(plain, monkeypatch), []

    def work(size):
        A = torch.zeros(size, 3)
        for _ in range(100):
            kernel, inputs = f(A, A)
            if inputs[0] is not A or kernel.params[0].shape != (size, 3):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(1 + number % 4,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_what_is_no_function_is_refused(compiled, monkeypatch):
    with pytest.raises(OptionError, match="no Python function"):
        make(3, monkeypatch)


def test_strides_are_told_only_where_they_matter():
    spec = jit._spec
    assert spec(torch.zeros(2, 3)).strides is None
    assert spec(torch.zeros(2, 3).t()).strides == (1, 3)
    assert spec(torch.zeros(4, 1).t()).strides is None
    assert spec(torch.zeros(2, 3).numpy()).strides is None
    assert spec(torch.zeros(2, 3).numpy().T).strides == (1, 3)
    assert spec(torch.zeros(2, dtype=torch.bfloat16)).dtype == "bfloat16"
