// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <vector>

#include "msprobe/file.h"
#include "msprobe/tensor_file.h"

namespace msprobe::grad_probe {

/// Scratch memory of one thread.
struct SignBuffers {
  std::vector<std::uint8_t> first;
  std::vector<std::uint8_t> second;
};

/// The two direction files cannot be compared: another shape or dtype. The text is for Similarity::problem.
class Incomparable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Called between two reads: a place to report progress, or to stop by throwing.
using Pause = std::function<void()>;

/// The two direction files of one parameter and step. Every byte other than 0 counts as true.
class DirectionPair {
 public:
  /// Opens both files, checks their headers and leaves the start of the data in `buffers`.
  /// Throws IoError, FormatError, Incomparable.
  DirectionPair(const std::filesystem::path& path1, const std::filesystem::path& path2, SignBuffers& buffers);

  std::int64_t count() const noexcept { return header1_.count; }

  /// True when element i of both files is the same one.
  bool same_order() const noexcept;

  /// Number of elements with equal signs. `buffers` are those of the constructor, unchanged since. Memory:
  /// 256 KiB a file, and at most 32 MiB more when the files have their elements in another order.
  std::int64_t count_equal(SignBuffers& buffers, const Pause& pause) const;

  /// The same for the elements [begin, end) of files with the same order; thread-safe with buffers of one's
  /// own.
  std::int64_t count_equal(std::int64_t begin, std::int64_t end, SignBuffers& buffers,
                           const Pause& pause) const;

 private:
  std::int64_t count_equal_other_order(SignBuffers& buffers, const Pause& pause) const;

  io::InputFile file1_;
  io::InputFile file2_;
  io::NpyHeader header1_;
  io::NpyHeader header2_;
};

}  // namespace msprobe::grad_probe
