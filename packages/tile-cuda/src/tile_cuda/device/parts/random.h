// Random bits: Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011), counted as cuRAND counts: the
// sequence is the counter's upper half, and each block of the lower half gives four numbers.
namespace tile {

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

}  // namespace tile

