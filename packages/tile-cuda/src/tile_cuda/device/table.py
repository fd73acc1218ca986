"""The device functions of sm_75 … sm_90: synchronisation, asynchronous copies, matrix instructions.

Warp and block functions, atomics and fast mathematics are in `table_warp` and `table_atomic`. Instruction names and
register layouts: PTX ISA, sections "Parallel Synchronization", "Data Movement: cp.async" and "Warp Level Matrix
Instructions".
"""

from __future__ import annotations

from .row import Commit, Meet, Reads, Together, Updates, Wait, Writes, device_function

__all__ = ["CP_ASYNC_BYTES", "CP_ASYNC_QUEUE", "FULL_MASK", "MMA_SHAPES", "SPARSE_MMA_SHAPES"]

CP_ASYNC_QUEUE = "cp.async"
CP_ASYNC_BYTES = (4, 8, 16)
FULL_MASK = 0xFFFFFFFF

# ---- synchronisation

device_function(
    "sync_threads",
    "void sync_threads(site where)",
    effects=[Meet("block")],
    ptx="__syncthreads();",
    emulation="emu::sync_threads(where);",
    doc="all threads of the block meet",
)
device_function(
    "sync_grid",
    "void sync_grid(site where)",
    effects=[Meet("block")],
    # The first block adds what brings the sum of all to 2^31, so that the highest bit turns when the last has come.
    ptx="""
__syncthreads();
if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
  unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
  __threadfence();
  unsigned before = atomicAdd(&grid_arrivals, first ? 0x80000000u - (blocks - 1) : 1u);
  while (((before ^ *(volatile unsigned*)&grid_arrivals) & 0x80000000u) == 0) {}
  __threadfence();
}
__syncthreads();
""",
    emulation="emu::sync_grid(where);",
    doc="all threads of all blocks meet; the launch must be cooperative, and one at a time",
)
device_function(
    "sync_warp",
    "void sync_warp(site where, uint32_t mask = 0xffffffffu)",
    ["mask"],
    optional=1,
    effects=[Meet("warp", count="mask")],
    ptx="__syncwarp(mask);",
    emulation="emu::sync_warp(where, mask);",
    doc="the lanes of the mask meet",
)
device_function(
    "bar_sync",
    "void bar_sync(site where, uint32_t id, uint32_t count)",
    ["id", "count"],
    effects=[Meet("named", barrier="id", count="count")],
    ptx='asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(count) : "memory");',
    emulation="emu::bar_sync(where, id, count);",
    doc="`count` threads meet at barrier `id` (1 to 15; 0 is sync_threads)",
)
device_function(
    "bar_arrive",
    "void bar_arrive(site where, uint32_t id, uint32_t count)",
    ["id", "count"],
    effects=[Meet("named", barrier="id", count="count", waits=False)],
    ptx='asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(count) : "memory");',
    emulation="emu::bar_arrive(where, id, count);",
    doc="arrives at barrier `id` without waiting",
)
for _what, _combine in (("count", "total"), ("and", "total == threads"), ("or", "total != 0")):
    device_function(
        f"sync_threads_{_what}",
        f"int32_t sync_threads_{_what}(site where, bool predicate)",
        ["predicate"],
        result="int32",
        effects=[Meet("block")],
        ptx=f"return __syncthreads_{_what}(predicate){'' if _what == 'count' else ' != 0'};",
        emulation=f"""
int total = emu::sync_threads_count(where, predicate);
{"int threads = int(blockDim.x * blockDim.y * blockDim.z);" if _what == "and" else ""}
return {_combine};
""",
        doc=f"all threads of the block meet; {_what} of their predicates",
    )
for _scope, _instruction in (
    ("block", "__threadfence_block"),
    ("device", "__threadfence"),
    ("system", "__threadfence_system"),
):
    device_function(
        f"fence_{_scope}",
        f"void fence_{_scope}()",
        ptx=f"{_instruction}();",
        emulation=f"emu::fence(emu::Scope::{_scope});",
        doc=f"orders this thread's accesses as seen by the {_scope}",
    )

# ---- asynchronous copies

