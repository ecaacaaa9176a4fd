// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "base/convert.h"
#include "base/position.h"
#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/stats.h"

using namespace msprobe;
using stats::Sketch;

namespace {

constexpr std::array kDTypes{DType::kFloat64,   DType::kFloat32,    DType::kFloat16,      DType::kBFloat16,
                             DType::kInt64,     DType::kInt32,      DType::kInt16,        DType::kInt8,
                             DType::kUInt8,     DType::kBool,       DType::kFloat8E4M3FN, DType::kFloat8E5M2,
                             DType::kComplex64, DType::kComplex128, DType::kComplex32,    DType::kUInt64};

// Memory of elements that are finite and differ from each other.
std::vector<std::byte> elements(DType dtype, std::int64_t count, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> memory(static_cast<std::size_t>(count) * element_size(dtype));
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  const std::size_t size = element_size(dtype) / (is_complex(dtype) ? 2 : 1);
  for (std::size_t i = size - 1; i < memory.size();
       i += size) {  // exponents near that of 1, or small numbers
    const bool is_float = is_complex(dtype) || is_floating(dtype);
    memory[i] &= std::byte{dtype == DType::kBool ? std::uint8_t{1}
                           : is_float            ? std::uint8_t{0xBF}
                                                 : std::uint8_t{0xFF}};
  }
  return memory;
}

Sketch sketch_of(const std::vector<std::byte>& memory, DType dtype, const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& strides = {}, stats::SummaryOptions::Shard shard = {},
                 std::int64_t from = 0) {
  stats::SummaryOptions options;
  options.sketch = true;
  options.shard = shard;
  const std::byte* const data = memory.data() + from * static_cast<std::int64_t>(element_size(dtype));
  return *stats::summarize({data, dtype, shape, strides}, options).sketch;
}

// Part by part, as base/position.h defines it.
Sketch by_definition(const std::vector<std::byte>& memory, DType dtype, std::int64_t count) {
  const std::size_t parts = is_complex(dtype) ? 2 : 1;
  const std::size_t size = element_size(dtype) / parts;
  std::vector<double> values(static_cast<std::size_t>(count) * parts);
  convert_to_double(memory.data(), dtype, static_cast<std::size_t>(count), values.data());
  Sketch sketch;
  for (std::size_t i = 0; i < values.size(); ++i) {
    position::Long bits = 0;
    std::memcpy(&bits, memory.data() + i * size, size);
    const position::Long group = i / position::kGroup;
    const auto place = static_cast<position::Word>(i % position::kGroup);
    const position::Long factor = position::factor(group);
    sketch.digest += factor * position::digest_of(bits, static_cast<unsigned>(size), place);
    if (!std::isfinite(values[i])) continue;
    sketch.sums[position::lane(group, place)] += position::sign(factor, place) != 0 ? -values[i] : values[i];
  }
  return sketch;
}

void check_close(const Sketch& a, const Sketch& b, double norm) {
  CHECK(a.digest == b.digest);
  for (std::size_t k = 0; k < Sketch::kSums; ++k) CHECK(std::abs(a.sums[k] - b.sums[k]) <= 2e-6 * norm);
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> memory(values.size() * sizeof(float));
  std::memcpy(memory.data(), values.data(), memory.size());
  return memory;
}

std::uint64_t digest_of(const std::vector<float>& values) {
  return sketch_of(bytes_of(values), DType::kFloat32, {static_cast<std::int64_t>(values.size())}).digest;
}

std::vector<float> normal(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

}  // namespace

TEST_CASE("sketch: digest and sums are those of the definition, for every dtype and length") {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t count : {1, 3, 7, 63, 64, 65, 1023, 1024, 1025, 2500, 70001}) {
      const std::vector<std::byte> memory = elements(dtype, count);
      const Sketch found = sketch_of(memory, dtype, {count});
      INFO(dtype_name(dtype) << ", " << count << " elements");
      check_close(found, by_definition(memory, dtype, count), std::max(found.norm, 1e-300));
    }
  }
}

TEST_CASE("sketch: the layout in memory does not matter") {
  for (const DType dtype : kDTypes) {
    const std::vector<std::byte> memory = elements(dtype, 24 * 35 * 8);
    const auto size = static_cast<std::int64_t>(element_size(dtype));
    // The same elements as their transpose: [8, 24, 35] of [24, 35, 8].
    std::vector<std::byte> moved;
    for (std::int64_t k = 0; k < 8; ++k) {
      for (std::int64_t i = 0; i < 24 * 35; ++i) {
        const auto at = memory.begin() + (i * 8 + k) * size;
        moved.insert(moved.end(), at, at + size);
      }
    }
    const Sketch view = sketch_of(memory, dtype, {8, 24, 35}, {1, 280, 8});
    check_close(view, sketch_of(moved, dtype, {8, 24, 35}), view.norm);
    CHECK(view.digest != sketch_of(memory, dtype, {24, 35, 8}).digest);
  }
}

