"""check_pass: what a pass makes of a text, and that both mean the same. run_each_pass: that a whole pipeline does."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..dtypes import DType
from ..interpreter import interpret, numpy_type
from ..ir import Buffer, IRModule, PrimFunc, Var, as_shape, check_form, form_index
from ..ir.parser import parse, parse_stmt
from ..ir.printer import stmt_text
from ..ir.structural import first_mismatch
from ..plugin import registry
from ..target import parse_target
from ..transform.base import Pass, PassContext
from ..transform.options import Options
from .carriers import pack_nibbles
from .compare import assert_close
from .supply import random_array

__all__ = ["Mismatch", "apply_pass", "check_pass", "random_arguments", "read_function", "run_each_pass"]

_DEFAULT_EXTENT = 64


class Mismatch(AssertionError):
    """A pass made something else than expected; `text` is what it made, in the style of the expected text."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def check_pass(
    pass_: type[Pass] | Pass,
    before: str,
    after: str,
    *,
    params: str = "",
    target: Any = "cpu",
    options: dict[str, Any] | None = None,
    inputs: Sequence[Any] | None = None,
    form: str | None = None,
    seed: int = 0,
) -> None:
    """Asserts that the pass turns `before` into `after` and that both compute the same.

    A text is a whole ``@T.prim_func``, or statements. Names that statements use without declaring them become
    parameters: an indexed one a global float32 buffer of 64 elements an axis, any other an int32 scalar; `params`
    declares them otherwise, in the syntax of a parameter list.

    Args:
        pass_: a pass class or instance.
        before, after: texts of the IR.
        params: declarations such as ``"A: T.Buffer((8, 8), T.float16), n: T.int32"``.
        target, options: what the pass's context holds.
        inputs: an argument for each parameter, in the order of `params` and then of first use; random ones by default.
        form: the form of `before`, by default the one that the pass needs.
        seed: of the random arguments.

    Raises:
        Mismatch: with the path of the first difference and the text that came out.
        AssertionError: the texts compute different results.
    """
    instance = pass_() if isinstance(pass_, type) else pass_
    whole = _is_function(before)
    source = read_function(before, params)
    made = apply_pass(instance, source, target=target, options=options, form=form)
    expected = read_function(after, params, like=None if _is_function(after) else source)
    path = first_mismatch(made, expected)
    if path is not None:
        text = made.script() if whole else stmt_text(made.body)
        raise Mismatch(f"{instance.name}: {path}\n--- it made\n{text}\n--- expected\n{after}", text)
    if form_index(_form_after(instance, form)) <= form_index("FLAT"):
        _assert_same_results(source, made, inputs, seed)


def apply_pass(
    pass_: type[Pass] | Pass,
    function: PrimFunc,
    *,
    target: Any = "cpu",
    options: dict[str, Any] | None = None,
    form: str | None = None,
) -> PrimFunc:
    """The function after one pass, with the forms checked before and after."""
    instance = pass_() if isinstance(pass_, type) else pass_
    module = IRModule((function,))
    check_form(module, form or instance.needs.partition("..")[0])
    context = PassContext(parse_target(target), Options(options))
    result = instance.apply(module, context)
    check_form(result, _form_after(instance, form))
    return result[function.name]


def run_each_pass(
    function: PrimFunc,
    inputs: Sequence[Any],
    target: Any = "cpu",
    *,
    options: dict[str, Any] | None = None,
    guarded_by: str = "LegalizeSafeMemoryAccess",
    unfinished: tuple[str, ...] = ("LowerTileOp",),
    dtype: Any = None,
    reduction: int = 1,
    scale: float = 1.0,
    check_written: bool = False,
) -> list[str]:
    """Interprets a function before a pipeline and after each pass up to form FLAT; all must give the same results.

    Args:
        function: in form TILE.
        inputs: an argument for each parameter; they are copied.
        target: whose backend's pipeline is run, such as ``"cpu -mcpu=x86-64-v3"``. Intrinsics of the backend must have
            a meaning in the interpreter (`register_effect`).
        options: pass options.
        guarded_by: the pass after which accesses outside global buffers are faults.
        unfinished: passes after which the function means something only once the next one has run: LowerTileOp gives
            intrinsics physical tiles, ApplyLayouts the rest.
        dtype, reduction, scale: for the tolerance, see `assert_close`; `dtype` by default each parameter's own.
        check_written: see `interpret`.

    Returns:
        Names of the passes that were checked.

    Raises:
        AssertionError: names the pass that changed the results, with the texts before and after.
    """
    backend, resolved = registry.resolve_target(target)
    chosen = Options(options)
    pipeline = registry.pipeline(backend, resolved, chosen)
    expected = _results(function, inputs, {}, strict=False, check_written=check_written)
    sizes = _sizes(function, inputs)
    checked: list[str] = []
    last = [IRModule((function,))]
    strict = [False]

    def observe(pass_: Pass, module: IRModule, form: str, seconds: float) -> None:
        strict[0] = strict[0] or pass_.name == guarded_by
        if form_index(form) > form_index("FLAT") or pass_.name in unfinished:
            return
        try:
            actual = _results(module[function.name], inputs, sizes, strict=strict[0], check_written=check_written)
            for param, got, wanted in zip(function.params, actual, expected):
                if isinstance(param, Buffer):
                    assert_close(
                        got,
                        wanted,
                        param.dtype if dtype is None or not param.dtype.is_float else dtype,
                        reduction=reduction,
                        scale=scale,
                        label=f"{param.name} after {pass_.name}",
                    )
        except Exception as error:
            raise AssertionError(
                f"after {pass_.name}: {error}\n--- before\n{last[0].script()}\n--- after\n{module.script()}"
            ) from error
        checked.append(pass_.name)
        last[0] = module

    pipeline.run(last[0], PassContext(resolved, chosen, backend=backend), observe=observe)
    return checked