device_function(
    "cp_async",
    "template <int Bytes> void cp_async(void* dst, const void* src, bool predicate = true)",
    ["dst", "src", "predicate"],
    optional=1,
    template=("bytes",),
    effects=[Writes("dst", "async", CP_ASYNC_QUEUE), Reads("src", "async", CP_ASYNC_QUEUE)],
    # .cg bypasses L1 and exists for 16 bytes only; the rest of the 128-byte line is most often the next step's, so L2
    # is told to fetch it. A source size of 0 fills with zeros and reads nothing. There is no form with a cache policy:
    # ptxas 13.0 to 13.3 drops the createpolicy of one and leaves an illegal instruction (seen on sm_90).
    ptx="""
uint32_t shared = uint32_t(__cvta_generic_to_shared(dst));
int size = predicate ? Bytes : 0;
if constexpr (Bytes == 16)
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               : : "r"(shared), "l"(src), "r"(size) : "memory");
else
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               : : "r"(shared), "l"(src), "n"(Bytes), "r"(size) : "memory");
""",
    emulation="emu::cp_async(dst, src, Bytes, predicate ? Bytes : 0);",
    minimum=80,
    doc="starts a copy of 4, 8 or 16 bytes from global to shared memory; zeros when the predicate is false",
)
device_function(
    "cp_async_commit",
    "void cp_async_commit()",
    effects=[Commit(CP_ASYNC_QUEUE)],
    ptx='asm volatile("cp.async.commit_group;" : : : "memory");',
    emulation="emu::cp_async_commit();",
    minimum=80,
    doc="closes this thread's group of copies",
)
device_function(
    "cp_async_wait",
    "template <int Pending> void cp_async_wait(site where)",
    ["pending"],
    template=("pending",),
    effects=[Wait(CP_ASYNC_QUEUE, "pending")],
    ptx='asm volatile("cp.async.wait_group %0;" : : "n"(Pending) : "memory");',
    emulation="emu::cp_async_wait(where, Pending);",
    minimum=80,
    doc="waits until at most `pending` of this thread's groups are unfinished",
)

# ---- matrices


def _loads(num: int) -> str:
    registers = ", ".join(f"%{i}" for i in range(num))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(num))
    head = f"ldmatrix.sync.aligned.m8n8.x{num}"
    return (
        f"  if constexpr (Trans)\n"
        f'    asm volatile("{head}.trans.shared.b16 {{{registers}}}, [%{num}];" : {outputs} : "r"(row) : "memory");\n'
        f"  else\n"
        f'    asm volatile("{head}.shared.b16 {{{registers}}}, [%{num}];" : {outputs} : "r"(row) : "memory");\n'
    )


device_function(
    "ldmatrix",
    "template <int Num, bool Trans> void ldmatrix(void* dst, const void* src)",
    ["dst", "src"],
    template=("num", "trans"),
    effects=[Writes("dst"), Reads("src"), Together("warp")],
    ptx=f"""
static_assert(Num == 1 || Num == 2 || Num == 4, "ldmatrix loads 1, 2 or 4 matrices");
uint32_t row = uint32_t(__cvta_generic_to_shared(src));
uint32_t* r = (uint32_t*)dst;
if constexpr (Num == 1) {{
{_loads(1)}}} else if constexpr (Num == 2) {{
{_loads(2)}}} else {{
{_loads(4)}}}
""",
    emulation="emu::ldmatrix(dst, src, Num, Trans);",
    doc="loads 8x8 matrices of 16-bit elements from shared memory into the fragments of a warp",
)

_ELEMENTS = {
    "float16": ("f16", "fp16", 2),
    "bfloat16": ("bf16", "bf16", 2),
    "tfloat32": ("tf32", "float", 4),
    "float32": ("f32", "float", 4),
    "float64": ("f64", "double", 8),
    "int8": ("s8", "int8_t", 1),
    "uint8": ("u8", "uint8_t", 1),
    "int32": ("s32", "int32_t", 4),
    "float8_e4m3fn": ("e4m3", "e4m3", 1),
    "float8_e5m2": ("e5m2", "e5m2", 1),
}


