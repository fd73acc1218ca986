"""The eager style: sizes solved from tensors, outputs, constants, what each call specialises on."""

import textwrap

import pytest

from tile_core.errors import ArgumentError, CompileError
from tile_core.frontend import EagerFunction, LazyFunction, TensorSpec, jit_function

MATMUL = """
def matmul(A, B, block: int = 32, dtype="float32"):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], dtype]
    B: T.Tensor[[K, N], dtype]
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block), T.ceildiv(N, block)) as (bx, by):
        if M % block == 0:
            for i, j in T.Parallel(block, block):
                C[bx * block + i, by * block + j] = A[bx * block + i, 0] * B[0, by * block + j]
    return C
"""


def specialise(function, *args, constants=None, **kwargs):
    return function.specialise(function.bind(args, kwargs), constants)


def test_sizes_come_from_the_tensors(trace):
    function = jit_function(trace(MATMUL))
    assert isinstance(function, EagerFunction)
    assert [p.kind for p in function.parameters] == ["open", "open", "constant", "open"]
    result = specialise(function, TensorSpec((64, 16), "float32"), TensorSpec((16, 96), "float32"))
    text = result.prim_func.script()
    assert "with T.Kernel(2, 3)" in text
    assert "C: T.Buffer((64, 96), T.float32)" in text
    assert (result.prim_func.attr("out_idx"), result.arguments, result.returns) == ((2,), (0, 1), "one")
    assert result.static == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_constants_can_be_told_beforehand(trace):
    function = jit_function(trace(MATMUL))
    result = function.specialise([None, None, 32, "float32"], {"M": 32, "N": 64, "K": 8})
    assert "A: T.Buffer((32, 8), T.float32)" in result.prim_func.script()


def by_sizes(function, *args, **kwargs):
    return function.specialise(*function.bind_sizes(args, kwargs))


def test_sizes_stand_for_tensors(trace):
    function = jit_function(trace(MATMUL))
    found = by_sizes(function, M=64, N=32, K=8, block=16)
    told = specialise(function, TensorSpec((64, 8), "float32"), TensorSpec((8, 32), "float32"), block=16)
    assert found.prim_func.script() == told.prim_func.script()
    # a tensor that is there tells its sizes, the keywords the others
    mixed = by_sizes(function, TensorSpec((64, 8), "float32"), N=32, block=16)
    assert mixed.prim_func.script() == told.prim_func.script()


@pytest.mark.parametrize(
    ("kwargs", "code", "said"),
    [
        ({"M": 64, "N": 32, "K": 8, "Q": 4}, "E-EAGER-ARGUMENT", "Q is neither a parameter nor a name of T.const"),
        ({"M": 64, "N": "32", "K": 8}, "E-EAGER-ARGUMENT", "'32' is no size"),
        ({"M": 64, "N": -1, "K": 8}, "E-EAGER-ARGUMENT", "-1 is no size"),
        ({"M": 64, "N": True, "K": 8}, "E-EAGER-ARGUMENT", "True is no size"),
        ({"M": 64, "N": 32}, "E-CONST-UNSOLVED", "the value of K is not known"),
        ({"block": 16}, "E-EAGER-ARGUMENT", "missing a required argument: 'A'"),
    ],
)
def test_sizes_that_do_not_describe_the_tensors(trace, kwargs, code, said):
    with pytest.raises((ArgumentError, CompileError), match=said) as caught:
        by_sizes(jit_function(trace(MATMUL)), **kwargs)
    assert caught.value.code == code


def test_surplus_arguments_beside_sizes(trace):
    spec = TensorSpec((64, 8), "float32")
    with pytest.raises(ArgumentError, match="too many positional"):
        by_sizes(jit_function(trace(MATMUL)), spec, spec, 16, "float32", 3, M=64)


def test_a_size_that_a_tensor_contradicts(trace):
    with pytest.raises(ArgumentError) as caught:
        by_sizes(jit_function(trace(MATMUL)), TensorSpec((64, 8), "float32"), M=32, N=32)
    assert caught.value.code == "E-EAGER-SHAPE"


def test_sizes_that_disagree_are_an_argument_error(trace):
    function = jit_function(trace(MATMUL))
    with pytest.raises(ArgumentError) as caught:
        specialise(function, TensorSpec((64, 16), "float32"), TensorSpec((17, 96), "float32"))
    assert caught.value.code == "E-EAGER-SHAPE"
    assert "must have extent 16 in dimension 0, got 17" in caught.value.summary


def test_another_dtype_or_rank_is_an_argument_error(trace):
    function = jit_function(trace(MATMUL))
    for bad, code in (
        (TensorSpec((64, 16), "float16"), "E-EAGER-DTYPE"),
        (TensorSpec((64,), "float32"), "E-EAGER-SHAPE"),
    ):
        with pytest.raises(ArgumentError) as caught:
            specialise(function, bad, TensorSpec((16, 96), "float32"))
        assert caught.value.code == code


def test_linear_extents_are_solved(trace):
    function = jit_function(
        trace("""
def f(A):
    M = T.const('M')
    A: T.Tensor[[M * 2 + 1], 'float32']
    with T.Kernel(M) as bx:
        A[bx] = 0.0
""")
    )
    assert "T.Kernel(4)" in specialise(function, TensorSpec((9,), "float32")).prim_func.script()
    with pytest.raises(ArgumentError) as caught:
        specialise(function, TensorSpec((8,), "float32"))
    assert caught.value.code == "E-EAGER-SHAPE"


