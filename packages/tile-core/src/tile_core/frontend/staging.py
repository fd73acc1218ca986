"""From a Python function to its rewritten twin: source text, syntax tree, rewrite, compilation, cells.

The result is kept for each code object, so that a factory called again with other constants pays only for a new
function object around the same code.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from ..errors import CompileError, declare_codes
from ..source import Span, add_source
from .rewrite import rewrite_function
from .trace import tracer

__all__ = ["from_source", "function_span", "function_tree", "is_staged", "parameter_spans", "staged"]

declare_codes(
    {
        "E-SOURCE": "the source of a kernel cannot be read",
        "E-SOURCE-CHANGED": "the file of a kernel no longer holds the function that was imported",
        "E-SOURCE-EMPTY": "a source text that defines nothing to return",
    }
)

# By identity: code objects that compare equal may differ in what the source says (annotations of local names leave
# no bytecode).
_cache: dict[int, _Twin] = {}
_own_names = ("__tile__", "__spans__")


def staged(function: Callable[..., Any]) -> FunctionType:
    """The rewritten twin of `function`, with the same globals, closure and defaults.

    Raises:
        CompileError: no source (E-SOURCE), changed source (E-SOURCE-CHANGED), syntax without meaning in a kernel
            (E-SYNTAX).
    """
    function = _plain_function(function)
    if is_staged(function):
        return function
    twin = _twin(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells["__tile__"], cells["__spans__"] = CellType(tracer), CellType(twin.spans)
    closure = tuple([cells[name] for name in twin.code.co_freevars])
    new = FunctionType(twin.code, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__ = function.__qualname__
    return new


def is_staged(function: Any) -> bool:
    """Whether the function was rewritten already (it is nested in a rewritten one)."""
    code = getattr(function, "__code__", None)
    return code is not None and "__scope__" in code.co_varnames


def function_tree(function: Callable[..., Any]) -> tuple[ast.FunctionDef, str]:
    """The syntax tree of a function, with the line numbers of its file, and its source id."""
    function = _plain_function(function)
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines or code.co_firstlineno > len(lines):
        raise CompileError(
            "E-SOURCE",
            f"the source of {function.__name__} is not available",
            facts=[f"it was defined in {code.co_filename}, line {code.co_firstlineno}"],
            help="define it in a file or a notebook, or make it with tile.from_source(text, globals=…)",
        )
    first = code.co_firstlineno
    block = inspect.getblock(lines[first - 1 :])
    text = "".join(block)
    indented = text[:1] in " \t"
    try:
        # An `if` around indented source keeps the columns as they are in the file.
        tree = ast.parse("if 1:\n" + text if indented else text)
    except SyntaxError:
        raise _changed(function) from None
    node: Any = tree.body[0].body[0] if indented else tree.body[0]  # type: ignore[attr-defined]
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        raise _changed(function)
    ast.increment_lineno(tree, first - (2 if indented else 1))
    return node, code.co_filename


def function_span(function: Callable[..., Any]) -> Span:
    """The place of a function's ``def``; its first line where that is not known."""
    function = _plain_function(function)
    known = _cache.get(id(function.__code__))
    return known.place if known is not None else Span(function.__code__.co_filename, function.__code__.co_firstlineno)


def parameter_spans(function: Callable[..., Any]) -> dict[str, Span]:
    """The place of each parameter in the source; empty for functions that were rewritten as part of another."""
    return {} if is_staged(function) else _twin(_plain_function(function)).parameters


def from_source(text: str, globals: dict[str, Any] | None = None, name: str | None = None) -> Any:
    """Runs `text` so that kernels in it can be traced where Python keeps no source (REPL, ``exec``), and returns what
    it defines.

    Args:
        text: Python source, such as a decorated function.
        globals: names that the text may use; what it defines is added to a copy.
        name: what to return; by default the last function or class that the text defines at its top level.

    Raises:
        CompileError: nothing is defined, or not `name` (E-SOURCE-EMPTY).
    """
    import hashlib  # loads the system's cryptography, which kernels in files never need

    source = f"<tile source {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    add_source(source, text)
    lines = text.splitlines(keepends=True)
    # linecache never drops an entry without a modification time.
    linecache.cache[source] = (len(text), None, lines, source)
    tree = ast.parse(text, source)
    namespace = dict(globals or {})
    namespace.setdefault("__name__", source)
    exec(compile(tree, source, "exec"), namespace)
    defined = [n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    wanted = name if name is not None else (defined[-1] if defined else None)
    if wanted is None or wanted not in namespace:
        raise CompileError(
            "E-SOURCE-EMPTY",
            "the text defines no function" if wanted is None else f"the text does not define {wanted}",
            facts=[f"it defines: {', '.join(defined) or 'nothing'}"],
            help="give a text with a `def`, or the right name",
        )
    return namespace[wanted]


def _plain_function(function: Any) -> FunctionType:
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        what, found = f"{function!r} is not a Python function", type(function).__name__
    elif function.__name__ == "<lambda>":
        what, found = "a lambda cannot be a kernel", "lambda"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        what, found = f"{function.__name__} is an async function, which cannot be a kernel", "async def"
    else:
        return function
    raise CompileError("E-SOURCE", what, facts=[f"it is: {found}"], help="decorate a function defined with `def`")


def _changed(function: FunctionType) -> CompileError:
    code = function.__code__
    return CompileError(
        "E-SOURCE-CHANGED",
        f"the file no longer holds {function.__name__} where it was imported from",
        span=Span(code.co_filename, code.co_firstlineno),
        help="restart Python, or import the module again",
    )


@dataclass(frozen=True)
class _Twin:
    """What is kept of a rewritten function; `original` keeps the code object, and with it its id, alive."""

    original: CodeType
    code: CodeType
    spans: list[Span]
    place: Span
    parameters: dict[str, Span]


def _twin(function: FunctionType) -> _Twin:
    found = _cache.get(id(function.__code__))
    if found is None:
        found = _cache[id(function.__code__)] = _rewrite(function)
    return found


def _rewrite(function: FunctionType) -> _Twin:
    node, source = function_tree(function)
    place = Span(source, node.lineno, node.col_offset)
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    parameters = {
        a.arg: Span(source, a.lineno, a.col_offset, (a.end_col_offset or 0) if a.end_lineno == a.lineno else 0)
        for a in arguments
    }
    new, spans = rewrite_function(node, source)
    # Under its own name it would be local to the outer function, and a recursive call would not find the global.
    new.name = "__kernel__"
    names = (*_own_names, *function.__code__.co_freevars)
    outer = ast.FunctionDef(
        name="__outer__",
        args=ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, []),
        body=[new],
        decorator_list=[],
        returns=None,
        type_comment=None,
    )
    outer.type_params = []  # type: ignore[attr-defined]
    module = ast.Module([ast.copy_location(outer, new)], [])
    ast.fix_missing_locations(module)
    code = compile(module, source, "exec", dont_inherit=True)
    inner = _nested(_nested(code, "__outer__"), "__kernel__")
    inner = inner.replace(co_name=function.__code__.co_name)
    return _Twin(function.__code__, inner, spans, place, parameters)


def _nested(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
