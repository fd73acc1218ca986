"""Axes along which kernels vary, read off their text: `axes(program)` says where a kernel lies on them.

`AXES` lists the values that must come up; the report of a run shows how often each did, and a test that all of them do.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from tile_core.casts import number_types

from .kernels import Program

__all__ = ["AXES", "axes", "missing", "report"]

_TYPES = tuple(d.name for d in number_types())
_REDUCTIONS = tuple(f"reduce_{k}" for k in ("sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor"))

AXES: dict[str, tuple[str, ...]] = {
    "family": ("Tiles", "Products", "SparseProducts", "Threads", "Launches", "Types"),
    "tile operation": (
        *("copy", "async_copy", "fill", "clear", "gemm", "gemm_sp", "transpose", "cumsum", "cummax", *_REDUCTIONS),
        *("alloc_reducer", "finalize_reducer", "any_of", "all_of"),
    ),
    "element type": _TYPES,
    "vector type": ("int32x2", "int32x4", "int32x8", "float16x4", "float8_e4m3fnx4", "int8x4"),
    "product": (
        *("float16→float32", "float16→float16", "bfloat16→float32", "float32→float32", "tfloat32→float32"),
        *("float64→float64", "int8→int32", "uint8→int32", "int4→int32", "float8_e4m3fn→float32", "float8_e5m2→float32"),
    ),
    "product options": ("transpose_A", "transpose_B", "FullRow", "FullCol", "operand in registers", "two products"),
    "memory": (
        *("alloc_shared", "alloc_fragment", "alloc_local", "alloc_var", "alloc_global", "StridedTensor"),
        *("reshape", "view", "dynamic size", "64-bit size", "dynamic stride", "scalar parameter"),
        *("annotate_layout", "annotate_safe_value", "assume", "use_swizzle"),
    ),
    "threads": ("7", "15", "32", "40", "64", "96", "100", "128", "160", "256", "384"),
    "extent": tuple(map(str, (1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 126, 200, 250))),
    "rank": ("1", "2", "3", "4"),
    "region": ("offset", "by its first element", "tail"),
    "stages": ("0", "1", "2", "3", "4"),
    "loop": (
        *("serial", "range", "unroll", "unroll explicit", "unroll factor", "grid", "Parallel", "Pipelined", "while"),
        *("Persistent", "written out", "negative step", "step", "break", "continue", "no iteration"),
        "serial in Parallel",
    ),
    "branch": ("if", "elif", "else", "conditional expression", "if_then_else", "Select", "and", "or", "not", "chain"),
    "operator": ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "~", "truncdiv", "truncmod", "max", "min",
                 "abs", "floor", "ceil", "trunc", "round", "clamp", "popcount", "clz", "reinterpret"),
    "rounding": ("rn", "rz", "rp", "rm", "rs", "sat=False"),
    "atomic update": (
        *("atomic_add", "atomic_max", "atomic_min", "atomic_or", "atomic_and", "atomic_xor"),
        *("of a tile", "of an element", "in shared memory", "relaxed", "acq_rel"),
    ),
    "warp": (
        *("shfl_xor", "shfl_down", "shfl_up", "shfl_sync", "warp_reduce_sum", "warp_reduce_max", "warp_reduce_min"),
        *("warp_reduce_bitor", "warp_reduce_bitand", "ballot", "any_sync", "all_sync", "match_any_sync", "sync_warp"),
        *("sync_threads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "get_lane_idx", "get_warp_idx"),
    ),
    "other": (
        *("macro", "T.Ref", "rng_init", "rng_rand_float", "device_assert", "ldg128", "extract_lane"),
        *("several launches", "ws", "PersistentTileScheduler", "three axes of blocks", "threads of several axes"),
        *("special values", "prefer_instruction", "coalesced_width", "nan_propagate", "clear=False", "reverse"),
    ),
}  # fmt: skip

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


def axes(program: Program) -> set[tuple[str, str]]:
    """(axis, value) pairs that hold for a kernel."""
    tree = ast.parse(program.source)
    found = set(_of_program(program, tree))
    for node in ast.walk(tree):
        found.update(_of_node(node))
    return {(axis, value) for axis, value in found if axis != "?"}


def report(counts: Counter[tuple[str, str]]) -> str:
    """Counts as text, an axis a line; listed values that never came up stand with 0."""
    lines = []
    for axis, values in AXES.items():
        extra = sorted(value for a, value in counts if a == axis and value not in values)
        lines.append(f"{axis}: " + ", ".join(f"{value} {counts[axis, value]}" for value in (*values, *extra)))
    return "\n".join(lines)


def missing(counts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Listed values that never came up."""
    seen = set(counts)
    return [(axis, value) for axis, values in AXES.items() for value in values if (axis, value) not in seen]