def test_dynamic_sizes_stay_symbolic_and_are_not_specialised_on(trace):
    function = jit_function(
        trace("""
def f(A, B):
    N = T.const('N')
    m = T.dynamic('m')
    A: T.Tensor[[m, N], 'float32']
    B: T.Tensor[[m, N], 'float32']
    with T.Kernel(m) as bx:
        B[bx, 0] = A[bx, N - 1]
""")
    )
    result = specialise(function, TensorSpec((7, 5), "float32"), TensorSpec((7, 5), "float32"))
    assert result.static == ((0, 1), (1, 1))
    assert result.returns == "none"
    assert "A[bx, 4]" in result.prim_func.script() and "T.Kernel(m)" in result.prim_func.script()


def test_annotations_in_the_signature_declare_tensors_and_scalars(trace):
    function = jit_function(
        trace("""
def f(A: T.Tensor[[16], 'float32'], scale: T.float32, flag: bool):
    B = T.empty(16, dtype='float32')
    with T.Kernel(16) as bx:
        B[bx] = A[bx] * scale if flag else A[bx]
    return B
""")
    )
    assert [p.kind for p in function.parameters] == ["tensor", "scalar", "constant"]
    result = specialise(function, TensorSpec((16,), "float32"), 2.0, True)
    assert "A[bx] * scale" in result.prim_func.script()
    assert result.arguments == (0, 1)


def test_shape_and_dtype_of_an_undeclared_tensor_are_known(trace):
    function = jit_function(
        trace("""
def f(A, B):
    M, N = A.shape
    A: T.Tensor[[M, N], A.dtype]
    B: T.Tensor[[T.dynamic("m"), N], A.dtype]
    with T.Kernel(M) as bx:
        A[bx, 0] = B[bx, N - 1]
""")
    )
    result = specialise(function, TensorSpec((4, 8), "float16"), TensorSpec((5, 8), "float16"))
    assert result.static == ((0, 0), (0, 1), (1, 1))
    assert "B[bx, 7]" in result.prim_func.script()


def test_several_outputs_come_in_the_order_of_return(trace):
    function = jit_function(
        trace("""
def f(A):
    n = T.const('n')
    A: T.Tensor[[n], 'float32']
    p = T.empty((n,), 'int32')
    q = T.empty((n,), T.float16)
    with T.Kernel(n) as bx:
        p[bx] = 1
        q[bx] = A[bx]
    return q, p
""")
    )
    result = specialise(function, TensorSpec((3,), "float32"))
    assert (result.prim_func.attr("out_idx"), result.returns) == ((2, 1), "many")


WRONG = {
    "an output that is not returned": (
        "E-EAGER-EMPTY",
        """
        A: T.Tensor[[4], 'float32']
        C = T.empty((4,), 'float32')
        with T.Kernel(4) as bx:
            C[bx] = A[bx]
        """,
    ),
    "a returned input": (
        "E-EAGER-RETURN",
        """
        A: T.Tensor[[4], 'float32']
        with T.Kernel(4) as bx:
            A[bx] = 0.0
        return A
        """,
    ),
    "a tensor that is used without declaration": (
        "E-EAGER-DECLARE",
        """
        with T.Kernel(4) as bx:
            A[bx] = 0.0
        """,
    ),
    "a tensor that is never declared": (
        "E-EAGER-DECLARE",
        """
        C = T.empty((4,), 'float32')
        with T.Kernel(4) as bx:
            C[bx] = 0.0
        return C
        """,
    ),
    "a tensor declared twice": (
        "E-EAGER-DECLARE",
        """
        A: T.Tensor[[4], 'float32']
        A: T.Tensor[[4], 'float32']
        with T.Kernel(4) as bx:
            A[bx] = 0.0
        """,
    ),
    "a size that no tensor tells": (
        "E-CONST-UNSOLVED",
        """
        M, N = T.const('M, N')
        A: T.Tensor[[M], 'float32']
        with T.Kernel(M) as bx:
            A[bx] = 0.0
        """,
    ),
    "a size without a name": (
        "E-CONST",
        """
        M = T.const('M + 1')
        A: T.Tensor[[M], 'float32']
        with T.Kernel(1) as bx:
            A[0] = 0.0
        """,
    ),
    "an output made in the kernel": (
        "E-EAGER-EMPTY",
        """
        A: T.Tensor[[4], 'float32']
        with T.Kernel(1) as bx:
            C = T.empty((4,), 'float32')
        """,
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_in_the_eager_style_has_a_code_and_a_line(trace, what):
    code, text = WRONG[what]
    function = jit_function(trace("def f(A):\n" + textwrap.indent(textwrap.dedent(text), "    ")))
    with pytest.raises(CompileError) as caught:
        specialise(function, TensorSpec((4,), "float32"))
    assert caught.value.code == code
    assert caught.value.span is not None


def test_arguments_that_do_not_bind_are_an_argument_error(trace):
    function = jit_function(trace(MATMUL))
    with pytest.raises(ArgumentError) as caught:
        function.bind((), {"nothing": 1})
    assert caught.value.code == "E-EAGER-ARGUMENT"


def test_a_factory_is_lazy(trace):
    factory = jit_function(
        trace("""
def make(n):
    @T.prim_func
    def main(A: T.Tensor((n,), 'float32')):
        with T.Kernel(n) as bx:
            A[bx] = 0.0
    return main
""")
    )
    assert isinstance(factory, LazyFunction)
    assert factory.trace(5).params[0].static_shape() == (5,)


def test_a_factory_that_returns_nothing_is_refused(trace, message):
    factory = jit_function(trace("def make(n):\n    return n\n"))
    assert "E-JIT-RESULT" in message(factory.trace, 5)


def test_torch_empty_does_not_make_a_function_eager(trace):
    assert isinstance(jit_function(trace("def make(n):\n    x = torch.empty(n)\n    return x\n")), LazyFunction)


def test_const_outside_the_eager_style_is_refused(body, message):
    assert "E-CONST" in message(body, "M = T.const('M')")
