// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/export.h"

/// Packs of the config check: what grows with ranks, steps and tensors. The rest is Python.
namespace msprobe::config_check {

/// An entry of a pack as the directory of the zip describes it. Nothing of it is believed.
struct Entry {
  std::string name;          // for messages
  std::uint64_t offset = 0;  // of its local header
  std::uint64_t packed = 0;  // bytes in the file
  std::uint64_t size = 0;    // bytes once unpacked
  std::uint32_t crc = 0;
  bool deflated = false;
};

/// The file of a pack. All functions are thread-safe.
class MSPROBE_API PackFile {
 public:
  /// Throws IoError.
  explicit PackFile(const std::filesystem::path& path);
  ~PackFile();
  PackFile(const PackFile&) = delete;
  PackFile& operator=(const PackFile&) = delete;

  /// Throws FormatError, whose path is the name of the entry, for one that is damaged. Allocates `size`
  /// bytes, but not for an entry that cannot have as many.
  std::string content(const Entry& entry) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Of the inputs or the weights of one rank at one step.
struct TensorEntries {
  Entry statistics;
  std::optional<Entry> fingerprints;  // type, shape and checksum of each tensor
};

enum class Verdict {
  kEqual,
  kOtherStatistics,  // all that is known of them
  kOtherType,
  kOtherShape,
  kOtherElements,  // the statistics are equal, the checksums are not
  kOtherValues,
  kNoTensor,  // on one of the sides
  kOnlyReference,
  kOnlyTarget,
};

/// A tensor: max, min, mean and norm differ by abs(reference - target) / reference. NaN where reference is 0
/// or there is no such difference.
struct TensorRow {
  std::string name;
  Verdict verdict = Verdict::kEqual;
  std::array<double, 4> relative_differences;
};

/// An entry that could not be read, and why.
struct Problem {
  bool of_reference = false;
  std::string entry;
  std::string text;
};

/// In the order of reference, then what only target has. `rows` is empty when the statistics of a side cannot
/// be read; fingerprints that cannot be read are as if they were not there.
struct TensorComparison {
  std::vector<TensorRow> rows;
  std::vector<Problem> problems;
  bool complete = false;  // the statistics of both sides were read
};

struct CompareOptions {
  /// Inputs are trees, whose tensors get the keys that lead to them, joined with dots; weights are a list.
  bool nested = false;
  /// Mean and norm may differ by a thousandth, and checksums are not looked at: the packs were made by
  /// different tools.
  bool tolerant = false;
  unsigned threads = 0;  // 0: one for each processor
};

/// One answer for each pair. NaN equals NaN, and an infinity itself. Throws nothing for what is in the packs.
MSPROBE_API std::vector<TensorComparison> compare_tensors(
    const PackFile& reference, const PackFile& target,
    std::span<const std::pair<TensorEntries, TensorEntries>> pairs, const CompareOptions& options);

}  // namespace msprobe::config_check
