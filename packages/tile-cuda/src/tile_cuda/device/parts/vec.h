// vec<T, N>: N values of one type, as vectorised loops of the kernel use them; a value in registers, moved to and from memory in accesses
// of up to 16 bytes.
namespace tile {

template <class T, int N>
struct vec {
  T v[N];
  TILE_MEMBER T& operator[](int i) { return v[i]; }
  TILE_MEMBER T operator[](int i) const { return v[i]; }
};

// Lanes of four bits lie two a byte, as in memory.
template <class T, int N>
struct nibble_lanes {
  static_assert(N % 2 == 0, "elements of four bits come in pairs");
  uint8_t byte[N / 2];
  TILE_MEMBER typename nibbles<T, false>::reference operator[](int i) { return {&byte[i / 2], i % 2 * 4}; }
  TILE_MEMBER T operator[](int i) const { return T::from(byte[i / 2] >> (i % 2 * 4) & 15); }
};
#define TILE_NIBBLE_VECTOR(T)                                   \
  template <int N>                                              \
  struct alignas(N % 8 == 0 ? 4 : N % 4 == 0 ? 2 : 1) vec<T, N> {                \
    nibble_lanes<T, N> v;                                       \
    TILE_MEMBER T operator[](int i) const { return v[i]; }      \
  };
TILE_NIBBLE_VECTOR(i4)
TILE_NIBBLE_VECTOR(u4)
TILE_NIBBLE_VECTOR(e2m1)
#undef TILE_NIBBLE_VECTOR

template <class T, int N>
TILE_FN vec<T, N> broadcast(T x) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = x;
  return r;
}
template <int N>
TILE_FN vec<float, N> to_tf32(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = to_tf32(x.v[i]);
  return x;
}
// base, base + stride, …
template <class T, int N>
TILE_FN vec<T, N> iota(T base, T stride) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = T(base + T(i) * stride);
  return r;
}

// ---- memory: load and store want the alignment of the whole vector (16 bytes when it is longer) ---------------------------------

template <int Bytes> struct word_of;
template <> struct word_of<1> { typedef unsigned char type; };
template <> struct word_of<2> { typedef word2 type; };
template <> struct word_of<4> { typedef word4 type; };
template <> struct word_of<8> { typedef word8 type; };
template <> struct word_of<16> { typedef word16 type; };

template <class T, int N>
TILE_FN vec<T, N> load(const T* p) {
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  static_assert(bytes % word == 0 && (word & (word - 1)) == 0, "a vector access is 1, 2, 4, 8 or a multiple of 16 bytes");
  struct words { typename word_of<word>::type w[bytes / word]; } r;
  check_alignment(p, word);
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) r.w[i] = ((const typename word_of<word>::type*)p)[i];
  return bit_cast<vec<T, N>>(r);
}
template <class T, int N>
TILE_FN void store(T* p, vec<T, N> x) {
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  static_assert(bytes % word == 0 && (word & (word - 1)) == 0, "a vector access is 1, 2, 4, 8 or a multiple of 16 bytes");
  struct words { typename word_of<word>::type w[bytes / word]; };
  words r = bit_cast<words>(x);
  check_alignment(p, word);
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) ((typename word_of<word>::type*)p)[i] = r.w[i];
}
// All lanes or none; zeros for none.
template <class T, int N>
TILE_FN vec<T, N> load_if(bool predicate, const T* p) {
  return predicate ? load<T, N>(p) : broadcast<T, N>(T(0));
}
template <class T, int N>
TILE_FN void store_if(bool predicate, T* p, vec<T, N> x) {
  if (predicate) store(p, x);
}
// Lane by lane: registers, strides, lanes that are off (they read as 0).
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather(P p, I stride) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = p[i * stride];
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter(P p, I stride, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) p[i * stride] = x.v[i];
}
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather_if(vec<bool, N> mask, P p, I stride) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = mask.v[i] ? p[i * stride] : T(0);
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter_if(vec<bool, N> mask, P p, I stride, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i)
    if (mask.v[i]) p[i * stride] = x.v[i];
}
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather_at(P p, vec<I, N> index) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = p[index.v[i]];
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter_at(P p, vec<I, N> index, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) p[index.v[i]] = x.v[i];
}
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather_at_if(vec<bool, N> mask, P p, vec<I, N> index) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = mask.v[i] ? p[index.v[i]] : T(0);
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter_at_if(vec<bool, N> mask, P p, vec<I, N> index, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i)
    if (mask.v[i]) p[index.v[i]] = x.v[i];
}

