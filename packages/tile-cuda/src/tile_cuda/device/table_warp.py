"""Device functions of a warp and of a block: shuffles, votes, reductions, scans; and fast mathematics."""

from __future__ import annotations

from .row import Meet, Together, Updates, device_function

__all__ = ["FAST_MATH", "REDUCE_OPERATORS"]

# ---- shuffles: values of 1 to 8 bytes; what a lane without a source gets is its own value

for _name, _kind, _operand in (
    ("shfl", "index", "lane"),
    ("shfl_up", "up", "delta"),
    ("shfl_down", "down", "delta"),
    ("shfl_xor", "exclusive_or", "lane_mask"),
):
    _builtin = f"__{_name}_sync"
    device_function(
        _name,
        f"template <class T> T {_name}(T value, int {_operand}, int width = 32, uint32_t mask = 0xffffffffu)",
        ["value", _operand, "width", "mask"],
        optional=2,
        result="same",
        effects=[Together("warp")],
        ptx=f"""
if constexpr (sizeof(T) == 8)
  return bit_cast<T>({_builtin}(mask, bit_cast<unsigned long long>(value), {_operand}, width));
else if constexpr (sizeof(T) == 4) return bit_cast<T>({_builtin}(mask, bit_cast<uint32_t>(value), {_operand}, width));
else if constexpr (sizeof(T) == 2)
  return bit_cast<T>(uint16_t({_builtin}(mask, uint32_t(bit_cast<uint16_t>(value)), {_operand}, width)));
else return bit_cast<T>(uint8_t({_builtin}(mask, uint32_t(bit_cast<uint8_t>(value)), {_operand}, width)));
""",
        emulation=f"return emu::shuffle(mask, value, emu::Shuffle::{_kind}, uint32_t({_operand}), uint32_t(width));",
        doc=f"another lane's value ({_kind})",
    )

# ---- votes

device_function(
    "ballot",
    "uint32_t ballot(bool predicate, uint32_t mask = 0xffffffffu)",
    ["predicate", "mask"],
    optional=1,
    result="uint32",
    effects=[Together("warp")],
    ptx="return __ballot_sync(mask, predicate);",
    emulation="return emu::ballot(mask, predicate);",
    doc="the lanes whose predicate is true, a bit each",
)
for _vote in ("any", "all"):
    device_function(
        f"{_vote}_sync",
        f"bool {_vote}_sync(bool predicate, uint32_t mask = 0xffffffffu)",
        ["predicate", "mask"],
        optional=1,
        result="bool",
        effects=[Together("warp")],
        ptx=f"return __{_vote}_sync(mask, predicate) != 0;",
        emulation=f"return emu::{_vote}(mask, predicate);",
        doc=f"whether {_vote} lane's predicate is true" if _vote == "any" else "whether every lane's predicate is true",
    )
device_function(
    "match_any",
    "template <class T> uint32_t match_any(T value, uint32_t mask = 0xffffffffu)",
    ["value", "mask"],
    optional=1,
    result="uint32",
    effects=[Together("warp")],
    ptx="""
if constexpr (sizeof(T) == 8) return __match_any_sync(mask, bit_cast<unsigned long long>(value));
else if constexpr (sizeof(T) == 4) return __match_any_sync(mask, bit_cast<uint32_t>(value));
else return __match_any_sync(mask, uint32_t(value));
""",
    emulation="""
if constexpr (sizeof(T) == 8) return emu::match_any(mask, bit_cast<uint64_t>(value));
else if constexpr (sizeof(T) == 4) return emu::match_any(mask, bit_cast<uint32_t>(value));
else return emu::match_any(mask, uint32_t(value));
""",
    doc="the lanes with the same value, a bit each",
)
device_function(
    "match_all",
    "template <class T> uint32_t match_all(T value, uint32_t mask = 0xffffffffu)",
    ["value", "mask"],
    optional=1,
    result="uint32",
    effects=[Together("warp")],
    ptx="""
int same;
if constexpr (sizeof(T) == 8) return __match_all_sync(mask, bit_cast<unsigned long long>(value), &same);
else if constexpr (sizeof(T) == 4) return __match_all_sync(mask, bit_cast<uint32_t>(value), &same);
else return __match_all_sync(mask, uint32_t(value), &same);
""",
    emulation="""
int same;
if constexpr (sizeof(T) == 8) return emu::match_all(mask, bit_cast<uint64_t>(value), &same);
else if constexpr (sizeof(T) == 4) return emu::match_all(mask, bit_cast<uint32_t>(value), &same);
else return emu::match_all(mask, uint32_t(value), &same);
""",
    doc="the lanes, where all of them have the same value, else 0",
)
device_function(
    "activemask",
    "uint32_t activemask()",
    result="uint32",
    effects=[],
    ptx="return __activemask();",
    emulation="return emu::active_mask();",
    doc="the lanes that execute together now",
)

