"""Operators: what torch sees of a kernel, and that eager calls do not go through it."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

import tile_core as tile
import tile_core.language as T
from tile_core.errors import ArgumentError, OptionError
from tile_runtime.torch import TorchOp
from tile_runtime.torch.shapes import written_inputs

CPU = {"target": "cpu"}


def product_backward(A, B, grad_C):
    return grad_C * B, grad_C * A


@tile.op(backward=product_backward)
@tile.jit(**CPU)
def product(A, B, block: int = 64):
    N = T.dynamic("N")
    A: T.Tensor[[N], T.float32]
    B: T.Tensor[[N], T.float32]
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block)) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] * B[bx * block + i]
    return C


@tile.jit(**CPU)
def add_into(A, Total):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    Total: T.Tensor[[N], T.float32]
    with T.Kernel(T.ceildiv(N, 32)) as bx:
        for i in T.Parallel(32):
            Total[bx * 32 + i] = Total[bx * 32 + i] + A[bx * 32 + i]


@tile.jit(out_idx=[1, 2], **CPU)
def both(N):
    @T.prim_func
    def sum_and_double(A: T.Tensor((N,), "float32"), D: T.Tensor((N,), "float32"), S: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for i in T.serial(N):
                total[0] = total[0] + A[i]
                D[i] = A[i] * 2.0
            S[0] = total[0]

    return sum_and_double


def vectors(n=100, grad=False):
    torch.manual_seed(0)
    return torch.randn(n, requires_grad=grad), torch.randn(n, requires_grad=grad)


def test_an_eager_call_registers_nothing():
    mine = tile.op(product.wrapped)
    a, b = vectors()
    torch.testing.assert_close(mine(a, b), a * b)
    torch.testing.assert_close(mine(a, B=b, block=32), a * b)
    with torch.no_grad():
        torch.testing.assert_close(mine(torch.nn.Parameter(a), b), a * b)
    assert not mine._forms


@pytest.mark.slow
def test_opcheck_is_clean():
    a, b = vectors(grad=True)
    form = product.form(a, b)
    assert form.schema == "(Tensor A, Tensor B, SymInt block) -> Tensor"
    torch.library.opcheck(form.overload, (a, b, 64))


def test_gradients_come_from_backward():
    a, b = vectors(grad=True)
    (ours,) = torch.autograd.grad(product(a, b).sin().sum(), a)
    (theirs,) = torch.autograd.grad((a * b).sin().sum(), a)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_compiles_without_a_break_and_without_a_graph_for_each_size():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    @torch.compile(fullgraph=True, backend=counter)
    def model(a, b):
        return product(a.sin(), b, 32).cos()

    for n in (100, 50, 60, 70):
        a, b = vectors(n, grad=True)
        torch.testing.assert_close(model(a, b), (a.sin() * b).cos())
        ours = torch.autograd.grad(model(a, b).sum(), (a, b))
        torch.testing.assert_close(ours, torch.autograd.grad((a.sin() * b).cos().sum(), (a, b)))
    assert counter.frame_count == 2, "one graph for the first size, one for all others"


@pytest.mark.slow
def test_compiles_with_inductor():
    torch._dynamo.reset()
    a, b = vectors()
    torch.testing.assert_close(torch.compile(lambda a, b: product(a + 1, b) + 1, fullgraph=True)(a, b), (a + 1) * b + 1)


def test_functorch_transforms_go_through():
    a, b = vectors()
    expected = torch.func.grad(lambda x: (x * b).sin().sum())(a)
    torch.testing.assert_close(torch.func.grad(lambda x: product(x, b).sin().sum())(a), expected)
    rows = torch.randn(3, 100)
    torch.testing.assert_close(torch.vmap(product, in_dims=(0, None))(rows, b), rows * b)
    torch.testing.assert_close(torch.vmap(product, in_dims=1, out_dims=1)(rows, rows), rows * rows)
    per_row = torch.vmap(torch.func.grad(lambda x: product(x, b).sum()))(rows)
    torch.testing.assert_close(per_row, b.expand(3, 100))


def product_jvp(A, B, tangent_A, tangent_B):
    return tangent_A * B + tangent_B * A


def test_tangents_come_from_jvp():
    mine = tile.op(product.wrapped, backward=product_backward, jvp=product_jvp)
    a, b = vectors()
    da, db = torch.randn(100), torch.randn(100)
    expected = torch.func.jvp(lambda x, y: (x * y).sin(), (a, b), (da, db))
    torch.testing.assert_close(torch.func.jvp(lambda x, y: mine(x, y).sin(), (a, b), (da, db)), expected)
    mine(a, b), mine(a, b)  # a call that nobody watches goes straight into the kernel; the next may not
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, da)
        out = torch.autograd.forward_ad.unpack_dual(mine(dual, b))
    torch.testing.assert_close((out.primal, out.tangent), (a * b, da * b))
    x = torch.randn(4)
    torch.testing.assert_close(torch.func.jacfwd(lambda x: mine(x, x))(x), torch.diag(2 * x))


def test_kernels_can_be_jvps_and_have_several_outputs():
    @tile.jit(out_idx=[1, 2], **CPU)
    def tangents(N):
        @T.prim_func
        def both_tangents(
            tangent_A: T.Tensor((N,), "float32"), D: T.Tensor((N,), "float32"), S: T.Tensor((1,), "float32")
        ):
            with T.Kernel(1):
                total = T.alloc_fragment((1,), "float32")
                T.clear(total)
                for i in T.serial(N):
                    total[0] = total[0] + tangent_A[i]
                    D[i] = tangent_A[i] * 2.0
                S[0] = total[0]

        return both_tangents

    a, da = torch.randn(8), torch.randn(8)
    for jvp in (tangents, lambda tangent_A: {"S": tangent_A.sum()[None], "D": tangent_A * 2}):
        one = tile.op(both, jvp=jvp)(8)
        _, (doubled, total) = torch.func.jvp(one, (a,), (da,))
        torch.testing.assert_close((doubled, total), (da * 2, da.sum()[None]), rtol=1e-5, atol=1e-5)
    one = tile.op(both, jvp=lambda tangent_A: (None, tangent_A.sum()[None]))(8)
    assert not torch.func.jvp(one, (a,), (da,))[1][0].any()


@pytest.mark.parametrize(
    ("jvp", "code", "text"),
    [
        (None, "E-TORCH-NO-JVP", "product has no jvp"),
        (lambda A: (A, A), "E-TORCH-TANGENTS", "jvp gives 2 tangents"),
        (lambda A: A[:3], "E-TORCH-TANGENTS", "float32[3] for C, which is float32[100]"),
        (lambda A: {"A": A}, "E-TORCH-TANGENTS", "a tangent of A, no floating-point output"),
        (lambda A, grad_C: A, "E-TORCH-JVP", "jvp asks for grad_C"),
        (3, "E-TORCH-JVP", "3 cannot be called"),
    ],
)
def test_a_wrong_jvp_is_named(jvp, code, text):
    mine = tile.op(product.wrapped, jvp=jvp)
    a, b = vectors()
    with pytest.raises(OptionError) as caught:
        torch.func.jvp(lambda x: mine(x, b), (a,), (b,))
    assert caught.value.code == code and text in str(caught.value)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(OptionError) as caught:
        mine(torch.autograd.forward_ad.make_dual(a, b), b)
    assert caught.value.code == code


def test_a_kernel_that_writes_a_tensor_with_a_tangent_is_refused():
    into = tile.op(add_into)
    a, total = vectors(64)
    with torch.autograd.forward_ad.dual_level():
        into(a, total)
        with pytest.raises(OptionError, match="writes Total, so torch cannot give its forward-mode derivative"):
            into(torch.autograd.forward_ad.make_dual(a, a), total)


def test_vmap_goes_by_its_rule():
    calls = []

    def rows(info, in_dims, A, B, block):
        calls.append((info.batch_size, in_dims, block))
        flat = [
            (x.movedim(dim, 0) if dim is not None else x.expand(info.batch_size, *x.shape)).reshape(-1)
            for x, dim in zip((A, B), in_dims)
        ]
        return product(*flat).reshape(info.batch_size, -1), 0

    mine = tile.op(product.wrapped, backward=product_backward, vmap=rows)
    b, batch = torch.randn(100), torch.randn(3, 100)
    torch.testing.assert_close(torch.vmap(mine, in_dims=(0, None))(batch, b), batch * b)
    assert calls == [(3, (0, None, None), 64)]
    torch.testing.assert_close(torch.vmap(mine, in_dims=1, out_dims=1)(batch, batch), batch * batch)
    per_row = torch.vmap(torch.func.grad(lambda x: mine(x, b).sum()))(batch)
    torch.testing.assert_close(per_row, b.expand(3, 100))
    assert len(calls) == 3
    mine.form(b, b)
    torch.library.opcheck(mine.form(b, b).overload, (b, b, 64))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (lambda info, in_dims, *args: args[0], "its vmap rule gives tensor("),
        (lambda info, in_dims, *args: ((args[0], args[0]), (0, 0)), "its vmap rule gives ((tensor("),
        (lambda info, in_dims, *args: (None, 0), "its vmap rule gives (None, 0)"),
    ],
)
def test_a_wrong_vmap_rule_is_named(rule, text):
    rows = torch.randn(3, 8)
    with pytest.raises(OptionError) as caught:
        torch.vmap(tile.op(product.wrapped, vmap=rule))(rows, rows)
    assert caught.value.code == "E-TORCH-VMAP" and text in str(caught.value)
    with pytest.raises(OptionError, match="vmap=3 cannot be called"):
        tile.op(product.wrapped, vmap=3)


def test_fake_and_meta_tensors_give_shapes():
    with FakeTensorMode():
        made = product(torch.empty(7), torch.empty(7))
    assert made.shape == (7,) and made.dtype == torch.float32 and made.device.type == "cpu"
    assert product(torch.empty(9, device="meta"), torch.empty(9, device="meta")).device.type == "meta"
    with FakeTensorMode(), pytest.raises(ArgumentError, match=r"shape\[0\] of B must be 7, got 8"):
        product(torch.empty(7), torch.empty(8))


def test_a_dispatch_mode_sees_the_operator():
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    a, b = vectors()
    with Watch():
        product(a, b)
    assert product.form(a, b).name.replace("::", ".") + ".default" in seen


def test_a_kernel_that_writes_an_input_says_so_in_its_schema():
    into = tile.op(add_into)
    a, total = vectors(64)
    form = into.form(a, total)
    assert form.schema == "(Tensor A, Tensor(a1!) Total) -> ()" and form.written == ("Total",)
    torch.library.opcheck(form.overload, (a, total))
    before, version = total.clone(), total._version
    assert into(a, total) is None
    torch.testing.assert_close(total, before + a)
    assert total._version == version + 1, "autograd must notice"
    form.overload(a, total)
    assert total._version == version + 2
    a.requires_grad_()
    with pytest.raises(OptionError) as caught:
        into(a, total)
    assert caught.value.code == "E-TORCH-NO-BACKWARD" and "writes Total" in str(caught.value)


def test_a_factory_gives_operators():
    make = tile.op(both)
    one = make(8)
    assert isinstance(one, TorchOp) and make(8) is one and make(4) is not one
    a = torch.randn(8)
    doubled, total = one(a)
    torch.testing.assert_close((doubled, total), (a * 2, a.sum()[None]), rtol=1e-5, atol=1e-5)
    assert one.form(a).schema == "(Tensor A) -> (Tensor, Tensor)"
    with FakeTensorMode():
        assert [tuple(made.shape) for made in one(torch.empty(8))] == [(8,), (1,)]
    with FakeTensorMode(), pytest.raises(ArgumentError, match="A must be of type float32, got float16"):
        one(torch.empty(8, dtype=torch.float16))


def test_kernels_and_operators_can_be_backwards():
    @tile.jit(out_idx=[2], **CPU)
    def factory(N):
        @T.prim_func
        def gradient(A: T.Tensor((N,), "float32"), grad_C: T.Tensor((N,), "float32"), G: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(N):
                    G[i] = grad_C[i] * A[i] * 2.0

        return gradient

    @tile.jit(out_idx=[1], **CPU)
    def square(N):
        @T.prim_func
        def squared(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(N):
                    C[i] = A[i] * A[i]

        return squared

    a = torch.randn(16, requires_grad=True)
    for made in (tile.op(square(16), backward=factory(16)), tile.op(square, backward=factory)(16)):
        (grad,) = torch.autograd.grad(made(a).sum(), a)
        torch.testing.assert_close(grad, 2 * a.detach())


def test_an_operator_as_backward_can_be_differentiated_twice():
    double = tile.op(product.wrapped, backward=None)
    inner = tile.op(product.wrapped, backward=product_backward)

    def backward(A, B, grad_C):
        return inner(grad_C, B), inner(grad_C, A)

    a, b = vectors(10, grad=True)
    assert double(a.detach(), b.detach()).shape == (10,)
    outer = tile.op(product.wrapped, backward=backward)
    (first,) = torch.autograd.grad(outer(a, b).sum(), a)
    torch.testing.assert_close(first, b.detach())


def test_names_are_the_users():
    mine = tile.op(product.wrapped, name="acme::scaled")
    a, b = vectors()
    assert mine.form(a, b).name == "acme::scaled" and torch.ops.acme.scaled.default(a, b, 64).shape == (100,)
    again = tile.op(product.wrapped, name="acme::scaled")
    assert again.form(a, b).name == "acme::scaled_1", "a redefinition in a notebook gets a name of its own"
    with pytest.raises(OptionError, match="namespace::name"):
        tile.op(product.wrapped, name="scaled").form(a, b)


@pytest.mark.parametrize(
    ("backward", "code", "text"),
    [
        (None, "E-TORCH-NO-BACKWARD", "product has no backward, and a gradient is wanted of A, B"),
        (lambda A, grad_C: grad_C * A, "E-TORCH-GRADIENTS", "backward gives 1 gradients"),
        (lambda A, B, grad_C: (B, A, A), "E-TORCH-GRADIENTS", "backward gives 3 gradients"),
        (lambda A, grad_C: (A, A[:3]), "E-TORCH-GRADIENTS", "float32[3] for B, which is float32[100]"),
        (lambda A, grad_C: {"X": A}, "E-TORCH-GRADIENTS", "a gradient of X, no floating-point input"),
        (lambda A, grad_Z: A, "E-TORCH-BACKWARD", "backward asks for grad_Z"),
        (lambda *args: args, "E-TORCH-BACKWARD", "its parameters are matched by name"),
        (3, "E-TORCH-BACKWARD", "3 cannot be called"),
    ],
)
def test_a_wrong_backward_is_named(backward, code, text):
    mine = tile.op(product.wrapped, backward=backward)
    a, b = vectors(grad=True)
    with pytest.raises(OptionError) as caught:
        mine(a, b).sum().backward()
    assert caught.value.code == code and text in str(caught.value)


def test_none_and_a_dict_mean_zero_for_the_rest():
    a, b = vectors(grad=True)
    for backward in (lambda A, B, grad_C: (grad_C * B, None), lambda A, B, grad_C: {"A": grad_C * B}):
        grads = torch.autograd.grad(tile.op(product.wrapped, backward=backward)(a, b).sum(), (a, b))
        torch.testing.assert_close(grads, (b.detach(), torch.zeros_like(b)))


def test_what_cannot_be_an_operator_is_refused():
    def plain(a):
        return a

    for wrong, text in ((plain, "launches no kernel itself"), (3, "neither a kernel nor a jit function")):
        with pytest.raises(OptionError, match=text):
            tile.op(wrong)

    @T.prim_func
    def pointer(A: T.Tensor((4,), "float32"), p: T.ptr("float32")):
        with T.Kernel(1):
            A[0] = 1.0

    with pytest.raises(OptionError, match="p is a raw pointer"):
        tile.op(tile.compile(pointer, **CPU))


def test_what_a_kernel_returns_may_not_depend_on_its_values():
    @tile.op
    @tile.jit(**CPU)
    def either(A, write: int):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        C = T.empty((N,), T.float32)
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = A[i]
                if write > 0:
                    A[i] = 0.0
        return C

    with FakeTensorMode():
        either(torch.empty(4), 0)
        with pytest.raises(OptionError, match="what it returns or writes depends on its arguments"):
            either(torch.empty(4), 1)


def test_effects_tell_what_is_written():
    function = add_into.trace(torch.empty(8), torch.empty(8))
    assert written_inputs(function, ()) == ("Total",)
    assert written_inputs(both(8).prim_func, (1, 2)) == ()


@pytest.mark.gpu
def test_an_operator_runs_on_the_current_stream_and_device_and_in_graphs():
    @tile.op(backward=product_backward)
    @tile.jit(target="cuda")
    def on_device(A, B, block: int = 256):
        N = T.dynamic("N")
        A: T.Tensor[[N], T.float32]
        B: T.Tensor[[N], T.float32]
        C = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] * B[bx * block + i]
        return C

    for device in range(torch.cuda.device_count()):
        a, b = (torch.randn(1 << 20, device=f"cuda:{device}") for _ in range(2))
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)
            late = a + 1
            made = on_device(late, b)
        side.synchronize()
        torch.testing.assert_close(made, (a + 1) * b)
        assert made.device == a.device

        a.requires_grad_()
        (grad,) = torch.autograd.grad(on_device(a, b).sum(), a)
        torch.testing.assert_close(grad, b)
        a = a.detach()

        with torch.cuda.device(device):
            graph = torch.cuda.CUDAGraph()
            # Without a stream torch takes the one that it made for the first device that was captured on.
            with torch.cuda.graph(graph, stream=side):
                captured = on_device(a, b)
            a.copy_(b)
            graph.replay()
            torch.cuda.synchronize()
        torch.testing.assert_close(captured, b * b)
