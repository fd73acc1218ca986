// Matrix instructions of a warp, with the fragment layouts of PTX ISA section "Matrix multiply-accumulate operation using mma instruction".
// The lanes' operands are gathered by a collective, computed once, and scattered.
#pragma once
#include <cmath>

#include "sync.h"

namespace emu {

// ---- element types --------------------------------------------------------------------------------------------------------------
static double decode_small(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t mantissa = bits & ((1u << mantissa_bits) - 1), top = (1u << exponent_bits) - 1;
    uint32_t exponent = bits >> mantissa_bits & top;
    double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
    if (exponent == top && has_infinity) return mantissa ? NAN : sign * INFINITY;
    if (exponent == top && mantissa == (1u << mantissa_bits) - 1) return NAN;  // e4m3: only this pattern
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
}
static uint32_t encode_small(double value, int exponent_bits, int mantissa_bits, bool has_infinity) {
    uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0, top = (1u << exponent_bits) - 1;
    if (std::isnan(value)) return sign | top << mantissa_bits | (has_infinity ? 1u << (mantissa_bits - 1) : (1u << mantissa_bits) - 1);
    double magnitude = std::fabs(value);
    int bias = (1 << (exponent_bits - 1)) - 1, exponent = 0;
    uint32_t largest = has_infinity ? (top << mantissa_bits) - 1 : (top << mantissa_bits | ((1u << mantissa_bits) - 2));
    if (magnitude == 0) return sign;
    std::frexp(magnitude, &exponent);
    int scale = std::max(exponent - 1, 1 - bias) - mantissa_bits;
    double units = std::nearbyint(std::ldexp(magnitude, -scale));  // nearest even, the mode programs start in
    int biased = scale + mantissa_bits + bias;
    uint64_t bits = units >= std::ldexp(1.0, mantissa_bits)
                        ? (static_cast<uint64_t>(biased) << mantissa_bits) + (static_cast<uint64_t>(units) - (1u << mantissa_bits))
                        : static_cast<uint64_t>(units);
    if (std::isinf(magnitude) || bits > largest) return sign | (has_infinity ? top << mantissa_bits : largest);  // fp8 saturates
    return sign | static_cast<uint32_t>(bits);
}
static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

// All values of the narrow types: a decode is a look-up (a gemm decodes 384 operands an instruction).
template <int kExponent, int kMantissa, bool kInfinity>
static const std::vector<float>& all_values() {
    constexpr uint32_t count = 1u << (1 + kExponent + kMantissa);
    static const std::vector<float> values = [] {
        std::vector<float> all(count);
        for (uint32_t i = 0; i < count; ++i) all[i] = static_cast<float>(decode_small(i, kExponent, kMantissa, kInfinity));
        return all;
    }();
    return values;
}
static const std::vector<float>& half_values() { return all_values<5, 10, true>(); }

static uint32_t size_of(Element type) {
    switch (type) {
        case Element::f64: return 8;
        case Element::f32: case Element::tf32: case Element::s32: return 4;
        case Element::f16: case Element::bf16: return 2;
        default: return 1;
    }
}
double decode(Element type, const void* address) noexcept {
    uint32_t bits = 0;
    memcpy(&bits, address, std::min(4u, size_of(type)));
    switch (type) {
        case Element::f64: {
            double value;
            memcpy(&value, address, 8);
            return value;
        }
        case Element::f32: return float_of(bits);
        case Element::tf32: return float_of(bits & 0xFFFFE000u);  // the unit ignores the low 13 bits
        case Element::bf16: return float_of(bits << 16);
        case Element::f16: return half_values()[bits & 0xFFFF];
        case Element::e4m3: return all_values<4, 3, false>()[bits & 0xFF];
        case Element::e5m2: return all_values<5, 2, true>()[bits & 0xFF];
        case Element::s8: return static_cast<int8_t>(bits);
        case Element::u8: return bits;
        default: return static_cast<int32_t>(bits);
    }
}
void encode(Element type, void* address, double value) noexcept {
    uint32_t bits = 0;
    switch (type) {
        case Element::f64: memcpy(address, &value, 8); return;
        case Element::f32: case Element::tf32: {
            float narrow = static_cast<float>(value);
            memcpy(address, &narrow, 4);
            return;
        }
        case Element::bf16: {
            float narrow = static_cast<float>(value);
            memcpy(&bits, &narrow, 4);
            bits = std::isnan(value) ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
            break;
        }
        case Element::f16: bits = encode_small(value, 5, 10, true); break;
        case Element::e4m3: bits = encode_small(value, 4, 3, false); break;
        case Element::e5m2: bits = encode_small(value, 5, 2, true); break;
        default: bits = static_cast<uint32_t>(static_cast<int64_t>(value)); break;
    }
    memcpy(address, &bits, size_of(type));
}

// ---- ldmatrix, stmatrix ---------------------------------------------------------------------------------------------------------
namespace {
struct MatrixMove {
    uint8_t* row;
    uint8_t* registers;
    uint32_t num;
    bool transposed, store;
};
const char* const kLoadMatrix = "ldmatrix";
const char* const kStoreMatrix = "stmatrix";
const char* const kMma = "mma";
const char* const kSparseMma = "mma.sp";

// Register j of lane l holds row l / 4, elements 2·(l % 4) and + 1 of matrix j; transposed: of the matrix transposed.
void move_matrices(void* const* lanes, uint32_t) {
    uint32_t num = static_cast<MatrixMove*>(lanes[0])->num;
    for (uint32_t j = 0; j < num; ++j)
        for (uint32_t lane = 0; lane < 32; ++lane)
            for (uint32_t half = 0; half < 2; ++half) {
                MatrixMove& mine = *static_cast<MatrixMove*>(lanes[lane]);
                uint32_t row = lane / 4, column = lane % 4 * 2 + half;
                if (mine.transposed) std::swap(row, column);
                uint8_t* memory = static_cast<MatrixMove*>(lanes[j * 8 + row])->row + 2 * column;
                uint8_t* value = mine.registers + 4 * j + 2 * half;
                memcpy(mine.store ? memory : value, mine.store ? value : memory, 2);
            }
}
// The lane that gives a row's address has checked the row for itself; the lanes that receive its bytes must know of the write too. They
// differ in what they know of their own warp only: barriers teach whole warps.
void check_receivers(const MatrixMove& move, uint32_t pc) {
    Thread& me = *engine.current;
    uintptr_t address = reinterpret_cast<uintptr_t>(move.row);
    Region* region = region_of(address, false);
    if (!region || !region->tracked) return;
    size_t offset = address - reinterpret_cast<uintptr_t>(region->base);
    Page& page = region->page(offset, 16);
    uint32_t lane = me.index % 32, row = lane % 8, first_thread = me.index - lane;
    size_t first = (offset % kPageBytes) >> page.shift, count = 16 >> page.shift;
    for (size_t i = first; i < first + count; ++i) {
        const Epoch& write = page.cells[i].write;
        uint32_t writer = write.agent % engine.threads;
        if (write.clock == 0 || write.block != me.block->linear || writer / 32 != me.index / 32) continue;
        for (uint32_t other = 0; other < 32; ++other) {
            bool receives = move.transposed ? other % 4 == row / 2 : other / 4 == row;
            Thread& receiver = *me.block->threads[first_thread + other];
            if (!receives || receiver.knows.includes(write)) continue;
            Epoch now{me.block->linear, static_cast<uint16_t>(receiver.index), 0, receiver.knows.clock, pc};
            report_conflict(*region, (offset & ~(kPageBytes - 1)) + (i << page.shift), size_t{1} << page.shift, write, now, false);
            return;
        }
    }
}
void move_matrix(const char* name, MatrixMove move, uint32_t pc) {
    Thread& me = *engine.current;
    me.pc = pc;
    bool gives_address = me.index % 32 < move.num * 8;
    if (gives_address) aligned(move.row, 16, pc);
    if (move.store) access(move.registers, 4 * move.num, false, false, pc);
    if (gives_address) access(move.row, 16, move.store, false, pc);
    gather(name, ~0u, &move, move_matrices, false, pc);
    if (gives_address && !move.store) check_receivers(move, pc);
    if (!move.store) access(move.registers, 4 * move.num, true, false, pc);
}
bool whole_warp(const char* what, uint32_t pc) {
    if (existing() == ~0u) return true;
    report("divergent-collective", std::string(what) + " needs all 32 lanes; the block's last warp has fewer", engine.current, pc);
    end_launch();
}
}  // namespace

void ldmatrix(void* registers, const void* row, uint32_t num, bool transposed) {
    whole_warp(kLoadMatrix, EMU_PC);
    move_matrix(kLoadMatrix, {static_cast<uint8_t*>(const_cast<void*>(row)), static_cast<uint8_t*>(registers), num, transposed, false}, EMU_PC);
}
void stmatrix(void* row, const void* registers, uint32_t num, bool transposed) {
    whole_warp(kStoreMatrix, EMU_PC);
    move_matrix(kStoreMatrix, {static_cast<uint8_t*>(row), static_cast<uint8_t*>(const_cast<void*>(registers)), num, transposed, true}, EMU_PC);
}

// ---- mma ------------------------------------------------------------------------------------------------------------------------
namespace {
struct Product {
    uint32_t m, n, k;
    Element a_type, b_type, c_type;
    uint8_t* d;
    const uint8_t *a, *b, *c;
    bool sparse;
    uint32_t metadata, selector;
};

// A: registers of `per` elements; register r holds rows group + 8·(r % 2) for m 16, columns per·(lane % 4) + 4·per·(r / 2).
// B: register r holds rows per·(lane % 4) + 4·per·r, column group. C: elements 2·(lane % 4) + i % 2, rows group + 8·(i / 2).
void place_a(const Product& p, uint32_t lane, uint32_t i, uint32_t& row, uint32_t& column) {
    uint32_t per = std::max(1u, 4 / size_of(p.a_type)), reg = i / per, rows = p.m / 8;
    row = lane / 4 + 8 * (reg % rows);
    column = lane % 4 * per + i % per + 4 * per * (reg / rows);
}
void place_b(const Product& p, uint32_t lane, uint32_t i, uint32_t& row, uint32_t& column) {
    uint32_t per = std::max(1u, 4 / size_of(p.b_type)), reg = i / per;
    row = lane % 4 * per + i % per + 4 * per * reg;
    column = lane / 4;
}
void place_c(uint32_t lane, uint32_t i, uint32_t& row, uint32_t& column) {
    row = lane / 4 + 8 * (i / 2);
    column = lane % 4 * 2 + i % 2;
}

// PTX ISA, "Matrix fragments for multiply-accumulate operation with sparse matrix A", the figures of the metadata: which lane holds
// the four bits for chunk `chunk` of a row, and from which bit on. Every row has 32 bits, or 64 where k is 64.
//   k 16 and 32, selector 0: lane 4·g has chunks 0 to 3 of row g in its lower half and of row g + 8 in its upper, lane 4·g + 1 has chunks
//   4 to 7. Selector 1: the same in lanes 4·g + 2 and 4·g + 3.
//   k 64: lanes 4·g and 4·g + 1 have chunks 0 to 7 of rows g and g + 8, lanes 4·g + 2 and 4·g + 3 chunks 8 to 15.
void place_metadata(uint32_t k, uint32_t selector, uint32_t row, uint32_t chunk, uint32_t& lane, uint32_t& bit) {
    uint32_t group = row % 8, lower = row / 8;
    lane = 4 * group + (k == 64 ? chunk / 8 * 2 + lower : 2 * selector + chunk / 4);
    bit = k == 64 ? chunk % 8 * 4 : lower * 16 + chunk % 4 * 4;
}
// A row of A from what is kept of it. What the ISA leaves undefined (places that are equal or descend) gives NaN, or a large integer.
template <class T>
void expand(void* const* lanes, uint32_t row, const T* kept, T* whole) {
    const Product& first = *static_cast<Product*>(lanes[0]);
    bool pairs = first.a_type == Element::tf32;
    uint32_t size = pairs ? 2 : 4;
    for (uint32_t chunk = 0; chunk < first.k / size; ++chunk, whole += size) {
        uint32_t lane, bit;
        place_metadata(first.k, first.selector, row, chunk, lane, bit);
        uint32_t places = static_cast<Product*>(lanes[lane])->metadata >> bit & 15, low = places & 3, high = places >> 2;
        std::fill(whole, whole + size, T(0));
        bool defined = pairs ? places == 0b0100 || places == 0b1110 : low < high;
        if (!defined) {
            whole[0] = first.c_type == Element::s32 ? T(1 << 20) : T(NAN);
        } else if (pairs) {
            whole[low / 2] = kept[chunk];
        } else {
            whole[low] = kept[2 * chunk];
            whole[high] = kept[2 * chunk + 1];
        }
    }
}

// One lane's fragment; the two types that matter most without a branch an element.
template <class T>
void decode_all(Element type, const uint8_t* from, uint32_t count, T* to) {
    uint32_t size = size_of(type);
    if (type == Element::f16 || type == Element::bf16) {
        const std::vector<float>& values = half_values();
        for (uint32_t i = 0; i < count; ++i) {
            uint16_t bits;
            memcpy(&bits, from + 2 * i, 2);
            to[i] = static_cast<T>(type == Element::f16 ? values[bits] : float_of(static_cast<uint32_t>(bits) << 16));
        }
        return;
    }
    for (uint32_t i = 0; i < count; ++i) to[i] = static_cast<T>(decode(type, from + i * size));
}

template <class T>
void multiply(void* const* lanes) {
    const Product& first = *static_cast<Product*>(lanes[0]);
    uint32_t m = first.m, n = first.n, k = first.k, held_k = first.sparse ? k / 2 : k, row, column;
    T a[16 * 64], b[64 * 8], c[16 * 8], whole[64];
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const Product& p = *static_cast<Product*>(lanes[lane]);
        T held[16];
        decode_all(p.a_type, p.a, m * held_k / 32, held);
        for (uint32_t i = 0; i < m * held_k / 32; ++i) place_a(p, lane, i, row, column), a[row * k + column] = held[i];
        decode_all(p.b_type, p.b, n * k / 32, held);
        for (uint32_t i = 0; i < n * k / 32; ++i) place_b(p, lane, i, row, column), b[row * n + column] = held[i];
        decode_all(p.c_type, p.c, m * n / 32, held);
        for (uint32_t i = 0; i < m * n / 32; ++i) place_c(lane, i, row, column), c[row * n + column] = held[i];
    }
    for (uint32_t r = 0; first.sparse && r < m; ++r) {
        expand(lanes, r, a + r * k, whole);
        std::copy(whole, whole + k, a + r * k);
    }
    for (uint32_t r = 0; r < m; ++r)
        for (uint32_t kk = 0; kk < k; ++kk)
            for (uint32_t s = 0; s < n; ++s) c[r * n + s] += a[r * k + kk] * b[kk * n + s];
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const Product& p = *static_cast<Product*>(lanes[lane]);
        for (uint32_t i = 0; i < m * n / 32; ++i)
            place_c(lane, i, row, column), encode(p.c_type, p.d + i * size_of(p.c_type), static_cast<double>(c[row * n + column]));
    }
}
void multiply_any(void* const* lanes, uint32_t) {
    const Product& first = *static_cast<Product*>(lanes[0]);
    if (first.c_type == Element::s32 || first.c_type == Element::f64)
        multiply<double>(lanes);  // exact for sums of products of 8-bit integers
    else
        multiply<float>(lanes);
}
}  // namespace