// Elements of four bits: as the bytes that hold them where the first one starts a byte.
template <class T, int N, bool V>
TILE_FN vec<T, N> load(nibbles<T, V> p) {
  if (p.index & 1) return gather<T, N>(p, 1);
  return bit_cast<vec<T, N>>(load<uint8_t, N / 2>(p.bytes()));
}
template <class T, int N, bool V>
TILE_FN void store(nibbles<T, V> p, vec<T, N> x) {
  if (p.index & 1) scatter(p, 1, x);
  else store(p.bytes(), bit_cast<vec<uint8_t, N / 2>>(x));
}
template <class T, int N, bool V>
TILE_FN vec<T, N> load_if(bool predicate, nibbles<T, V> p) {
  return predicate ? load<T, N>(p) : broadcast<T, N>(T(0));
}
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
// Two fp16 or bf16 in a register: each operation rounds once, as the way through fp32 does.
template <class T, int N>
TILE_FN uint32_t pair_at(vec<T, N> x, int i) {
  return bit_cast<uint32_t>(vec<T, 2>{x.v[i], x.v[i + 1]});
}
template <class T, int N>
TILE_FN void put_pair(vec<T, N>& x, int i, uint32_t pair) {
  const vec<T, 2> two = bit_cast<vec<T, 2>>(pair);
  x.v[i] = two.v[0];
  x.v[i + 1] = two.v[1];
}
template <class T>
TILE_FN uint32_t fma_pair(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r;
  if constexpr (same<T, fp16>) asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  else asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
#define TILE_PAIRS(OPERATOR, F16, BF16)                                                              \
  template <int N>                                                                                   \
  TILE_FN vec<fp16, N> operator OPERATOR(vec<fp16, N> a, vec<fp16, N> b) {                           \
    static_assert(N % 2 == 0, "pairs");                                                              \
    vec<fp16, N> r;                                                                                  \
    TILE_UNROLL                                                                                      \
    for (int i = 0; i < N; i += 2) {                                                                 \
      uint32_t pair;                                                                                 \
      asm(F16 " %0, %1, %2;" : "=r"(pair) : "r"(pair_at(a, i)), "r"(pair_at(b, i)));                 \
      put_pair(r, i, pair);                                                                          \
    }                                                                                                \
    return r;                                                                                        \
  }                                                                                                  \
  template <int N>                                                                                   \
  TILE_FN vec<bf16, N> operator OPERATOR(vec<bf16, N> a, vec<bf16, N> b) {                           \
    vec<bf16, N> r;                                                                                  \
    TILE_UNROLL                                                                                      \
    for (int i = 0; i < N; i += 2) {                                                                 \
      const uint32_t x = pair_at(a, i), y = pair_at(b, i);                                           \
      put_pair(r, i, BF16);                                                                          \
    }                                                                                                \
    return r;                                                                                        \
  }
TILE_PAIRS(+, "add.f16x2", fma_pair<bf16>(x, 0x3f803f80u, y))
TILE_PAIRS(-, "sub.f16x2", fma_pair<bf16>(y, 0xbf80bf80u, x))
TILE_PAIRS(*, "mul.f16x2", fma_pair<bf16>(x, y, 0x80008000u))
#undef TILE_PAIRS
#endif

// ---- operators ------------------------------------------------------------------------------------------------------------------

#define TILE_LANES(OPERATOR, RESULT)                                 \
  template <class T, int N>                                          \
  TILE_FN vec<RESULT, N> operator OPERATOR(vec<T, N> a, vec<T, N> b) { \
    vec<RESULT, N> r;                                                \
    TILE_UNROLL                                                      \
    for (int i = 0; i < N; ++i) r.v[i] = RESULT(T(a[i]) OPERATOR T(b[i])); \
    return r;                                                        \
  }
TILE_LANES(+, T)
TILE_LANES(-, T)
TILE_LANES(*, T)
TILE_LANES(/, T)
TILE_LANES(&, T)
TILE_LANES(|, T)
TILE_LANES(^, T)
TILE_LANES(==, bool)
TILE_LANES(!=, bool)
TILE_LANES(<, bool)
TILE_LANES(<=, bool)
TILE_LANES(>, bool)
TILE_LANES(>=, bool)
#undef TILE_LANES

#define TILE_LANES(OPERATOR)                                \
  template <class T, int N>                                 \
  TILE_FN vec<T, N> operator OPERATOR(vec<T, N> a) {        \
    vec<T, N> r;                                            \
    TILE_UNROLL                                             \
    for (int i = 0; i < N; ++i) r.v[i] = T(OPERATOR T(a[i])); \
    return r;                                               \
  }
TILE_LANES(-)
TILE_LANES(~)
TILE_LANES(!)
#undef TILE_LANES

template <class T>
TILE_FN T select(bool condition, T a, T b) {
  return condition ? a : b;
}
template <class T, int N>
TILE_FN vec<T, N> select(vec<bool, N> condition, vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = condition.v[i] ? a.v[i] : b.v[i];
  return r;
}

// Two floats at once where the machine has an instruction for it; the first goes to the low half.
template <class To>
TILE_FN vec<To, 2> convert_pair(float low, float high) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  if constexpr (same<To, fp16>) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return bit_cast<vec<To, 2>>(r);
  }
  if constexpr (same<To, bf16>) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return bit_cast<vec<To, 2>>(r);
  }
