// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a digest and a sketch make of an element's place (docs/formats/dump.md, "Sketch"). One text for the
/// processor and for the kernels of devices, so it includes nothing and has built-in types only.
///
/// A tensor is a sequence of parts in logical order (C order): its elements, of complex ones real and
/// imaginary part. Each 1024 of them are a group. The parts of a group are also words of 32 bits, little
/// endian, as contiguous memory has them; the bytes of each part, or of each half of a part of 64 bits, are
/// reversed before, so that sign and exponent, which may be all that differs, are low bits of their word.
///
///   digest = sum of factor(group) * key(word of the group) * word           modulo 2^64
///   sum k of the sketch = sum of sign(group, place in it) * part             of the parts with lane() == k
///
/// Both are sums over parts, and what a part adds follows from its place and its bits alone: they do not
/// depend on the layout in memory or the order of summation (the sketch up to its rounding), and those of the
/// shards of a tensor, taken at their places in the whole, add up to those of the whole.

#if defined(MSPROBE_ON_DEVICE)
#define MSPROBE_ANYWHERE __device__
#else
#define MSPROBE_ANYWHERE
#endif

namespace msprobe::position {

using Word = unsigned int;
using Long = unsigned long long;
static_assert(sizeof(Word) == 4 && sizeof(Long) == 8);

constexpr unsigned kGroup = 1024;  // parts
constexpr unsigned kKeys = 2048;   // words of a group of 64-bit parts, the largest
constexpr unsigned kRun = 64;      // parts of a group whose signs change together from group to group
constexpr unsigned kLanes = 8;     // sums of a sketch

/// A bijection that mixes well (C. Wellons: Prospecting for hash functions, 2018: lowbias32).
MSPROBE_ANYWHERE constexpr Word mixed(Word x) {
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  return x ^ (x >> 16);
}

/// The odd key of a word of a group; all keys of a group are different.
MSPROBE_ANYWHERE constexpr Word key(Word word) { return mixed(word * 0x9E3779B9U + 1) | 1; }

/// What the factor grows by from group to group: a multiplicative generator with a good spectrum (G. Steele,
/// S. Vigna: Computationally easy, spectrally good multipliers, Software: Practice and Experience 52, 2022).
constexpr Long kStep = 0xD1342543DE82EF95ULL;

/// kStep to the power of `exponent`.
MSPROBE_ANYWHERE constexpr Long power(Long exponent) {
  Long result = 1;
  for (Long square = kStep; exponent != 0; exponent >>= 1, square *= square) {
    if ((exponent & 1) != 0) result *= square;
  }
  return result;
}

/// Of group number `group`; each is kStep times the one before.
MSPROBE_ANYWHERE constexpr Long factor(Long group) { return power(group + 1); }

/// 1 where the part at `place` of its group is subtracted. The sign of each part is a bit of the key of its
/// place; those of a run are turned round together by one of the 16 high bits of the factor.
MSPROBE_ANYWHERE constexpr Word own_sign(Word place) { return key(place) >> 31; }
MSPROBE_ANYWHERE constexpr Word run_sign(Long factor, Word run) {
  return static_cast<Word>(factor >> (48 + run)) & 1;
}
MSPROBE_ANYWHERE constexpr Word sign(Long factor, Word place) {
  return own_sign(place) ^ run_sign(factor, place / kRun);
}

/// Which of the sums a part goes to. They move on by one from group to group: so a column of a matrix, whose
/// width is mostly a multiple of 8, is not in one sum alone.
MSPROBE_ANYWHERE constexpr Word lane(Long group, Word place) {
  return (place + static_cast<Word>(group)) % kLanes;
}

/// `word` with the bytes of parts of `size` bytes reversed: of one, two, or four and more.
MSPROBE_ANYWHERE constexpr Word reversed(Word word, unsigned size) {
  if (size == 1) return word;
  const Word swapped = ((word & 0x00FF00FFU) << 8) | ((word >> 8) & 0x00FF00FFU);
  // NOLINTNEXTLINE(modernize-use-std-bit): compiled for devices, too, where there is no std
  return size == 2 ? swapped : (swapped << 16) | (swapped >> 16);
}

/// What one part adds to the digest of its group: its `bits`, as an integer of `size` bytes, at `place`.
MSPROBE_ANYWHERE constexpr Long digest_of(Long bits, unsigned size, Word place) {
  if (size == 8) {
    return static_cast<Long>(key(2 * place)) * reversed(static_cast<Word>(bits), 4) +
           static_cast<Long>(key(2 * place + 1)) * reversed(static_cast<Word>(bits >> 32), 4);
  }
  const Word word = reversed(static_cast<Word>(bits) << (place * size % 4 * 8), size);
  return static_cast<Long>(key(place * size / 4)) * word;
}

}  // namespace msprobe::position