static void product(const char* name, const Product& given, uint32_t pc) {
    engine.current->pc = pc;
    uint32_t held_k = given.sparse ? given.k / 2 : given.k, result = given.m * given.n / 32 * size_of(given.c_type);
    whole_warp(name, pc);
    access(given.a, given.m * held_k / 32 * size_of(given.a_type), false, false, pc);
    access(given.b, given.n * given.k / 32 * size_of(given.b_type), false, false, pc);
    access(given.c, result, false, false, pc);
    Product mine = given;
    gather(name, ~0u, &mine, multiply_any, false, pc);
    access(given.d, result, true, false, pc);
}

void mma(uint32_t m, uint32_t n, uint32_t k, Element a_type, Element b_type, Element c_type, void* d, const void* a, const void* b,
         const void* c) {
    uint32_t pc = EMU_PC;
    if (n != 8 || k > 32 || (m != 16 && m != 8)) unchecked("mma of a shape that the emulator does not know");
    product(kMma, {m, n, k, a_type, b_type, c_type, static_cast<uint8_t*>(d), static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b),
                   static_cast<const uint8_t*>(c), false, 0, 0}, pc);
}
void mma_sp(uint32_t m, uint32_t n, uint32_t k, Element a_type, Element b_type, Element c_type, void* d, const void* a, const void* b,
            const void* c, uint32_t metadata, uint32_t selector) {
    uint32_t pc = EMU_PC;
    if (n != 8 || m != 16 || k * size_of(a_type) != 64 || selector > (k == 64 ? 0 : 1)) unchecked("mma.sp of a shape that the emulator does not know");
    product(kSparseMma, {m, n, k, a_type, b_type, c_type, static_cast<uint8_t*>(d), static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b),
                         static_cast<const uint8_t*>(c), true, metadata, selector}, pc);
}

}  // namespace emu
