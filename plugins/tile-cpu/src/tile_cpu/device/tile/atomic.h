// Indivisible updates of one element that several blocks share.
//
// Integers use the machine's read-modify-write where it has one. The rest repeats compare-and-exchange on the element's bits, so that a
// value which another thread changed in between is combined anew. A number wins over NaN in max and min, as in reductions.
#pragma once

#include "scalar.h"

namespace tile {
namespace atomic_detail {

// Elements are seen as words of their size; may_alias keeps the compiler from ordering them apart from plain accesses.
template <size_t BYTES>
struct word_of;
template <>
struct word_of<1> {
  typedef uint8_t __attribute__((may_alias)) type;
};
template <>
struct word_of<2> {
  typedef uint16_t __attribute__((may_alias)) type;
};
template <>
struct word_of<4> {
  typedef uint32_t __attribute__((may_alias)) type;
};
template <>
struct word_of<8> {
  typedef uint64_t __attribute__((may_alias)) type;
};

// The order of an update by its name; consume is carried out as acquire, as compilers do.
constexpr int order_of(const char* name) {
  return name[0] == 's'   ? __ATOMIC_SEQ_CST
         : name[0] == 'c' ? __ATOMIC_ACQUIRE
         : name[0] == 'a' ? (name[3] == '_' ? __ATOMIC_ACQ_REL : __ATOMIC_ACQUIRE)
         : name[2] == 'l' && name[3] == 'e' ? __ATOMIC_RELEASE
                                            : __ATOMIC_RELAXED;
}

template <class T, class Combine>
TILE_FN void update(T* address, const char* order, Combine combine) {
  using Word = typename word_of<sizeof(T)>::type;
  Word* word = reinterpret_cast<Word*>(address);
  Word seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  Word wanted;
  do {
    T held;
    __builtin_memcpy(&held, &seen, sizeof(T));
    T next = combine(held);
    __builtin_memcpy(&wanted, &next, sizeof(T));
  } while (!__atomic_compare_exchange_n(word, &seen, wanted, true, order_of(order), __ATOMIC_RELAXED));
}

template <class T>
constexpr bool has_fetch = std::is_integral<T>::value && !std::is_same<T, bool>::value;

}  // namespace atomic_detail

template <class T>
TILE_FN void atomic_add(T* address, T value, const char* order) {
  if constexpr (atomic_detail::has_fetch<T>) {
    __atomic_fetch_add(address, value, atomic_detail::order_of(order));
  } else {
    atomic_detail::update(address, order, [=](T held) { return T(held + value); });
  }
}

template <class T>
TILE_FN void atomic_max(T* address, T value, const char* order) {
  atomic_detail::update(address, order, [=](T held) { return held != held || value > held ? value : held; });
}

template <class T>
TILE_FN void atomic_min(T* address, T value, const char* order) {
  atomic_detail::update(address, order, [=](T held) { return held != held || value < held ? value : held; });
}

template <class T>
TILE_FN void atomic_and(T* address, T value, const char* order) {
  __atomic_fetch_and(address, value, atomic_detail::order_of(order));
}

template <class T>
TILE_FN void atomic_or(T* address, T value, const char* order) {
  __atomic_fetch_or(address, value, atomic_detail::order_of(order));
}

template <class T>
TILE_FN void atomic_xor(T* address, T value, const char* order) {
  __atomic_fetch_xor(address, value, atomic_detail::order_of(order));
}

}  // namespace tile
