"""Valid kernels with one mistake in each: `mutants(source)`. What comes of a mistake must be an error for the kernel's
author (or nothing, where the kernel is still one), never an error of ours or of a compiler behind us: `complaint`."""

from __future__ import annotations

import ast
import copy
import traceback
from collections.abc import Callable, Iterator

import tile_core as tile
import tile_core.language as T
from tile_core.errors import InternalError, TileError

__all__ = ["KERNELS", "complaint", "mutants"]

KERNELS = {
    "product": """
@T.prim_func
def kernel(A: T.Tensor((128, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((128, 64), "float32")):
    with T.Kernel(2, threads=128) as bx:
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(3, num_stages=2):
            T.copy(A[bx * 64, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c, transpose_B=False, policy=T.GemmWarpPolicy.FullRow)
        for i, j in T.Parallel(64, 64):
            c[i, j] = T.max(c[i, j], 0.0)
        T.copy(c, C[bx * 64, 0])
""",
    "rows": """
n = T.dynamic("n")
@T.prim_func
def kernel(A: T.Tensor((n, 100), "float32"), Z: T.Tensor((n, 100), "float32"), V: T.Tensor((n,), "int32")):
    with T.Kernel(T.ceildiv(n, 8), threads=96) as bx:
        row = T.alloc_fragment((8, 100), "float32")
        top = T.alloc_fragment((8,), "float32")
        held = T.alloc_shared((8, 100), "float32")
        best = T.alloc_var("float32", init=0.0)
        T.copy(A[bx * 8 : bx * 8 + 8, :], row)
        T.reduce_max(row, top, dim=1, clear=True)
        for i, j in T.Parallel(8, 100):
            row[i, j] = T.exp(row[i, j] - top[i])
        T.reduce_sum(row, top, dim=1)
        T.copy(row, held)
        T.cumsum(held, dim=1, reverse=True)
        for i, j in T.Parallel(8, 100):
            if top[i] > 0.5:
                held[i, j] = held[i, j] / top[i]
        T.copy(held, Z[bx * 8, 0])
        for i in T.Parallel(8):
            T.atomic_add(V[bx * 8 + i], T.cast(i, "int32"))
""",
    "threads": """
@T.macro
def twice(x: T.Ref, y):
    x = x * 2 + y

@T.prim_func
def kernel(A: T.Tensor((256,), "int32"), Z: T.Tensor((256,), "int32"), s: T.int32):
    with T.Kernel(2, threads=128) as bx:
        tx = T.get_thread_binding(0)
        v = T.alloc_var("int32", init=0)
        kept = T.alloc_local((4,), "int32")
        shared = T.alloc_shared((128,), "int32")
        v = A[bx * 128 + tx] + s
        for e in T.unroll(4):
            kept[e] = v + e
        shared[tx] = T.shfl_xor(v, 1)
        T.sync_threads()
        twice(v, shared[127 - tx])
        while v > 1000:
            v = v // 2
            if v % 7 == 3:
                break
        T.device_assert(v <= 1000)
        Z[bx * 128 + tx] = T.if_then_else(tx < 64, v, kept[3])
""",
}
"""Kernels without mistakes."""

_TARGETS = ("cpu", "cuda -arch=sm_80")


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """(what is wrong, the kernel with it), one place at a time."""
    tree = ast.parse(source)
    for number, node in enumerate(ast.walk(tree)):
        for label, change in _changes(node):
            wrong = copy.deepcopy(tree)
            change(list(ast.walk(wrong))[number])
            yield f"line {getattr(node, 'lineno', 0)}: {label}", ast.unparse(ast.fix_missing_locations(wrong)) + "\n"


def complaint(source: str) -> str:
    """What is wrong with what comes of a kernel, or "": it compiles, or is refused with line and help."""
    try:
        function = tile.from_source(source, {"T": T}, name="kernel")
        for target in _TARGETS:
            tile.lower(function, target=target)
    except InternalError as error:
        return f"an internal error: {error}"
    except TileError as error:
        missing = [what for what, held in (("span", error.span), ("help", error.help)) if not held]
        return f"no {' and no '.join(missing)}: {error}" if missing else ""
    except Exception as error:
        # Python's own word about the author's line, such as 1 - "x", needs nothing from us.
        frames = traceback.extract_tb(error.__traceback__)
        return "" if frames[-1].filename.startswith("<tile source") else f"{type(error).__name__}: {error}"
    return ""


Change = Callable[[ast.AST], None]


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Attribute):
        yield f"T.{node.attr[:-1]}", lambda n: setattr(n, "attr", n.attr[:-1])
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != "T":
        yield f"{node.id}_ for {node.id}", lambda n: setattr(n, "id", n.id + "_")
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        yield "an index less", lambda n: n.slice.elts.pop()
        yield "an index more", lambda n: n.slice.elts.append(ast.Constant(0))
        yield "indices turned round", lambda n: n.slice.elts.reverse()
    elif isinstance(node, ast.Subscript):
        yield "an index more", lambda n: setattr(n, "slice", ast.Tuple([n.slice, ast.Constant(0)], ast.Load()))
        yield "a float for an index", lambda n: setattr(n, "slice", ast.Constant(1.5))
    elif isinstance(node, ast.BinOp):
        yield "a string for an operand", lambda n: setattr(n, "right", ast.Constant("x"))
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield "del", lambda n: n.__dict__.update(targets=[ast.Name("unused", ast.Store())])


def _constants(node: ast.Constant) -> Iterator[tuple[str, Change]]:
    value = node.value
    if isinstance(value, str):
        for other in (value[:-1], "int32" if value != "int32" else "float16", "uint8x4", 3):
            yield f"{other!r} for {value!r}", lambda n, other=other: setattr(n, "value", other)
    elif isinstance(value, bool):
        yield "None for a flag", lambda n: setattr(n, "value", None)
    elif isinstance(value, int):
        for other in (value + 1, value * 2, -value - 1, 0, 1 << 20, float(value) + 0.5, None, "x"):
            yield f"{other!r} for {value!r}", lambda n, other=other: setattr(n, "value", other)


def _calls(node: ast.Call) -> Iterator[tuple[str, Change]]:
    name = ast.unparse(node.func)
    for place in range(len(node.args)):
        yield f"{name} without argument {place}", lambda n, place=place: n.args.pop(place)
        yield (
            f"{name} with None as argument {place}",
            lambda n, place=place: n.args.__setitem__(place, ast.Constant(None)),
        )
    if len(node.args) > 1:
        yield f"{name} with arguments turned round", lambda n: n.args.reverse()
    yield f"{name} with an argument more", lambda n: n.args.append(ast.Constant(1))
    yield f"{name} with a keyword too many", lambda n: n.keywords.append(ast.keyword("colour", ast.Constant(1)))
    for place, keyword in enumerate(node.keywords):
        wrong = keyword.arg[:-1]
        yield f"{name}({wrong}=)", lambda n, place=place, wrong=wrong: setattr(n.keywords[place], "arg", wrong)
        yield (
            f"{name}({keyword.arg}='x')",
            lambda n, place=place: setattr(n.keywords[place], "value", ast.Constant("x")),
        )
