// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "plain_read/plain_read.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr unsigned kVectorBytes = 64;
#elif defined(__AVX__)
constexpr unsigned kVectorBytes = 32;
#else
constexpr unsigned kVectorBytes = 16;
#endif
constexpr size_t kAccumulators = 8;
constexpr size_t kPart = size_t{1} << 20;

template <typename T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;

template <typename V>
V load(const void* data) {
  V value;
  std::memcpy(&value, data, sizeof value);  // an unaligned vector load
  return value;
}

template <typename V>
auto total_of(V (&sums)[kAccumulators]) {
  for (size_t width = kAccumulators / 2; width > 0; width /= 2) {
    for (size_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
  auto total = sums[0][0];
  for (size_t k = 1; k < sizeof(V) / sizeof total; ++k) total += sums[0][k];
  return total;
}

template <typename T>
T read(const T* data, size_t count) {
  using V = Vector<T>;
  constexpr size_t lanes = sizeof(V) / sizeof(T);
  V sums[kAccumulators] = {};
  size_t i = 0;
  for (; i + kAccumulators * lanes <= count; i += kAccumulators * lanes) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kAccumulators; ++k) sums[k] += load<V>(data + i + k * lanes);
  }
  T total = total_of(sums);
  for (; i < count; ++i) total += data[i];
  return total;
}

}  // namespace

double plain_read_f32(const float* data, size_t count) { return read(data, count); }

double plain_read_f64(const double* data, size_t count) { return read(data, count); }

uint64_t plain_read_u64(const uint64_t* data, size_t count) { return read(data, count); }

double plain_read_bf16(const uint16_t* data, size_t count) {
  using Pair = Vector<uint32_t>;  // two elements in a lane: the lower half is the one with the even index
  using Floats = Vector<float>;
  constexpr size_t lanes = 2 * kVectorBytes / sizeof(float);
  Floats sums[kAccumulators] = {};
  size_t i = 0;
  for (; i + kAccumulators / 2 * lanes <= count; i += kAccumulators / 2 * lanes) {
#pragma GCC unroll 4
    for (size_t k = 0; k < kAccumulators / 2; ++k) {
      const Pair pair = load<Pair>(data + i + k * lanes);
      sums[2 * k] += reinterpret_cast<Floats>(pair << 16);
      sums[2 * k + 1] += reinterpret_cast<Floats>(pair & 0xffff0000U);
    }
  }
  float total = total_of(sums);
  for (; i < count; ++i) {
    const uint32_t bits = uint32_t{data[i]} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    total += value;
  }
  return total;
}

uint64_t plain_read_all(const void* const* data, const size_t* bytes, size_t count, unsigned threads) {
  struct Part {
    const uint64_t* data;
    size_t count;
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < count; ++i) {
    const auto* start = static_cast<const uint64_t*>(data[i]);
    for (size_t at = 0; at < bytes[i]; at += kPart) {
      parts.push_back({start + at / sizeof(uint64_t), std::min(kPart, bytes[i] - at) / sizeof(uint64_t)});
    }
  }
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> total = 0;
  const auto work = [&] {
    uint64_t sum = 0;
    for (size_t i = next++; i < parts.size(); i = next++)
      sum += plain_read_u64(parts[i].data, parts[i].count);
    total += sum;
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return total;
}

unsigned plain_read_vector_bytes() { return kVectorBytes; }