def _of_program(program: Program, tree: ast.Module) -> Iterator[tuple[str, str]]:
    from .kernels import family_of

    yield "family", family_of(program.seed)
    if program.special:
        yield "other", "special values"
    function = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "kernel")
    scalars = {a.arg for a in function.args.args if isinstance(a.annotation, ast.Attribute)}
    if scalars:
        yield "memory", "scalar parameter"
    if len([n for n in ast.walk(tree) if _called(n) == "Kernel"]) > 1:
        yield "other", "several launches"
    if len([n for n in ast.walk(tree) if _called(n) == "gemm"]) > 1:
        yield "product options", "two products"
    if "T.ceildiv" in program.source or set(program.sizes) - scalars:
        yield "region", "tail"
    types = dict(_allocated(tree))
    for node in ast.walk(tree):
        if _called(node) == "gemm" and isinstance(node, ast.Call):
            a, c = (types[node.args[i].id] for i in (0, 2) if isinstance(node.args[i], ast.Name))
            yield "product", f"{a[1]}→{c[1]}"
            if a[0] == "alloc_fragment":
                yield "product options", "operand in registers"
        if _called(node).startswith("atomic_") and isinstance(node, ast.Call):
            inside = isinstance(node.args[1], ast.Name) and node.args[1].id in types
            yield "atomic update", "of a tile" if inside else "of an element"
            target = node.args[0]
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id in types:
                yield "atomic update", "in shared memory"