#endif
  return vec<To, 2>{To(low), To(high)};
}
// Two small numbers in the low bits of a word's halves as two fp16 or bf16: rows of the table.
template <bool Signed> TILE_FN uint32_t nibbles_fp16(uint32_t word);
TILE_FN uint32_t e2m1_fp16(uint32_t word);
TILE_FN uint32_t e4m3_fp16(uint32_t word);
TILE_FN uint32_t e5m2_fp16(uint32_t word);
#if TILE_ARCH >= 80
template <bool Signed> TILE_FN uint32_t nibbles_bf16(uint32_t word);
TILE_FN uint32_t e2m1_bf16(uint32_t word);
#endif
template <class From, class To> constexpr int decoded_bits =
    (is_nibble<From> || same<From, e2m1>) && (same<To, fp16> || (TILE_ARCH >= 80 && same<To, bf16>)) ? 4
    : (same<From, e4m3> || same<From, e5m2>) && same<To, fp16> ? 8 : 0;
template <class From, class To>
TILE_FN uint32_t decode_pair(uint32_t word) {
  if constexpr (same<From, e4m3>) return e4m3_fp16(word);
  else if constexpr (same<From, e5m2>) return e5m2_fp16(word);
  else if constexpr (same<To, fp16>) {
    if constexpr (same<From, e2m1>) return e2m1_fp16(word);
    else return nibbles_fp16<same<From, i4>>(word);
  }
#if TILE_ARCH >= 80
  else if constexpr (same<From, e2m1>) return e2m1_bf16(word);
  else return nibbles_bf16<same<From, i4>>(word);
#endif
}
template <class To, class From, int N>
TILE_FN vec<To, N> convert(vec<From, N> x) {
  vec<To, N> r;
  if constexpr (decoded_bits<From, To> != 0 && N * decoded_bits<From, To> % 32 == 0) {
    // A word at a time: its numbers are taken in pairs that lie half a word apart.
    constexpr int bits = decoded_bits<From, To>, in_word = 32 / bits;
    struct words { uint32_t w[N / in_word]; };
    const words packed = bit_cast<words>(x);
    TILE_UNROLL
    for (int i = 0; i < N / in_word; ++i) {
      TILE_UNROLL
      for (int j = 0; j < in_word / 2; ++j) {
        const vec<To, 2> pair = bit_cast<vec<To, 2>>(decode_pair<From, To>(packed.w[i] >> (j * bits)));
        r.v[i * in_word + j] = pair.v[0];
        r.v[i * in_word + j + in_word / 2] = pair.v[1];
      }
    }
  } else if constexpr (N % 2 == 0 && same<From, float> && (same<To, fp16> || same<To, bf16>)) {
    TILE_UNROLL
    for (int i = 0; i < N; i += 2) {
      vec<To, 2> pair = convert_pair<To>(x.v[i], x.v[i + 1]);
      r.v[i] = pair.v[0];
      r.v[i + 1] = pair.v[1];
    }
  } else {
    TILE_UNROLL
    for (int i = 0; i < N; ++i) r.v[i] = convert<To>(x[i]);
  }
  return r;
}
// Lane by lane with a rounding mode, saturation or not, and random bits.
template <class To, rounding R, bool Saturate, class From, int N>
TILE_FN auto convert_by(vec<From, N> x) {
  vec<decltype(convert_by<To, R, Saturate>(From(x[0]))), N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = convert_by<To, R, Saturate>(From(x[i]));
  return r;
}
template <class To, rounding R, bool Saturate, class From, int N>
TILE_FN auto convert_by(vec<From, N> x, vec<uint32_t, N> random) {
  vec<decltype(convert_by<To, R, Saturate>(From(x[0]))), N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = convert_by<To, R, Saturate>(From(x[i]), random.v[i]);
  return r;
}
// Any bits as any type of as many: N lanes of To, or a scalar.
template <class To, int N, class From>
TILE_FN auto reinterpret(From x) {
  if constexpr (N > 1) return bit_cast<vec<To, N>>(x);
  else if constexpr (is_nibble<From> || same<From, e2m1>) return To::from(x.nibble());
  else return bit_cast<To>(x);
}

// Scalars and vectors end to end, then a choice of lanes.
template <class T, int A, int B>
TILE_FN vec<T, A + B> join(vec<T, A> a, vec<T, B> b) {
  vec<T, A + B> r;
  TILE_UNROLL
  for (int i = 0; i < A; ++i) r.v[i] = a.v[i];
  TILE_UNROLL
  for (int i = 0; i < B; ++i) r.v[A + i] = b.v[i];
  return r;
}
template <int... Index, class T, int N>
TILE_FN vec<T, sizeof...(Index)> shuffle(vec<T, N> x) {
  constexpr int from[] = {Index...};
  vec<T, sizeof...(Index)> r;
  TILE_UNROLL
  for (int i = 0; i < int(sizeof...(Index)); ++i) r.v[i] = x.v[from[i]];
  return r;
}

}  // namespace tile
