// Functions of scalars that mean the same everywhere: one text for the CPU's headers and both CUDA headers. Needs TILE_FN, bit_cast,
// <cmath> and the fixed-width integers; with TILE_ROUNDS_BY_DOUBLES also the operations with a rounding mode.

// Random bits: Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011), counted as cuRAND counts: the
// sequence is the counter's upper half, and each block of the lower half gives four numbers.
TILE_FN uint32_t philox(uint64_t seed, uint64_t sequence, uint64_t place) {
  uint64_t block = place >> 2;
  uint32_t x0 = uint32_t(block), x1 = uint32_t(block >> 32), x2 = uint32_t(sequence), x3 = uint32_t(sequence >> 32);
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int i = 0; i < 10; ++i) {
    uint64_t a = uint64_t(0xD2511F53u) * x0, b = uint64_t(0xCD9E8D57u) * x2;
    x0 = uint32_t(b >> 32) ^ x1 ^ k0;
    x1 = uint32_t(b);
    x2 = uint32_t(a >> 32) ^ x3 ^ k1;
    x3 = uint32_t(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  switch (place & 3) {
    case 0: return x0;
    case 1: return x1;
    case 2: return x2;
    default: return x3;
  }
}

// The bit of a mask that is the offset-th set one from a place on, or 0xffffffff.
TILE_FN uint32_t fns(uint32_t mask, uint32_t base, int32_t offset) {
  if (offset == 0) return mask >> (base & 31) & 1 ? base : 0xffffffffu;
  int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
  for (int bit = int(base); bit >= 0 && bit < 32; bit += step)
    if ((mask >> bit & 1) && --left == 0) return uint32_t(bit);
  return 0xffffffffu;
}

#ifdef TILE_ROUNDS_BY_DOUBLES
// A rounding mode is carried out by looking at what rounding to nearest took away, which double arithmetic gives exactly.
// A result that no operation after it is fused with.
TILE_FN float alone(float x) {
#if defined(__x86_64__)
  __asm__("" : "+x"(x));
#elif defined(__aarch64__)
  __asm__("" : "+w"(x));
#endif
  return x;
}

// A result rounded to nearest, and the sign of what the exact result has more than it: the neighbour that a mode asks for. The mode is
// the second letter of rn, rz, ru and rd.
TILE_FN float directed(float nearest, double rest, const char* mode) {
  if (mode[1] == 'n' || !(rest > 0 || rest < 0)) return nearest;
  bool up = rest > 0 && (mode[1] == 'u' || (mode[1] == 'z' && nearest < 0));
  bool down = rest < 0 && (mode[1] == 'd' || (mode[1] == 'z' && nearest > 0));
  if (!up && !down) return nearest;
  uint32_t bits = bit_cast<uint32_t>(nearest);
  if (nearest == 0) bits = up ? 1u : 0x80000001u;
  else bits = (nearest > 0) == up ? bits + 1 : bits - 1;
  return bit_cast<float>(bits);
}
// What a + b has more than its rounded sum (Knuth).
TILE_FN double lost(double a, double b, double sum) {
  double part = sum - a;
  double rest = (a - (sum - part)) + (b - part);
  return sum - sum == 0 ? rest : 0;
}
// -0 where two parts of different signs, or two negative zeros, cancel while rounding down.
TILE_FN float cancelled(float found, double a, double b, const char* mode) {
  return mode[1] == 'd' && found == 0 && a + b == 0 && (std::signbit(a) || std::signbit(b)) ? -0.0f : found;
}
TILE_FN float ieee_add(float a, float b, const char* mode) {
  float nearest = alone(a + b);
  double sum = double(a) + double(b), rest = lost(a, b, sum);
  return cancelled(directed(nearest, (sum - double(nearest)) + rest, mode), a, b, mode);
}
TILE_FN float ieee_sub(float a, float b, const char* mode) { return ieee_add(a, -b, mode); }
TILE_FN float ieee_mul(float a, float b, const char* mode) {
  float nearest = alone(a * b);
  return directed(nearest, double(a) * double(b) - double(nearest), mode);
}
TILE_FN float ieee_fma(float a, float b, float c, const char* mode) {
  float nearest = ::fmaf(a, b, c);
  double product = double(a) * double(b), sum = product + double(c), rest = lost(product, c, sum);
  return cancelled(directed(nearest, (sum - double(nearest)) + rest, mode), product, c, mode);
}
TILE_FN float ieee_div(float a, float b, const char* mode) {
  float nearest = alone(a / b);
  double rest = double(a) - double(nearest) * double(b);
  return directed(nearest, std::signbit(double(b)) ? -rest : rest, mode);
}
TILE_FN float ieee_sqrt(float x, const char* mode) {
  float nearest = ::sqrtf(x);
  return directed(nearest, double(x) - double(nearest) * double(nearest), mode);
}
TILE_FN float ieee_rsqrt(float x, const char*) { return float(1.0 / ::sqrt(double(x))); }
#endif