TEST_CASE("sketch: those of shards at their places add up to that of the whole") {
  const std::vector<std::int64_t> whole_shape{12, 20, 72};
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat8E5M2, DType::kFloat64, DType::kComplex64}) {
    const std::vector<std::byte> memory = elements(dtype, 12 * 20 * 72);
    const Sketch whole = sketch_of(memory, dtype, whole_shape);
    struct Cut {
      std::size_t dimension;
      std::int64_t at;
    };
    for (const Cut cut : {Cut{0, 5}, Cut{1, 7}, Cut{2, 13}, Cut{2, 64}, Cut{2, 1}}) {
      Sketch sum;
      for (const bool second : {false, true}) {
        std::vector<std::int64_t> shape = whole_shape, offsets(3, 0);
        shape[cut.dimension] = second ? whole_shape[cut.dimension] - cut.at : cut.at;
        offsets[cut.dimension] = second ? cut.at : 0;
        const std::vector<std::int64_t> strides{20 * 72, 72, 1};
        const std::int64_t from = offsets[cut.dimension] * strides[cut.dimension];
        const Sketch part = sketch_of(memory, dtype, shape, strides, {whole_shape, offsets}, from);
        sum.digest += part.digest;
        for (std::size_t k = 0; k < Sketch::kSums; ++k) sum.sums[k] += part.sums[k];
      }
      check_close(sum, whole, whole.norm);
    }
  }
  const std::vector<std::byte> memory = elements(DType::kFloat32, 12);
  const std::vector<std::int64_t> larger{4, 6}, outside{2, 3};
  CHECK_THROWS_AS(sketch_of(memory, DType::kFloat32, {3, 4}, {}, {larger, outside}), InvalidArgument);
  CHECK_THROWS_AS(sketch_of(memory, DType::kFloat32, {12}, {}, {larger, outside}), InvalidArgument);
}

TEST_CASE("sketch: NaN and infinities count as 0, and floats that run over are added in double") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    std::vector<std::byte> memory = elements(dtype, 3000);
    for (const std::size_t i : {0U, 63U, 64U, 1500U, 2999U}) {  // all bits set is a NaN of each
      std::memset(memory.data() + i * element_size(dtype), 0xFF, element_size(dtype));
    }
    const Sketch found = sketch_of(memory, dtype, {3000});
    REQUIRE(std::isfinite(found.norm));
    check_close(found, by_definition(memory, dtype, 3000), found.norm);
  }
  std::vector<float> large(2048, std::numeric_limits<float>::max());
  const Sketch found = sketch_of(bytes_of(large), DType::kFloat32, {2048});
  const Sketch expected = by_definition(bytes_of(large), DType::kFloat32, 2048);
  for (std::size_t k = 0; k < Sketch::kSums; ++k) CHECK(found.sums[k] == Approx(expected.sums[k]));
}

TEST_CASE("sketch: keys of a group are odd and different, signs of either kind as frequent") {
  std::set<position::Word> keys;
  int negative = 0;
  for (position::Word i = 0; i < position::kKeys; ++i) {
    CHECK(position::key(i) % 2 == 1);
    keys.insert(position::key(i));
    if (i < position::kGroup) negative += static_cast<int>(position::own_sign(i));
  }
  CHECK(keys.size() == position::kKeys);
  CHECK(std::abs(negative - 512) < 64);  // four standard deviations
  CHECK(position::factor(5) == position::factor(4) * position::kStep);
}

TEST_CASE("sketch: what changes the content changes the digest") {
  const std::vector<float> values = normal(5000);
  std::set<std::uint64_t> seen{digest_of(values)};
  std::size_t changes = 1;
  const auto expect_new = [&](const std::vector<float>& changed) {
    ++changes;
    seen.insert(digest_of(changed));
  };
  for (std::size_t i = 0; i < values.size(); i += 37) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> flipped = values;
      std::uint32_t bits = 0;
      std::memcpy(&bits, &flipped[i], 4);
      bits ^= 1U << bit;
      std::memcpy(&flipped[i], &bits, 4);
      expect_new(flipped);
    }
    std::vector<float> swapped = values;
    std::swap(swapped[i], swapped[(i * 31 + 7) % values.size()]);
    expect_new(swapped);
    std::vector<float> turned = values;  // two signs
    turned[i] = -turned[i];
    turned[(i + 1024) % values.size()] *= -1;
    expect_new(turned);
  }
  std::vector<float> negative = values, doubled = values, rotated = values;
  for (float& value : negative) value = -value;
  for (float& value : doubled) value *= 2;
  std::rotate(rotated.begin(), rotated.begin() + 1024, rotated.end());
  for (const auto& changed : {negative, doubled, rotated}) expect_new(changed);
  CHECK(seen.size() == changes);
}

TEST_CASE("sketch: constants, zeros of either sign and lengths have digests of their own") {
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  for (int value = 1; value < 100; ++value) {
    for (std::size_t n = 1; n < 60; ++n, ++count) {
      seen.insert(digest_of(std::vector<float>(n, static_cast<float>(value) * 0.01F)));
    }
  }
  CHECK(seen.size() == count);
  CHECK(digest_of({0.0F, 0.0F}) == 0);
  CHECK(digest_of({0.0F, -0.0F}) != 0);
}

TEST_CASE("sketch: it sees what is the same for many elements") {
  // A bias, a row, a column of a matrix: differences that do not change their sign.
  const std::int64_t rows = 256, columns = 512;
  const std::vector<float> values = normal(static_cast<std::size_t>(rows * columns));
  const Sketch before = sketch_of(bytes_of(values), DType::kFloat32, {rows, columns});
  const auto seen = [&](const auto& differs) {
    std::vector<float> changed = values;
    double squares = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      if (!differs(i / columns, i % columns)) continue;
      changed[static_cast<std::size_t>(i)] += 0.5F;
      squares += 0.25;
    }
    const Sketch after = sketch_of(bytes_of(changed), DType::kFloat32, {rows, columns});
    return stats::distance(before, after) / std::sqrt(squares);
  };
  const auto is_near = [](double ratio) { return ratio > 0.3 && ratio < 2; };
  CHECK(is_near(seen([](auto, auto) { return true; })));
  for (const std::int64_t at : {0, 7, 100, 255}) {
    CHECK(is_near(seen([=](auto row, auto) { return row == at; })));
    CHECK(is_near(seen([=](auto, auto column) { return column == at; })));
    CHECK(is_near(seen([=](auto row, auto) { return row < at + 1; })));
  }
}