# ---- reductions and scans

REDUCE_OPERATORS = ("sum", "prod", "max", "min", "bitand", "bitor", "bitxor")
"""What warp_reduce_, warp_scan_ and block_reduce_ end with."""

for _op in REDUCE_OPERATORS:
    _body = f"""
TILE_UNROLL
for (int step = width / 2; step > 0; step /= 2) value = op_{_op}()(value, shfl_xor(value, step, width, mask));
return value;
"""
    device_function(
        f"warp_reduce_{_op}",
        f"template <class T> T warp_reduce_{_op}(T value, int width = 32, uint32_t mask = 0xffffffffu)",
        ["value", "width", "mask"],
        optional=2,
        result="same",
        effects=[Together("warp")],
        ptx=_body,
        emulation=_body,
        doc=f"{_op} over each `width` neighbouring lanes (a power of two); every lane gets it",
    )
    _body = f"""
int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
TILE_UNROLL
for (int step = 1; step < width; step *= 2) {{
  T before = shfl_up(value, step, width, mask);
  if (place >= step) value = op_{_op}()(before, value);
}}
return value;
"""
    device_function(
        f"warp_scan_{_op}",
        f"template <class T> T warp_scan_{_op}(T value, int width = 32, uint32_t mask = 0xffffffffu)",
        ["value", "width", "mask"],
        optional=2,
        result="same",
        effects=[Together("warp")],
        ptx=_body,
        emulation=_body,
        doc=f"inclusive {_op} over the lanes before, within each `width` neighbouring lanes",
    )
    _body = f"""
int threads = int(blockDim.x * blockDim.y * blockDim.z);
int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
bool warps = threads % 32 == 0;
int count = warps ? threads / 32 : threads;
if (warps) value = warp_reduce_{_op}(value);
tile::sync_threads(where);  // the scratch may still be read for the reduction before
if (!warps) scratch[thread] = value;
else if (thread % 32 == 0) scratch[thread / 32] = value;
tile::sync_threads(where);
value = scratch[0];
for (int i = 1; i < count; ++i) value = op_{_op}()(value, scratch[i]);
return value;
"""
    device_function(
        f"block_reduce_{_op}",
        f"template <class T> T block_reduce_{_op}(site where, T value, T* scratch)",
        ["value", "scratch"],
        result="same",
        effects=[Updates("scratch"), Meet("block")],
        ptx=_body,
        emulation=_body,
        doc=f"{_op} over all threads of the block; scratch: an element a warp, or a thread when the threads are no "
        "multiple of 32",
    )

# ---- fast mathematics: the special function unit's results, for fp32

FAST_MATH: dict[str, tuple[str, str]] = {
    "exp": ("__expf(x)", "::expf(x)"),
    "exp10": ("__exp10f(x)", "::powf(10.0f, x)"),
    "log": ("__logf(x)", "::logf(x)"),
    "log2": ("__log2f(x)", "::log2f(x)"),
    "log10": ("__log10f(x)", "::log10f(x)"),
    "sin": ("__sinf(x)", "::sinf(x)"),
    "cos": ("__cosf(x)", "::cosf(x)"),
    "tan": ("__tanf(x)", "::tanf(x)"),
}
_APPROXIMATE = {
    "exp2": ("ex2.approx.ftz.f32", "::exp2f(x)"),
    "tanh": ("tanh.approx.f32", "::tanhf(x)"),
    "rcp": ("rcp.approx.ftz.f32", "1.0f / x"),
    "sqrt": ("sqrt.approx.ftz.f32", "::sqrtf(x)"),
    "rsqrt": ("rsqrt.approx.ftz.f32", "1.0f / ::sqrtf(x)"),
}
for _name, (_instruction, _host) in _APPROXIMATE.items():
    FAST_MATH[_name] = (
        f'[](float v) {{ float r; asm("{_instruction} %0, %1;" : "=f"(r) : "f"(v)); return r; }}(x)',
        _host,
    )
for _name, (_device, _host) in FAST_MATH.items():
    device_function(
        f"fast_{_name}",
        f"float fast_{_name}(float x)",
        ["x"],
        result="same",
        pure=True,
        ptx=f"return {_device};",
        emulation=f"return {_host};",
        doc=f"{_name}, approximate",
    )
device_function(
    "fast_div",
    "float fast_div(float a, float b)",
    ["a", "b"],
    result="same",
    pure=True,
    ptx="return __fdividef(a, b);",
    emulation="return a / b;",
    doc="a / b, approximate",
)
