"""Atomic updates: one name for every element type; the instruction where there is one, else a compare-and-swap loop."""

from __future__ import annotations

from .row import Reads, Updates, Writes, device_function

__all__ = ["ATOMIC_OPERATORS"]

ATOMIC_OPERATORS = {"add": "sum", "max": "max", "min": "min", "and": "bitand", "or": "bitor", "xor": "bitxor"}
"""IR's name of an update → name of its operator in the headers."""

_WIDE = "word8"

device_function(
    "atomic_cas",
    "template <class T> T atomic_cas(T* address, T expected, T desired)",
    ["address", "expected", "desired"],
    result="given",
    effects=[Updates("address", "atomic")],
    ptx=f"""
static_assert(sizeof(T) >= 2, "compare and swap of 2, 4 or 8 bytes");
if constexpr (sizeof(T) == 8)
  return bit_cast<T>(atomicCAS(({_WIDE}*)address, bit_cast<{_WIDE}>(expected), bit_cast<{_WIDE}>(desired)));
else if constexpr (sizeof(T) == 4)
  return bit_cast<T>(atomicCAS((unsigned*)address, bit_cast<unsigned>(expected), bit_cast<unsigned>(desired)));
else
  return bit_cast<T>(
      atomicCAS((unsigned short*)address, bit_cast<unsigned short>(expected), bit_cast<unsigned short>(desired)));
""",
    emulation="return emu::atomic_compare_exchange(address, expected, desired);",
    doc="stores `desired` where `expected` is; the value before",
)
# Not an intrinsic of its own meaning for kernels: what the updates below fall back to.
device_function(
    "atomic_combine",
    "template <class Op, class T> T atomic_combine(T* address, T value)",
    ["address", "value"],
    template=("op",),
    result="given",
    effects=[Updates("address", "atomic")],
    ptx="""
if constexpr (sizeof(T) == 1) {
  // The byte's 32-bit word is what can be swapped.
  unsigned* word = (unsigned*)((unsigned long long)address & ~3ull);
  unsigned shift = unsigned((unsigned long long)address & 3) * 8, old = *(volatile unsigned*)word, seen;
  T before;
  do {
    seen = old;
    before = bit_cast<T>(uint8_t(seen >> shift));
    unsigned next = unsigned(bit_cast<uint8_t>(Op()(before, value)));
    old = atomicCAS(word, seen, (seen & ~(0xffu << shift)) | next << shift);
  } while (old != seen);
  return before;
} else {
  T old = bit_cast<T>(typename word_of<sizeof(T)>::type(*(volatile typename word_of<sizeof(T)>::type*)address)), seen;
  do {
    seen = old;
    old = atomic_cas(address, seen, Op()(seen, value));
  } while (!same_bits(old, seen));
  return old;
}
""",
    emulation="return emu::atomic_update(address, [=](T old) { return Op()(old, value); });",
    doc="applies an operator of the headers",
)


def _update(name: str, device: str) -> None:
    op = ATOMIC_OPERATORS.get(name, "exchange")
    device_function(
        f"atomic_{name}",
        f"template <class T> T atomic_{name}(T* address, T value)",
        ["address", "value"],
        result="given",
        effects=[Updates("address", "atomic")],
        ptx=device,
        emulation=f"return atomic_combine<op_{op}>(address, value);",
        doc=f"{name} of one element, indivisibly; the value before",
    )


_update(
    "add",
    f"""
if constexpr (same<T, int32_t> || same<T, uint32_t> || same<T, float> || same<T, double>)
  return atomicAdd(address, value);
else if constexpr (sizeof(T) == 8) return T(atomicAdd(({_WIDE}*)address, {_WIDE}(value)));
else if constexpr (same<T, fp16>) {{
  T old;
  asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(old.bits) : "l"(address), "h"(value.bits) : "memory");
  return old;
}}
#if TILE_ARCH >= 90
else if constexpr (same<T, bf16>) {{
  T old;
  asm volatile("atom.add.noftz.bf16 %0, [%1], %2;" : "=h"(old.bits) : "l"(address), "h"(value.bits) : "memory");
  return old;
}}
#endif
else return atomic_combine<op_sum>(address, value);
""",
)
for _name, _builtin in (("max", "atomicMax"), ("min", "atomicMin")):
    _update(
        _name,
        f"""
if constexpr (same<T, int32_t> || same<T, uint32_t>) return {_builtin}(address, value);
else if constexpr (!is_float<T> && sizeof(T) == 8 && is_signed<T>)
  return T({_builtin}((long long*)address, (long long)value));
else if constexpr (!is_float<T> && sizeof(T) == 8) return T({_builtin}(({_WIDE}*)address, {_WIDE}(value)));
else return atomic_combine<op_{_name}>(address, value);
""",
    )
