// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io {

/// A tensor of a safetensors file, checked: its data has the size that its shape and dtype ask for.
struct SafetensorsTensor {
  std::string name;
  std::string dtype_name;              // as the file writes it: "BF16"
  std::optional<DType> dtype;          // nullopt: one that msprobe has no type for, such as "F4"
  std::vector<std::int64_t> shape;     // C order
  std::span<const std::uint8_t> data;  // valid as long as its file; of any alignment
};

/// A file of the safetensors format, mapped into memory: 8 bytes with the length of a header, the header in
/// JSON, the data. Format: docs/formats/checkpoint.md.
///
/// Reading from several threads is safe. Can be moved; tensors stay where they are.
class MSPROBE_API SafetensorsFile {
 public:
  /// Throws IoError, and FormatError for a file that is damaged or hostile: a header that is longer than the
  /// file or than 100 MB, is no JSON, or names a tensor twice; data out of the file, of another size than
  /// shape and dtype say, that overlaps or leaves gaps.
  static SafetensorsFile open(const std::filesystem::path& path);

  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  /// In the order of their data.
  std::span<const SafetensorsTensor> tensors() const noexcept;
  /// The whole file as it is mapped.
  std::span<const std::uint8_t> memory() const noexcept;
  /// "__metadata__" of the header.
  const std::map<std::string, std::string>& metadata() const noexcept;

 private:
  struct State;
  explicit SafetensorsFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::io
