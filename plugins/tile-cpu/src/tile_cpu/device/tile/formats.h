// Written by `python -m tile_cpu.device` from tile_core.codegen and its table of formats: edit those.
#pragma once

namespace tile {

// The format of a type; tf32 names the one that is held in a float.
struct tf32 {};
template <class T> struct format_of { using type = typename T::format; };
template <> struct format_of<fp16> { using type = fp16_format; };
template <> struct format_of<bf16> { using type = bf16_format; };
template <> struct format_of<tf32> { using type = tf32_format; };
template <> struct format_of<float> { using type = fp32_format; };
template <> struct format_of<double> { using type = fp64_format; };

template <class To>
TILE_FN auto from_bits(uint64_t bits) {
  if constexpr (same_type<To, tf32>::is) return bit_cast<float>(uint32_t(bits << 13));
  else if constexpr (sizeof(To) == 8) return bit_cast<To>(bits);
  else if constexpr (sizeof(To) == 4) return bit_cast<To>(uint32_t(bits));
  else if constexpr (sizeof(To) == 2) return bit_cast<To>(uint16_t(bits));
  else return bit_cast<To>(uint8_t(bits));
}

}  // namespace tile