def _mma(shape: tuple[int, int, int], a: str, b: str, c: str, minimum: int, sparse: bool = False) -> None:
    """One variant of mma.sync: A row-major, B column-major, D = A B + C in place.

    Of a sparse A the registers hold what is kept, and `e` the lane's part of where it lies. In a group of four lanes
    the first two give places where the selector is 0, the others where it is 1; all four where k is 64.
    """
    m, n, k = shape
    (a_name, a_type, a_bytes), (b_name, b_type, b_bytes), (c_name, c_type, c_bytes) = (
        _ELEMENTS[a],
        _ELEMENTS[b],
        _ELEMENTS[c],
    )
    # Registers of a lane: 32 bits each, 64 for f64.
    width = 8 if a == "float64" else 4
    a_count, b_count, c_count = (
        m * k * a_bytes // 32 // width // (2 if sparse else 1),
        n * k * b_bytes // 32 // width,
        m * n * c_bytes // 32 // width,
    )
    word, constraint = ("double", "d") if a == "float64" else ("uint32_t", "r")
    c_word, c_constraint = ("float", "f") if c == "float32" else (word, constraint)
    names = [f"%{i}" for i in range(c_count + a_count + b_count + sparse)]
    c_list = ", ".join(names[:c_count])
    a_list = ", ".join(names[c_count : c_count + a_count])
    b_list = ", ".join(names[c_count + a_count : c_count + a_count + b_count])
    places = f", {names[-1]}, %{len(names)}" if sparse else ""
    # Without the order of places mma.sp is slow on sm_90 (PTX ISA, "mma.sp").
    head, prefix = ("mma.sp::ordered_metadata.sync", "mma_sp") if sparse else ("mma.sync", "mma")
    instruction = f"{head}.aligned.m{m}n{n}k{k}.row.col.{c_name}.{a_name}.{b_name}.{c_name}"
    outputs = ", ".join(f'"+{c_constraint}"(C[{i}])' for i in range(c_count))
    inputs = ", ".join(
        [f'"{constraint}"(A[{i}])' for i in range(a_count)]
        + [f'"{constraint}"(B[{i}])' for i in range(b_count)]
        + ['"r"(*e)', '"n"(Selector)'] * sparse
    )
    name = f"{prefix}_m{m}n{n}k{k}_{a_name}_{b_name}_{c_name}"
    device_function(
        name,
        f"{'template <int Selector> ' * sparse}void {name}({c_type}* c, const {a_type}* a, const {b_type}* b"
        f"{', const uint32_t* e' * sparse})",
        ["c", "a", "b", *["e"] * sparse],
        intrinsic=prefix,
        match={"shape": shape, "a": a, "b": b, "c": c},
        template=("selector",) * sparse,
        effects=[Updates("c"), Reads("a"), Reads("b"), *[Reads("e")] * sparse, Together("warp")],
        ptx=f"""
{c_word}* C = ({c_word}*)c;
const {word}* A = (const {word}*)a;
const {word}* B = (const {word}*)b;
asm("{instruction} {{{c_list}}}, {{{a_list}}}, {{{b_list}}}, {{{c_list}}}{places};"
             : {outputs}
             : {inputs});
""",
        emulation=(
            f"emu::{prefix}({m}, {n}, {k}, emu::Element::{a_name}, emu::Element::{b_name}, emu::Element::{c_name}, "
            f"c, a, b, c{', *e, Selector' * sparse});"
        ),
        minimum=minimum,
        doc=f"c += a b for one warp, {m}x{n}x{k}, in registers{', of a sparse a' * sparse}",
    )


MMA_SHAPES: tuple[tuple[tuple[int, int, int], str, str, str, int], ...] = (
    ((16, 8, 8), "float16", "float16", "float32", 75),
    ((16, 8, 8), "float16", "float16", "float16", 75),
    ((16, 8, 16), "float16", "float16", "float32", 80),
    ((16, 8, 16), "float16", "float16", "float16", 80),
    ((16, 8, 8), "bfloat16", "bfloat16", "float32", 80),
    ((16, 8, 16), "bfloat16", "bfloat16", "float32", 80),
    ((16, 8, 4), "tfloat32", "tfloat32", "float32", 80),
    ((16, 8, 8), "tfloat32", "tfloat32", "float32", 80),
    *(((16, 8, k), a, b, "int32", 80) for k in (16, 32) for a in ("int8", "uint8") for b in ("int8", "uint8")),
    *(
        ((16, 8, 32), a, b, "float32", 89)
        for a in ("float8_e4m3fn", "float8_e5m2")
        for b in ("float8_e4m3fn", "float8_e5m2")
    ),
    ((8, 8, 4), "float64", "float64", "float64", 80),
)
"""(shape, type of A, of B, of C, oldest architecture) of every matrix instruction; the smallest k first."""

SPARSE_MMA_SHAPES: tuple[tuple[tuple[int, int, int], str, str, str, int], ...] = (
    ((16, 8, 32), "float16", "float16", "float32", 80),
    ((16, 8, 32), "bfloat16", "bfloat16", "float32", 80),
    ((16, 8, 16), "tfloat32", "tfloat32", "float32", 80),
    *(((16, 8, 64), a, b, "int32", 80) for a in ("int8", "uint8") for b in ("int8", "uint8")),
    *(
        ((16, 8, 64), a, b, "float32", 89)
        for a in ("float8_e4m3fn", "float8_e5m2")
        for b in ("float8_e4m3fn", "float8_e5m2")
    ),
)
"""The same for mma.sp, whose A is sparse; k counts what A leaves out too."""

for _variant in MMA_SHAPES:
    _mma(*_variant)
for _variant in SPARSE_MMA_SHAPES:
    _mma(*_variant, sparse=True)
