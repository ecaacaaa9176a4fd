// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io {

/// What the header of a NumPy file says. Format: numpy.lib.format, versions 1.0, 2.0 and 3.0.
struct NpyHeader {
  DType dtype = DType::kBool;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;         // product of shape
  std::uint64_t data_offset = 0;  // bytes from the start of the file
};

/// Parses a header. `head` holds the first bytes of a file of `file_size` bytes; 64 KiB are always enough.
/// Nothing is executed and nothing is allocated from numbers in the file before they are checked.
///
/// Throws FormatError (naming `path`) for: another magic or version, a header longer than the file or than 64
/// KiB, text that is not the dictionary NumPy writes, a negative extent, more than 64 dimensions, a product
/// that overflows, object or structured dtypes, big-endian data, data shorter or longer than shape x dtype.
MSPROBE_API NpyHeader parse_npy_header(std::span<const std::uint8_t> head, std::uint64_t file_size,
                                       const std::string& path);

/// The header NumPy 1.x and 2.x write for version 1.0: keys descr, fortran_order, shape; padded with spaces
/// so that the data starts at a multiple of 64. Throws UnsupportedError for a dtype NumPy does not know
/// (bfloat16, fp8).
MSPROBE_API std::string npy_header(DType dtype, bool fortran_order, std::span<const std::int64_t> shape);

/// Opens `path`, reads its header only.
MSPROBE_API NpyHeader read_npy_header(const std::filesystem::path& path);

/// One tensor in a file, a .npy or one of torch.save, mapped into memory: what a dump and a record hold.
/// Nothing in the file is run. Can be moved; the view stays where it is.
class MSPROBE_API TensorFile {
 public:
  /// By the ending of the path. Throws IoError; FormatError for a file that is damaged or holds something
  /// else. The checksum of the data is up to the caller.
  static TensorFile open(const std::filesystem::path& path);

  TensorFile(TensorFile&&) noexcept;
  TensorFile& operator=(TensorFile&&) noexcept;
  ~TensorFile();

  /// Of any alignment in a .npy.
  const TensorView& view() const noexcept;
  const std::filesystem::path& path() const noexcept;
  /// What the tensor lies in.
  std::span<const std::uint8_t> storage() const noexcept;
  /// CRC-32 that the file gives for storage(); nullopt: none.
  std::optional<std::uint32_t> checksum() const noexcept;
  /// Where the tensor begins in the file; nullopt: it was copied out of it.
  std::optional<std::uint64_t> offset() const noexcept;

 private:
  struct State;
  explicit TensorFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::io
