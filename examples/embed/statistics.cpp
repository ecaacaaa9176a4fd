// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// The statistics of a plain C array, by the core library alone. Exit code 0 when they are the expected ones.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "msprobe/error.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"
#include "msprobe/thread_pool.h"

int main() try {
  constexpr std::int64_t kRows = 500;
  constexpr std::int64_t kColumns = 1000;
  static float values[kRows][kColumns];
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      values[row][column] = static_cast<float>(row) - static_cast<float>(column) / 2;
    }
  }
  values[3][4] = std::numeric_limits<float>::infinity();

  // A view borrows the memory. Strides are in elements, so any part of an array is a view too: here all
  // columns but the last 8.
  const std::int64_t shape[] = {kRows, kColumns - 8};
  const std::int64_t strides[] = {kColumns, 1};
  const msprobe::TensorView view{values, msprobe::DType::kFloat32, shape, strides};

  const float bounds[] = {-100, 0, 100};
  std::vector<std::uint8_t> signs(msprobe::stats::sign_bytes(kRows * (kColumns - 8)));
  msprobe::stats::SummaryOptions options;
  options.checksum = msprobe::stats::SummaryOptions::Checksum::kNative;
  options.bounds = bounds;
  options.signs = signs;

  msprobe::ThreadPool pool(2);
  const msprobe::stats::Summary summary = msprobe::stats::summarize(view, options, &pool);

  std::printf("instruction set: %s\n", std::string(msprobe::stats::instruction_set()).c_str());
  for (const msprobe::stats::Field& field : msprobe::stats::fields()) {
    if (const auto value = field.value(summary)) {
      std::printf("%-14s %.*f\n", std::string(field.name).c_str(), field.integral ? 0 : 6, *value);
    }
  }
  for (std::size_t i = 0; i < summary.interval_counts.size(); ++i) {
    std::printf("interval %zu     %lld\n", i, static_cast<long long>(summary.interval_counts[i]));
  }

  // Counted here one by one, as a check of the library.
  std::int64_t positive = 0;
  std::int64_t marked = 0;
  for (std::int64_t i = 0; i < summary.count; ++i) {
    positive += values[i / shape[1]][i % shape[1]] > 0 ? 1 : 0;
    marked += signs[static_cast<std::size_t>(i / 8)] >> (i % 8) & 1;
  }
  const bool expected = summary.count == kRows * (kColumns - 8) && summary.min == -495.5 &&
                        std::isinf(*summary.max) && summary.pos_inf_count == 1 && summary.nan_count == 0 &&
                        summary.zero_count == 496 && marked == positive &&
                        summary.interval_counts[2] + summary.interval_counts[3] == positive;
  std::puts(expected ? "as expected" : "NOT as expected");
  return expected ? 0 : 1;
} catch (const msprobe::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
