"""The smallest use of every name of the language: what the page of names means by "supported".

A probe is a few statements of a kernel; `probe(name)` makes the kernel. `integration_tests/conformance/test_names.py`
interprets each and compiles it for every target that the probe claims, so the page cannot claim more than that.
"""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

__all__ = ["EVERYWHERE", "PROBES", "Probe", "probe"]

EVERYWHERE = ("interpreter", "cpu", "cuda")

_HEAD = """
@T.prim_func
def probe(
    A: T.Tensor((64,), "float32"),
    B: T.Tensor((64,), "float32"),
    I: T.Tensor((64,), "int32"),
    J: T.Tensor((64,), "int32"),
    M: T.Tensor((32, 32), "float32"),
    N: T.Tensor((32, 32), "float32"),
    H: T.Tensor((32, 32), "float16"),
):
    with T.Kernel(1, threads=32) as bx:
"""


class Probe(NamedTuple):
    """The use of a name.

    Args:
        text: statements of a kernel, or a text that defines `probe`.
        where: what takes it.
    """

    text: str
    where: tuple[str, ...] = EVERYWHERE


def probe(name: str) -> Any:
    """The traced kernel that uses a name."""
    import tile_core.language as T
    from tile_core.frontend import from_source

    text = textwrap.dedent(PROBES[name].text).strip("\n")
    if "probe" not in text:
        text = _HEAD + textwrap.indent(text, " " * 8) + "\n"
    return from_source(text, {"T": T, "traced": _traced}, name="probe")


def _traced(function: Any, *shapes: tuple[int, ...]) -> Any:
    """What an eager function becomes for float32 tensors of these shapes."""
    from tile_core.frontend import TensorSpec, jit_function

    eager: Any = jit_function(function)
    specs = tuple(TensorSpec(shape, "float32") for shape in shapes)
    return eager.specialise(eager.bind(specs, {})).prim_func


def _each(names: str, text: str, where: tuple[str, ...] = EVERYWHERE) -> dict[str, Probe]:
    """One text for many names; NAME stands for the name."""
    return {name: Probe(text.replace("NAME", name), where) for name in names.split()}


def _elements(names: str, expression: str, out: str = "B") -> dict[str, Probe]:
    """An expression for every element, over A, M (floats) and I, J (integers)."""
    return _each(names, f"for i in T.Parallel(32):\n    {out}[i] = {expression}")


_TYPE = """
@T.prim_func
def probe(A: T.Tensor((64,), T.NAME), B: T.Tensor((64,), T.NAME)):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(64):
            B[i] = A[i]
"""
_CAST = """
@T.prim_func
def probe(A: T.Tensor((64,), T.NAME), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(64):
            B[i] = T.cast(A[i], "float32")
"""
_REDUCE = """
tile = T.alloc_fragment((32, 32), "TYPE")
row = T.alloc_fragment((32,), "TYPE")
T.clear(tile)
T.NAME(tile, row, dim=1)
T.copy(row, OUT[0:32])
"""

