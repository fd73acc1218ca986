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

// The value before.
template <class T, class Combine>
TILE_FN T update(T* address, const char* order, Combine combine) {
  using Word = typename word_of<sizeof(T)>::type;
  Word* word = reinterpret_cast<Word*>(address);
  Word seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  Word wanted;
  T held;
  do {
    __builtin_memcpy(&held, &seen, sizeof(T));
    T next = combine(held);
    __builtin_memcpy(&wanted, &next, sizeof(T));
  } while (!__atomic_compare_exchange_n(word, &seen, wanted, true, order_of(order), __ATOMIC_RELAXED));
  return held;
}

template <class T>
constexpr bool has_fetch = std::is_integral<T>::value && !std::is_same<T, bool>::value;

}  // namespace atomic_detail

// The updates give the value before, which a caller may leave aside.
template <class T>
TILE_FN T atomic_fetch_add(T* address, T value, const char* order) {
  if constexpr (atomic_detail::has_fetch<T>) return __atomic_fetch_add(address, value, atomic_detail::order_of(order));
  else return atomic_detail::update(address, order, [=](T held) { return T(held + value); });
}

template <class T>
TILE_FN T atomic_fetch_max(T* address, T value, const char* order) {
  return atomic_detail::update(address, order, [=](T held) { return held != held || value > held ? value : held; });
}

template <class T>
TILE_FN T atomic_fetch_min(T* address, T value, const char* order) {
  return atomic_detail::update(address, order, [=](T held) { return held != held || value < held ? value : held; });
}

template <class T>
TILE_FN T atomic_fetch_and(T* address, T value, const char* order) {
  return __atomic_fetch_and(address, value, atomic_detail::order_of(order));
}

template <class T>
TILE_FN T atomic_fetch_or(T* address, T value, const char* order) {
  return __atomic_fetch_or(address, value, atomic_detail::order_of(order));
}

template <class T>
TILE_FN T atomic_fetch_xor(T* address, T value, const char* order) {
  return __atomic_fetch_xor(address, value, atomic_detail::order_of(order));
}

#define TILE_ATOMIC_UPDATE(KIND)                                       \
  template <class T>                                                   \
  TILE_FN void atomic_##KIND(T* address, T value, const char* order) { \
    atomic_fetch_##KIND(address, value, order);                        \
  }
TILE_ATOMIC_UPDATE(add)
TILE_ATOMIC_UPDATE(max)
TILE_ATOMIC_UPDATE(min)
TILE_ATOMIC_UPDATE(and)
TILE_ATOMIC_UPDATE(or)
TILE_ATOMIC_UPDATE(xor)
#undef TILE_ATOMIC_UPDATE

// A load acquires and a store releases, or neither; both take part in the one order of sequentially consistent accesses.
template <class T>
TILE_FN T atomic_load(const T* address, const char* order) {
  using Word = typename atomic_detail::word_of<sizeof(T)>::type;
  Word seen = __atomic_load_n(reinterpret_cast<const Word*>(address), atomic_detail::order_of(order));
  T held;
  __builtin_memcpy(&held, &seen, sizeof(T));
  return held;
}

template <class T>
TILE_FN void atomic_store(T* address, T value, const char* order) {
  using Word = typename atomic_detail::word_of<sizeof(T)>::type;
  Word wanted;
  __builtin_memcpy(&wanted, &value, sizeof(T));
  __atomic_store_n(reinterpret_cast<Word*>(address), wanted, atomic_detail::order_of(order));
}

}  // namespace tile
