// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "msprobe/export.h"
#include "msprobe/safetensors.h"

namespace msprobe::io {

/// A checkpoint of MindSpore (.ckpt), mapped into memory: messages of Protocol Buffers, one for each
/// parameter, with its name, shape, dtype and bytes. Format: docs/formats/checkpoint.md. Texts that stand
/// among the parameters are passed over.
///
/// Reading from several threads is safe. Can be moved; tensors stay where they are.
class MSPROBE_API CkptFile {
 public:
  /// Throws IoError, and FormatError for a file that is damaged, hostile, encrypted or something else: fields
  /// that end behind the file, data of another size than shape and dtype say, another checksum than the one
  /// at the end of the file. Parts of one large parameter are put together in memory; all else stays in the
  /// file.
  static CkptFile open(const std::filesystem::path& path);

  CkptFile(CkptFile&&) noexcept;
  CkptFile& operator=(CkptFile&&) noexcept;
  ~CkptFile();

  /// In the order of the file. A dtype is written as "Float32"; one without a type of ours, and a hash table
  /// ("MapTensor"), have none.
  std::span<const SafetensorsTensor> tensors() const noexcept;
  /// The whole file as it is mapped.
  std::span<const std::uint8_t> memory() const noexcept;

 private:
  struct State;
  explicit CkptFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::io