_EAGER = """
def eager(A):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    C = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            C[i] = A[i] + 1.0
    return C

probe = traced(eager, (64,))
"""
_DYNAMIC = """
n = T.NAME("n")

@T.prim_func
def probe(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
    with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = A[bx * 32 + i]
"""
_ATOMIC = "for i in T.Parallel(32):\n    T.NAME(OUT[i % 4], IN[i])"
_THREADS = "J[0] = T.NAME()"
_SCAN = """
tile = T.alloc_shared((32, 32), "float32")
T.copy(M, tile)
T.NAME(tile, dim=1)
T.copy(tile, N)
"""
_EXTERN = """
T.import_source("static inline float half_of(float x) { return x / 2; }")
B[0] = T.call_extern("float32", "half_of", A[0])
"""
_POINTER = """
T.import_source("static inline float first_of(const float* x) { return *x; }")
B[0] = T.call_extern("float32", "first_of", POINTER)
"""
_ADDRESS = """
@T.prim_func
def probe(p: T.ptr, B: T.Tensor((64,), "float32")):
    A = T.make_tensor(p, (64,), "float32")
    with T.Kernel(1, threads=32) as bx:
        T.copy(A, B)
"""
_META = """
@T.meta_class
class Counter:
    def __init__(self):
        self.value = T.alloc_var("int32", init=0)

    @T.inline
    def add(self, x):
        if x > 0:
            self.value += x

counter = Counter()
counter.add(I[0])
J[0] = counter.value
"""
_PAIRS = """
a = T.float32x2(A[0], A[1])
b = T.float32x2(A[2], A[3])
B[T.Ramp(0, 1, 2)] = T.NAME(ARGUMENTS)
"""
_LANE = "t = T.get_thread_binding()\nJ[t] = VALUE"
_BUILDERS = """
x = T.bind(I[0] * 2, "doubled")
with T.If(x > 10):
    with T.Then():
        J[0] = x
    with T.Else(), T.attr(J, "a.note", 3):
        T.evaluate(x)
        J[0] = -x
"""
_REDUCER = """
total = T.alloc_reducer((32,), "float32", op="sum")
out = T.alloc_fragment((32,), "float32")
T.reducer_init(total)
for i, j in T.Parallel(32, 32):
    T.reducer_update(total[i], M[i, j])
T.finalize_reducer(total, out)
T.copy(out, B[0:32])
"""
_ALLREDUCE = """
t = T.get_thread_binding()
own = T.alloc_local((1,), "float32")
total = T.alloc_local((1,), "float32")
own[0] = A[t]
with T.attr(
    T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
    "reduce_scope",
    T.reinterpret(T.uint64(0), dtype="handle"),
):
    T.tvm_thread_allreduce(T.uint32(1), own[0], True, total[0], t, dtype="handle")
B[t] = total[0]
"""
_ASYNC = """
t = T.get_thread_binding()
tile = T.alloc_shared((64,), "float32")
more = T.alloc_shared((128,), "float32")
T.async_copy(A, tile)
T.ptx_cp_async(T.access_ptr(more[t * 4], "w", 4), T.access_ptr(M[t, 0], "r", 4), 4)
T.ptx_commit_group()
T.ptx_wait_group(0)
T.sync_threads()
T.copy(tile, B)
N[t, 0] = more[t]
"""
_IM2COL = """
@T.prim_func
def probe(X: T.Tensor((1, 8, 8, 16), "float16"), Y: T.Tensor((32, 16), "float16")):
    with T.Kernel(1, threads=32) as bx:
        tile = T.alloc_shared((32, 16), "float16")
        T.NAME(X, tile, bx, 0, 3, 1, 1, 1)
        T.copy(tile, Y)
"""
_SOURCE_KERNEL = """
SOURCE = 'extern "C" __global__ void twice(float* a, float* b) { b[threadIdx.x] = 2 * a[threadIdx.x]; }'

@T.prim_func
def probe(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.CUDASourceCodeKernel(1, threads=64, source_code_or_path=SOURCE, entry_name="twice"):
        pass
"""
_UNARY = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf"
    " sigmoid floor ceil trunc round nearbyint abs fabs"
)