for _name, _builtin in (("and", "atomicAnd"), ("or", "atomicOr"), ("xor", "atomicXor")):
    _update(
        _name,
        f"""
if constexpr (sizeof(T) == 4) return T({_builtin}((unsigned*)address, unsigned(value)));
else if constexpr (sizeof(T) == 8) return T({_builtin}(({_WIDE}*)address, {_WIDE}(value)));
else return atomic_combine<op_bit{_name}>(address, value);
""",
    )
_update(
    "exch",
    f"""
if constexpr (sizeof(T) == 4) return bit_cast<T>(atomicExch((unsigned*)address, bit_cast<unsigned>(value)));
else if constexpr (sizeof(T) == 8) return bit_cast<T>(atomicExch(({_WIDE}*)address, bit_cast<{_WIDE}>(value)));
else return atomic_combine<op_exchange>(address, value);
""",
)
_WORDS = {1: ("u8", "h", "uint16_t"), 2: ("b16", "h", "uint16_t"), 4: ("b32", "r", "uint32_t"), 8: ("b64", "l", _WIDE)}


def _relaxed(load: bool) -> str:
    """The plain access that other threads' accesses may race with, for each size (PTX ISA, ld.relaxed, st.relaxed)."""
    lines = []
    for size, (suffix, constraint, ctype) in _WORDS.items():
        head = f"{'else ' if lines else ''}if constexpr (sizeof(T) == {size}) {{"
        word = f"uint{size * 8}_t" if size < 8 else _WIDE
        if load:
            lines += [
                head,
                f"  {ctype} held;",
                f'  asm volatile("ld.relaxed.gpu.{suffix} %0, [%1];"',
                f'               : "={constraint}"(held) : "l"(address) : "memory");',
                f"  return bit_cast<T>({word}(held));",
            ]
        else:
            lines += [
                head,
                f'  asm volatile("st.relaxed.gpu.{suffix} [%0], %1;"',
                f'               : : "l"(address), "{constraint}"({ctype}(bit_cast<{word}>(value))) : "memory");',
            ]
        lines.append("}")
    return "\n".join(lines)


device_function(
    "atomic_load",
    "template <class T> T atomic_load(const T* address)",
    ["address"],
    result="given",
    effects=[Reads("address", "atomic")],
    ptx=_relaxed(True),
    emulation="return emu::atomic_load(address);",
    doc="one element, which other threads may be updating",
)
device_function(
    "atomic_store",
    "template <class T> void atomic_store(T* address, T value)",
    ["address", "value"],
    effects=[Writes("address", "atomic")],
    ptx=_relaxed(False),
    emulation="emu::atomic_store(address, value);",
    doc="sets one element, which other threads may be reading",
)
device_function(
    "atomic_add_vec",
    "template <class T, int N> void atomic_add_vec(T* address, vec<T, N> value)",
    ["address", "value"],
    effects=[Updates("address", "atomic")],
    ptx="""
if constexpr (same<T, fp16> && N % 2 == 0) {
  TILE_UNROLL
  for (int i = 0; i < N; i += 2) {
    uint32_t pair = bit_cast<uint32_t>(vec<T, 2>{value.v[i], value.v[i + 1]}), old;
    asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(old) : "l"(address + i), "r"(pair) : "memory");
  }
  return;
}
#if TILE_ARCH >= 90
if constexpr (same<T, bf16> && N % 2 == 0) {
  TILE_UNROLL
  for (int i = 0; i < N; i += 2) {
    uint32_t pair = bit_cast<uint32_t>(vec<T, 2>{value.v[i], value.v[i + 1]}), old;
    asm volatile("atom.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(old) : "l"(address + i), "r"(pair) : "memory");
  }
  return;
}
if constexpr (same<T, float> && (N == 2 || N == 4)) {
  // Vectors of floats are added in global memory only.
  if (__isGlobal(address)) {
    if constexpr (N == 2)
      asm volatile("red.global.add.v2.f32 [%0], {%1, %2};"
                   : : "l"(address), "f"(value.v[0]), "f"(value.v[1]) : "memory");
    else
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                   : : "l"(address), "f"(value.v[0]), "f"(value.v[1]), "f"(value.v[2]), "f"(value.v[3]) : "memory");
    return;
  }
}
#endif
TILE_UNROLL
for (int i = 0; i < N; ++i) atomic_add(address + i, value.v[i]);
""",
    emulation="for (int i = 0; i < N; ++i) atomic_add(address + i, value.v[i]);",
    doc="adds each lane of a vector to its element; aligned to the vector's size",
)
