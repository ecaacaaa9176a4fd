// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grad_probe/packed_file.h"
#include "grad_probe/signs.h"

namespace msprobe::grad_probe {

/// The record of one rank, whatever its layout. Thread-safe.
class RecordedRank {
 public:
  /// Throws IoError, and FormatError for a packed record that is none.
  explicit RecordedRank(std::filesystem::path directory);

  const std::filesystem::path& directory() const noexcept { return directory_; }

  /// Those with signs, ascending.
  const std::vector<std::int64_t>& steps() const noexcept { return steps_; }
  /// Those with statistics, ascending.
  std::vector<std::int64_t> summarized_steps() const;

  /// The csv file of a step as a text, and what messages call it; nullopt: there is none. Throws IoError.
  std::optional<std::string> summary(std::int64_t step) const;
  std::string summary_place(std::int64_t step) const;

  /// Whether there are signs of a parameter at a step, of whatever kind and readable or not.
  bool has_signs(std::int64_t step, const std::string& name) const;
  std::string signs_place(std::int64_t step, const std::string& name) const;
  /// Throws IoError, FormatError, Incomparable; this object must live as long as the result. Signs that
  /// another rank keeps are looked for when they are read.
  std::unique_ptr<Signs> signs(std::int64_t step, const std::string& name) const;

  /// The record of a rank beside this one. Throws IoError, FormatError.
  const PackedFile& keeper(int rank) const;

 private:
  std::filesystem::path directory_;
  std::unique_ptr<PackedFile> packed_;  // null: layout npy
  std::vector<std::int64_t> steps_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::unique_ptr<PackedFile>> keepers_;  // other ranks; under the mutex
};

}  // namespace msprobe::grad_probe