PROBES: dict[str, Probe] = {
    # Data types
    **_each("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16", _TYPE),
    **_each("bool half float double int uint short long boolean", _TYPE),
    **_each(
        "float8_e4m3fn float8_e5m2 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz"
        " float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn int4 uint4 tfloat32",
        _CAST,
    ),
    **_each("is_float4 is_float4_e2m1fn is_f8f6f4_family", 'if not T.NAME("float32"):\n    B[0] = 1.0'),
    "get_tvm_dtype": Probe('B[0] = T.cast(I[0], T.get_tvm_dtype("float32"))'),
    "handle": Probe(_ADDRESS.replace("T.ptr", "T.handle")),
    "void": Probe(
        'T.import_source("static inline void nothing(float x) { (void)x; }")\nT.call_extern(T.void, "nothing", A[0])',
        ("cpu", "cuda"),
    ),
    "dtype": Probe('B[0] = T.cast(A[0], T.dtype("float32"))'),
    # Functions, macros, parameters
    "prim_func": Probe("T.copy(A, B)"),
    **_each("const empty", _EAGER),
    "macro": Probe("@T.macro\ndef twice(x):\n    return x + x\n\nB[0] = twice(A[0])"),
    "Ref": Probe("@T.macro\ndef twice(x: T.Ref):\n    x = x + x\n\ntwice(B[0])"),
    **_each("dynamic symbolic", _DYNAMIC),
    "dyn": Probe(_DYNAMIC.replace('T.NAME("n")', "T.dyn['n']")),
    **_each(
        "Tensor Buffer",
        """
@T.prim_func
def probe(A: T.NAME((64,), "float32"), B: T.NAME((64,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        T.copy(A, B)
""",
    ),
    "StridedTensor": Probe(
        """
@T.prim_func
def probe(A: T.StridedTensor((8, 8), (8, 1), "float32"), B: T.Tensor((8, 8), "float32")):
    with T.Kernel(1, threads=32) as bx:
        T.copy(A, B)
"""
    ),
    **_each(
        "SharedBuffer FragmentBuffer LocalBuffer",
        """
@T.macro
def use(x: T.NAME((32,), "float32")):
    x[0] = 1.0

tile = T.ALLOC((32,), "float32")
use(tile)
""",
    ),
    "annotate_compile_flags": Probe('T.annotate_compile_flags("-O3")\nT.copy(A, B)'),
    "annotate_pass_configs": Probe('T.annotate_pass_configs({"tl.enable_fast_math": True})\nT.copy(A, B)'),
    "ptr": Probe(_ADDRESS),
    "make_tensor": Probe(_ADDRESS),
    "make_tensor_from_addr": Probe(
        _ADDRESS.replace("make_tensor", "make_tensor_from_addr").replace("T.ptr", "T.int64")
    ),
    **_each("meta_class inline", _META),
    # Launch and loops
    "Kernel": Probe("T.copy(A, B)"),
    **_each("get_thread_binding get_thread_extent get_block_binding get_block_extent", "J[0] = T.NAME(0)"),
    **_each("get_thread_bindings get_thread_extents get_block_bindings get_block_extents", "J[0] = T.NAME()[0]"),
    "Parallel": Probe("for i in T.Parallel(64):\n    B[i] = A[i]"),
    "Pipelined": Probe(
        """
tile = T.alloc_shared((16,), "float32")
for k in T.Pipelined(4, num_stages=2):
    T.copy(A[k * 16], tile)
    T.copy(tile, B[k * 16])
"""
    ),
    **_each("serial Serial unroll Unroll", "for i in T.NAME(4):\n    B[i] = A[i]"),
    **_each("vectorized Vectorized", "for i in T.NAME(4):\n    B[i] = A[i]"),
    "Persistent": Probe("for i, j in T.Persistent((2, 3), 1, bx):\n    J[i * 3 + j] = I[i]"),
    "PersistentTileScheduler": Probe(
        """
tiles = T.PersistentTileScheduler(2, 3, num_workers=1)
tiles.init(bx)
while tiles.valid():
    J[tiles.m_idx * 3 + tiles.n_idx] = 1
    tiles.next_tile()
"""
    ),
    "parallel": Probe("for i in T.parallel(64):\n    B[i] = A[i]"),
    "While": Probe('i = T.alloc_var("int32", init=0)\nwith T.While(i < 3):\n    i += 1\nJ[0] = i'),
    **_each("loop_break break_loop", "for i in T.serial(4):\n    if I[i] > 0:\n        T.NAME()\n    J[i] = 1"),
    "continue_loop": Probe("for i in T.serial(4):\n    if I[i] > 0:\n        T.continue_loop()\n    J[i] = 1"),
    "grid": Probe("for i, j in T.grid(4, 4):\n    M[i, j] = N[i, j]"),
    # Allocation
    **_each("alloc_shared alloc_fragment", 'tile = T.NAME((32, 32), "float32")\nT.copy(M, tile)\nT.copy(tile, N)'),
    "alloc_local": Probe('x = T.alloc_local((4,), "float32")\nx[0] = A[0]\nB[0] = x[0]'),
    "alloc_global": Probe(
        """
@T.prim_func
def probe(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    between = T.alloc_global((64,), "float32")
    with T.Kernel(1, threads=32) as bx:
        T.copy(A, between)
    with T.Kernel(1, threads=32) as bx:
        T.copy(between, B)
"""
    ),
    "reshape": Probe("tile = T.reshape(M, (1024,))\nT.copy(tile[0:64], B)"),
    "view": Probe('bits = T.view(A, dtype="int32")\nT.copy(bits, J)'),
    "alloc_var": Probe('x = T.alloc_var("float32", init=0.0)\nx = x + A[0]\nB[0] = x'),
    # Copy, products, reductions, scans, fills
    "copy": Probe("T.copy(A, B)"),
    **_each(
        "gemm GemmWarpPolicy",
        """
a = T.alloc_shared((32, 32), "float16")
c = T.alloc_fragment((32, 32), "float32")
T.copy(H, a)
T.clear(c)
T.gemm(a, a, c, transpose_B=True, policy=T.GemmWarpPolicy.Square)
T.copy(c, N)
""",
    ),
    "gemm_sp": Probe(
        """
a = T.alloc_shared((32, 16), "float16")
e = T.alloc_shared((32, 2), "int16")
b = T.alloc_shared((32, 32), "float16")
c = T.alloc_fragment((32, 32), "float32")
T.copy(H[0:32, 0:16], a)
T.fill(e, 0x4E9C)
T.copy(H, b)
T.clear(c)
T.gemm_sp(a, e, b, c)
T.copy(c, N)
"""
    ),
    **_each(
        "reduce_sum reduce_max reduce_min reduce_absmax reduce_abssum",
        _REDUCE.replace("TYPE", "float32").replace("OUT", "B"),
    ),
    **_each("reduce_bitand reduce_bitor reduce_bitxor", _REDUCE.replace("TYPE", "int32").replace("OUT", "J")),
    "reduce": Probe(
        _REDUCE.replace("TYPE", "float32").replace("OUT", "B").replace("T.NAME(tile, row", 'T.reduce(tile, row, "sum"')
    ),
    **_each("cumsum cummax", _SCAN),
    "fill": Probe('tile = T.alloc_fragment((32, 32), "float32")\nT.fill(tile, 2.0)\nT.copy(tile, N)'),
    "clear": Probe('tile = T.alloc_fragment((32, 32), "float32")\nT.clear(tile)\nT.copy(tile, N)'),
    # Atomics
    "atomic_add": Probe(_ATOMIC.replace("NAME", "atomic_add").replace("OUT", "B").replace("IN", "A")),
    **_each("atomic_max atomic_min", _ATOMIC.replace("OUT", "J").replace("IN", "I")),
    **_each("atomic_or atomic_and atomic_xor", _ATOMIC.replace("OUT", "J").replace("IN", "I")),
    "atomic_load": Probe("J[0] = T.atomic_load(I[0])"),
    "atomic_store": Probe("T.atomic_store(J[0], I[0])"),
    "atomic_addx2": Probe("if T.get_thread_binding() == 0:\n    T.atomic_addx2(B[0], A[0])"),
    "atomic_addx4": Probe("if T.get_thread_binding() == 0:\n    T.atomic_addx4(B[0], A[0])"),
    # Values
    **_each("add2 sub2 mul2 max2 min2", _PAIRS.replace("ARGUMENTS", "a, b")),
    **_each("abs2", _PAIRS.replace("ARGUMENTS", "a")),
    **_each("fma2", _PAIRS.replace("ARGUMENTS", "a, b, a")),
    "Shuffle": Probe("B[T.Ramp(0, 1, 2)] = T.Shuffle([A[0], A[1]], [1, 0])"),
    "extract_lane": Probe("B[0] = T.extract_lane(T.float32x2(A[0], A[1]), 1)"),
    **_elements(_UNARY, "T.NAME(A[i])"),
    **_elements("pow fmod atan2 hypot copysign nextafter max min", "T.NAME(A[i], A[i + 32])"),
    **_elements("fma clamp", "T.NAME(A[i], A[i + 1], A[i + 32])"),
    "ldexp": Probe("for i in T.Parallel(32):\n    B[i] = T.ldexp(A[i], I[i] % 4)"),
    **_elements("isnan isinf isfinite", "T.cast(T.NAME(A[i]), T.int32)", "J"),
    **_elements("popcount clz bitwise_not", "T.NAME(I[i])", "J"),
    **_elements("truncdiv truncmod floordiv floormod ceildiv cdiv align_up", "T.NAME(I[i], 7)", "J"),
    **_elements("bitwise_and bitwise_or bitwise_xor", "T.NAME(I[i], I[i + 32])", "J"),
    **_elements("shift_left shift_right", "T.NAME(I[i], 3)", "J"),
    **_elements("any_of all_of", "T.cast(T.NAME(I[i] > 1, I[i] < 7), T.int32)", "J"),
    **_elements("if_then_else Select", "T.NAME(A[i] > 0.0, A[i], 0.0)"),
    **_elements("infinity max_value min_value", 'T.min(A[i], T.NAME("float32"))'),
    "cast": Probe('for i, j in T.Parallel(32, 32):\n    H[i, j] = T.cast(M[i, j], "float16")'),
    "Cast": Probe('for i, j in T.Parallel(32, 32):\n    H[i, j] = T.Cast("float16", M[i, j])'),
    **_elements("__exp __exp10 __log __log2 __log10 __sin __cos __tan fast_rcp", "T.NAME(A[i])"),
    **_elements("ieee_frcp ieee_fsqrt ieee_frsqrt", "T.NAME(A[i])"),
    **_elements("fmul ieee_add ieee_sub ieee_mul ieee_fdiv", "T.NAME(A[i], A[i + 32])"),
    "ieee_fmaf": Probe("for i in T.Parallel(32):\n    B[i] = T.ieee_fmaf(A[i], A[i + 1], A[i + 32])"),
    **_elements("__ffs", "T.NAME(I[i])", "J"),
    "__fns": Probe("for i in T.Parallel(32):\n    J[i] = T.__fns(T.cast(I[i], T.uint32), 0, 1)"),
    "index_to_coordinates": Probe(
        "for i in T.Parallel(32):\n    y, x = T.index_to_coordinates(i, (4, 8))\n    B[i] = M[y, x]"
    ),
    "dp4a": Probe(
        """
@T.prim_func
def probe(P: T.Tensor((4,), "int8"), Q: T.Tensor((4,), "int8"), J: T.Tensor((1,), "int32")):
    with T.Kernel(1, threads=32) as bx:
        a = T.alloc_local((4,), "int8")
        b = T.alloc_local((4,), "int8")
        c = T.alloc_local((1,), "int32")
        for k in T.serial(4):
            a[k] = P[k]
            b[k] = Q[k]
        c[0] = 0
        T.dp4a(a, b, c)
        J[0] = c[0]
"""
    ),
    "reinterpret": Probe('for i in T.Parallel(32):\n    J[i] = T.reinterpret(A[i], "int32")'),
    "likely": Probe("if T.likely(I[0] > 0):\n    B[0] = 1.0"),
    "Ramp": Probe("B[T.Ramp(0, 1, 4)] = A[T.Ramp(4, 1, 4)]"),
    "Broadcast": Probe("B[T.Ramp(0, 1, 4)] = T.Broadcast(A[0], 4)"),
    # Synchronisation, extern calls
    "sync_warp": Probe("T.sync_warp()\nT.copy(A, B)"),
    "match_buffer": Probe(
        """
@T.prim_func
def probe(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (64,), "float32")
    B = T.match_buffer(b, (64,))
    with T.Kernel(1, threads=32):
        T.copy(A, B)
"""
    ),
    **_each("sblock reads writes", 'with T.sblock("copy"):\n    T.reads(A[0:64])\n    T.writes(B)\n    T.copy(A, B)'),
    "sblock_alloc_buffer": Probe(
        'with T.sblock():\n    tile = T.sblock_alloc_buffer((64,), "float32", scope="shared")\n'
        "    T.copy(A, tile)\n    T.copy(tile, B)"
    ),
    "tvm_storage_sync": Probe('T.tvm_storage_sync("shared")\nT.copy(A, B)'),
    "make_mma_swizzle_layout": Probe(
        'tile = T.alloc_shared((32, 64), "float16")\n'
        "T.annotate_layout({tile: T.make_mma_swizzle_layout(tile)})\nT.clear(tile)\nT.copy(tile[0:32, 0:32], H)"
    ),
    "sync_grid": Probe("T.sync_grid()\nT.copy(A, B)"),
    "named_barrier_arrive": Probe(
        """
@T.prim_func
def probe(B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        t = T.get_thread_binding()
        if t < 32:
            T.named_barrier_arrive(1, 64)
        else:
            T.sync_threads(1, 64)
            B[t] = 1.0
"""
    ),
    **_each("get_lane_idx get_warp_idx get_warp_idx_sync get_warp_group_idx", _LANE.replace("VALUE", "T.NAME()")),
    "shuffle_elect": Probe(_LANE.replace("VALUE", "T.cast(T.shuffle_elect(32), T.int32)")),
    **_each("shfl_sync shfl_up shfl_down shfl_xor", _LANE.replace("VALUE", "T.NAME(I[t], 1)")),
    **_each(
        "tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down",
        _LANE.replace("VALUE", "T.NAME(0xFFFFFFFF, I[t], 1, 32, 32)"),
    ),
    **_each(
        "any_sync all_sync ballot ballot_sync syncthreads_count syncthreads_and syncthreads_or",
        _LANE.replace("VALUE", "T.cast(T.NAME(I[t] > 0), T.int32)"),
    ),
    **_each("activemask tvm_warp_activemask", _LANE.replace("VALUE", "T.cast(T.NAME(), T.int32)")),
    **_each("match_any_sync match_all_sync", _LANE.replace("VALUE", "T.cast(T.NAME(I[t]), T.int32)")),
    **_each(
        "warp_reduce_sum warp_reduce_max warp_reduce_min warp_reduce_bitand warp_reduce_bitor",
        _LANE.replace("VALUE", "T.NAME(I[t])"),
    ),
    "sync_threads": Probe("T.sync_threads()\nT.copy(A, B)"),
    **_each("call_extern import_source", _EXTERN, ("cpu", "cuda")),
    "call_pure_extern": Probe(_EXTERN.replace("call_extern", "call_pure_extern"), ("cpu", "cuda")),
    "__ldg": Probe("B[0] = T.__ldg(A[0])"),
    **_each("ldg32 stg32", "T.stg32(B[0], T.ldg32(A[0]))"),
    **_each("ldg64 stg64", "T.stg64(B[0], T.ldg64(A[0]))"),
    **_each("ldg128 stg128", "T.stg128(B[0], T.ldg128(A[0]))"),
    **_each("ldg256 stg256", "T.stg256(B[0], T.ldg256(A[0]))"),
    **{
        f"{way}{bits}": Probe(
            'tile = T.alloc_shared((64,), "float32")\nT.copy(A, tile)\nT.sync_threads()\n'
            f"value = T.lds{bits}(tile[0])\nT.sync_threads()\nT.sts{bits}(tile[32], value)\nT.copy(tile, B)"
        )
        for way in ("lds", "sts")
        for bits in (32, 64, 128)
    },
    "print": Probe('T.print(A[0], msg="first")\nT.copy(A, B)'),
    "device_assert": Probe('T.device_assert(I[0] == I[0], "equal")\nT.copy(A, B)'),
    "access_ptr": Probe(_POINTER.replace("POINTER", 'T.access_ptr(A[4], "r")'), ("cpu", "cuda")),
    "address_of": Probe(_POINTER.replace("POINTER", "T.address_of(A[4])"), ("cpu", "cuda")),
    **_each(
        "tvm_access_ptr type_annotation",
        _POINTER.replace("POINTER", 'T.tvm_access_ptr(T.type_annotation("float32"), A, 4, 8, 1)'),
        ("cpu", "cuda"),
    ),
    # Statements as calls
    "thread_binding": Probe('t = T.thread_binding(0, 32, thread="threadIdx.x")\nJ[t] = I[t]'),
    "launch_thread": Probe('with T.launch_thread("threadIdx.x", 32) as t:\n    J[t] = I[t]'),
    **_each("If Then Else bind evaluate attr", _BUILDERS),
    "alloc_buffer": Probe('tile = T.alloc_buffer((64,), "float32", scope="shared")\nT.copy(A, tile)\nT.copy(tile, B)'),
    "decl_buffer": Probe(
        """
tile = T.alloc_buffer((64,), "float32", scope="shared")
same = T.decl_buffer((8, 8), "float32", data=tile)
T.copy(A, tile)
T.copy(same[0, 0:8], B[0:8])
"""
    ),
    **_each("alloc_reducer reducer_init reducer_update finalize_reducer", _REDUCER),
    **_each("comm_reducer tvm_thread_allreduce", _ALLREDUCE),
    **_each("async_copy ptx_commit_group ptx_wait_group ptx_cp_async", _ASYNC),
    **_each("im2col c2d_im2col", _IM2COL),
    "transpose": Probe(
        """
tile = T.alloc_shared((32, 32), "float32")
turned = T.alloc_shared((32, 32), "float32")
T.copy(M, tile)
T.transpose(tile, turned)
T.copy(turned, N)
"""
    ),
    **_each("rng_init rng_rand", "T.rng_init(7, seq=T.get_thread_binding())\nJ[0] = T.cast(T.rng_rand(), T.int32)"),
    "rng_rand_float": Probe("T.rng_init(7)\nB[0] = T.rng_rand_float()"),
    "annotate_l2_hit_ratio": Probe("T.annotate_l2_hit_ratio({A: 0.5})\nT.copy(A, B)"),
    "annotate_min_blocks_per_sm": Probe("T.annotate_min_blocks_per_sm(2)\nT.copy(A, B)"),
    "annotate_restrict_buffers": Probe("T.annotate_restrict_buffers(B)\nT.copy(A, B)"),
    "ws": Probe(
        """
@T.prim_func
def probe(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=256) as bx:
        with T.ws(1):
            T.copy(A, B)
"""
    ),
    "CUDASourceCodeKernel": Probe(_SOURCE_KERNEL, ("cuda",)),
    # Annotations
    "disable_warp_group_reg_alloc": Probe("T.disable_warp_group_reg_alloc()\nT.copy(A, B)"),
    "no_set_max_nreg": Probe("T.no_set_max_nreg()\nT.copy(A, B)"),
    "use_swizzle": Probe("T.use_swizzle(4)\nT.copy(A, B)"),
    "annotate_layout": Probe(
        """
tile = T.alloc_shared((32, 32), "float32")
T.annotate_layout({tile: T.Layout((32, 32), lambda i, j: i * 32 + j)})
T.copy(M, tile)
T.copy(tile, N)
"""
    ),
    "annotate_safe_value": Probe("T.annotate_safe_value({A: 1.0})\nfor i in T.Parallel(32):\n    B[i] = A[i + 40]"),
    "Fragment": Probe(
        """
tile = T.alloc_fragment((32,), "float32")
T.annotate_layout({tile: T.Fragment((32,), lambda i: (i, 0))})
T.copy(A[0:32], tile)
T.copy(tile, B[0:32])
"""
    ),
    "assume": Probe("T.assume(I[0] > 0)\nT.copy(A, B)"),
}
for _name, _alloc in (("SharedBuffer", "shared"), ("FragmentBuffer", "fragment"), ("LocalBuffer", "local")):
    PROBES[_name] = Probe(PROBES[_name].text.replace("ALLOC", f"alloc_{_alloc}"))
PROBES["Layout"] = PROBES["annotate_layout"]