def _allocated(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    """Names of tiles, with how they are allocated and their types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            if _called(node.value) in ("alloc_shared", "alloc_fragment"):
                yield node.targets[0].id, (_called(node.value), ast.literal_eval(node.value.args[1]))


def _of_node(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Attribute):
        yield _axis_of(node.attr), node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield ("element type", node.value) if node.value in _TYPES else ("?", "")
        if "x" in node.value and node.value.split("x")[0] in _TYPES:
            yield "vector type", node.value
    elif isinstance(node, ast.BinOp):
        yield "operator", _OPERATORS.get(type(node.op), "")
    elif isinstance(node, ast.UnaryOp):
        yield {ast.Invert: ("operator", "~"), ast.Not: ("branch", "not")}.get(type(node.op), ("?", ""))
    elif isinstance(node, ast.BoolOp):
        yield "branch", "and" if isinstance(node.op, ast.And) else "or"
    elif isinstance(node, ast.Compare) and len(node.ops) > 1:
        yield "branch", "chain"
    elif isinstance(node, ast.IfExp):
        yield "branch", "conditional expression"
    elif isinstance(node, ast.If):
        yield "branch", "if"
        if node.orelse:
            yield "branch", "elif" if isinstance(node.orelse[0], ast.If) and len(node.orelse) == 1 else "else"
    elif isinstance(node, ast.While):
        yield "loop", "while"
    elif isinstance(node, (ast.Break, ast.Continue)):
        yield "loop", type(node).__name__.lower()
    elif isinstance(node, ast.FunctionDef) and ast.unparse(node.decorator_list[0]) == "T.macro":
        yield "other", "macro"
        yield from (("other", "T.Ref") for a in node.args.args if a.annotation is not None)
    elif isinstance(node, ast.For):
        yield from _of_loop(node)
    elif isinstance(node, ast.Slice) and isinstance(node.lower, ast.Constant) and node.lower.value:
        yield "region", "offset"


def _of_loop(node: ast.For) -> Iterator[tuple[str, str]]:
    kind = _called(node.iter)
    if kind == "list":
        yield "loop", "written out"
        return
    yield "loop", kind
    call = node.iter
    if not isinstance(call, ast.Call):
        return
    bounds = [ast.unparse(a) for a in call.args]
    if kind in ("serial", "range", "unroll"):
        if len(bounds) == 3:
            yield "loop", "negative step" if bounds[2].startswith("-") else "step"
        if bounds[0] == "0" and len(bounds) == 1:
            yield "loop", "no iteration"
    for keyword in call.keywords:
        if keyword.arg == "num_stages":
            yield "stages", ast.unparse(keyword.value)
        if keyword.arg in ("explicit", "unroll_factor"):
            yield "loop", "unroll explicit" if keyword.arg == "explicit" else "unroll factor"
    if kind == "Parallel" and any(isinstance(n, ast.For) for n in node.body):
        yield "loop", "serial in Parallel"


def _of_call(node: ast.Call) -> Iterator[tuple[str, str]]:
    name = _called(node)
    if name in _OPERATOR_CALLS:
        yield "operator", name
    if name == "dynamic":
        stride = ast.literal_eval(node.args[0])[0] == "s"
        yield "memory", "dynamic stride" if stride else "dynamic size"
        if ast.literal_eval(node.args[1]) == "int64":
            yield "memory", "64-bit size"
    if name in ("alloc_shared", "alloc_fragment"):
        shape = ast.literal_eval(node.args[0])
        yield "rank", str(len(shape))
        yield from (("extent", str(extent)) for extent in shape)
    if name == "copy" and isinstance(node.args[0], ast.Subscript):
        index = node.args[0].slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if not any(isinstance(p, ast.Slice) for p in parts):
            yield "region", "by its first element"
    if name == "Kernel" and len(node.args) == 3:
        yield "other", "three axes of blocks"
    for keyword in node.keywords:
        value = ast.unparse(keyword.value)
        if keyword.arg == "threads":
            threads = ast.literal_eval(keyword.value)
            if isinstance(threads, tuple):
                yield "other", "threads of several axes"
                total = 1
                for extent in threads:
                    total *= extent
                threads = total
            yield "threads", str(threads)
        elif keyword.arg == "round":
            yield "rounding", ast.literal_eval(keyword.value)
        elif keyword.arg == "sat":
            yield "rounding", "sat=False"
        elif keyword.arg in ("transpose_A", "transpose_B") and value == "True":
            yield "product options", keyword.arg
        elif keyword.arg == "policy":
            yield "product options", value.rpartition(".")[2]
        elif keyword.arg == "memory_order":
            yield "atomic update", ast.literal_eval(keyword.value)
        elif keyword.arg in ("prefer_instruction", "coalesced_width", "nan_propagate"):
            yield "other", keyword.arg
        elif keyword.arg == "clear":
            yield "other", "clear=False"
        elif keyword.arg == "reverse" and value == "True":
            yield "other", "reverse"


def _called(node: ast.AST) -> str:
    """The name of what is called: `T.copy(…)` is "copy"; "" for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


_OPERATOR_CALLS = {v for v in AXES["operator"] if v.isalpha()}
_NAMES = {
    value: axis
    for axis in ("tile operation", "memory", "branch", "atomic update", "warp", "other")
    for value in AXES[axis]
    if value.isidentifier()
}


def _axis_of(name: str) -> str:
    if "x" in name and name.split("x")[0] in _TYPES:
        return "vector type"
    return _NAMES.get(name, "?")
