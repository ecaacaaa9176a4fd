// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "log_capture.h"
#include "msprobe/grad_probe.h"

namespace msprobe::grad_probe {

/// Float gradients that own their memory.
class OwnedGradients {
 public:
  /// C order unless `strides` says otherwise; empty strides mean C order.
  void add(std::string name, std::vector<float> data, std::vector<std::int64_t> shape,
           std::vector<std::int64_t> strides = {}) {
    std::vector<std::uint8_t> bytes(data.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(bytes.data(), data.data(), bytes.size());
    add_bytes(std::move(name), std::move(bytes), DType::kFloat32, std::move(shape), std::move(strides));
  }

  void add_bytes(std::string name, std::vector<std::uint8_t> bytes, DType dtype,
                 std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
    owned_.push_back({std::move(name), std::move(bytes), dtype, std::move(shape), std::move(strides)});
  }

  /// Borrows from this object.
  std::vector<Gradient> views() const {
    std::vector<Gradient> result;
    for (const Owned& g : owned_) result.push_back({g.name, {g.bytes.data(), g.dtype, g.shape, g.strides}});
    return result;
  }

 private:
  struct Owned {
    std::string name;
    std::vector<std::uint8_t> bytes;
    DType dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
  };
  std::vector<Owned> owned_;
};

inline const Similarity kAbsent{};
inline const Similarity kMissing{Similarity::State::kMissing, 0, 0, "the file is lost"};

inline const std::filesystem::path kGolden = std::filesystem::path(MSPROBE_TEST_DATA) / "grad_probe";

inline Options options_at(const std::filesystem::path& path, Level level = Level::kL1,
                          std::vector<Bound> bounds = {}) {
  Options options;
  options.dump_path = path;
  options.level = level;
  options.bounds = std::move(bounds);
  return options;
}

/// `count` gradients called p0, p1, ... of `elements` elements whose signs depend on `seed`.
inline OwnedGradients some_gradients(int count, std::int64_t elements, unsigned seed) {
  OwnedGradients gradients;
  for (int i = 0; i < count; ++i) {
    std::vector<float> data(static_cast<std::size_t>(elements));
    for (float& value : data) {
      seed = seed * 1664525 + 1013904223;  // Numerical Recipes, "quick and dirty" generator
      value = static_cast<float>(static_cast<std::int32_t>(seed)) * 1e-9F;
    }
    gradients.add("p" + std::to_string(i), std::move(data), {elements});
  }
  return gradients;
}

inline std::vector<Measurement> measured(const Options& options, int count, std::int64_t elements,
                                         unsigned seed) {
  const OwnedGradients gradients = some_gradients(count, elements, seed);
  return measure(gradients.views(), options);
}

}  // namespace msprobe::grad_probe