def random_arguments(function: PrimFunc, seed: int = 0, sizes: dict[str, int] | None = None) -> list[Any]:
    """An argument for each parameter: arrays of random values, and small positive numbers for scalars."""
    rng = np.random.default_rng(seed)
    extents = {var.name: int(rng.integers(1, _DEFAULT_EXTENT)) for var in function.size_vars()}
    extents.update(sizes or {})
    arguments: list[Any] = []
    for param in function.params:
        if isinstance(param, Buffer):
            shape = tuple(_extent(e, extents) for e in param.shape)
            # Integers are often indices: keep them small.
            low, high = (0, 8) if param.dtype.is_int else (None, None)
            if param.dtype.lanes > 1 and shape:
                shape = (*shape[:-1], shape[-1] * param.dtype.lanes)
            array = random_array(shape, param.dtype.scalar, rng, low=low, high=high)
            arguments.append(pack_nibbles(array) if param.dtype.is_packed else array)
        else:
            arguments.append(numpy_type(param.dtype).type(rng.integers(1, 8)))
    return arguments


def read_function(text: str, params: str = "", like: PrimFunc | None = None) -> PrimFunc:
    """The function that a text of `check_pass` stands for; `like` gives the parameters that its names mean."""
    if _is_function(text):
        function = parse(textwrap.dedent(text))
        if not isinstance(function, PrimFunc):
            raise ValueError("one function is needed, found a module")
        return function
    text = textwrap.dedent(text).strip("\n")
    names = {} if like is None else {p.name: p for p in like.params}
    declared: dict[str, Buffer | Var] = dict(names) if like is not None else _declared(params)
    indexed = _indexed_names(text)

    def unknown(name: str) -> Buffer | Var:
        if name in indexed:
            made: Buffer | Var = Buffer(name, as_shape((_DEFAULT_EXTENT,) * indexed[name]), DType("float32"))
        else:
            made = Var(name, DType("int32"))
        declared[name] = made
        return made

    body = parse_stmt(text, dict(declared), unknown=unknown)
    return PrimFunc("main", tuple(declared.values()), body)


def _declared(params: str) -> dict[str, Buffer | Var]:
    if not params:
        return {}
    head = parse(f"@T.prim_func\ndef main({params}):\n    T.evaluate(0)\n")
    assert isinstance(head, PrimFunc)
    return {p.name: p for p in head.params}


def _is_function(text: str) -> bool:
    return "def " in text and text.lstrip().startswith(("@", "def "))


def _indexed_names(text: str) -> dict[str, int]:
    """Names that are indexed in the text, with the number of their indices."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1)
    return found


def _form_after(pass_: Pass, form: str | None) -> str:
    if pass_.leaves != "same":
        return pass_.leaves
    return form or pass_.needs.partition("..")[0]


def _assert_same_results(before: PrimFunc, after: PrimFunc, inputs: Sequence[Any] | None, seed: int) -> None:
    given = list(inputs) if inputs is not None else random_arguments(before, seed)
    sizes = _sizes(before, given)
    expected = _results(before, given, {}, strict=False, check_written=False)
    actual = _results(after, given, sizes, strict=False, check_written=False)
    for param, got, wanted in zip(before.params, actual, expected):
        if isinstance(param, Buffer):
            assert_close(got, wanted, param.dtype, label=f"{param.name} after the pass")


def _results(
    function: PrimFunc, inputs: Sequence[Any], sizes: dict[str, int], *, strict: bool, check_written: bool
) -> list[Any]:
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in inputs]
    interpret(function, *copies, strict=strict, check_written=check_written, sizes=sizes)
    return copies


def _sizes(function: PrimFunc, inputs: Iterable[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for param, value in zip(function.params, inputs):
        if isinstance(param, Buffer):
            for expr, extent in (*zip(param.shape, value.shape), *zip(param.strides, _element_strides(value))):
                if isinstance(expr, Var):
                    found.setdefault(expr.name, int(extent))
    return found


def _element_strides(value: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // value.itemsize for stride in value.strides)


def _extent(expr: Any, extents: dict[str, int]) -> int:
    from ..ir import IntImm, const, substitute, walk

    if isinstance(expr, IntImm):
        return expr.value
    values = {node: const(extents[node.name], node.dtype) for node in walk(expr) if isinstance(node, Var)}
    folded = _fold(substitute(expr, values))
    return folded


def _fold(expr: Any) -> int:
    from ..interpreter.evaluate import Evaluator

    return int(Evaluator(False, False).evaluate(expr))
