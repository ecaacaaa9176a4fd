// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "msprobe/export.h"

namespace msprobe {

/// Root of everything msprobe throws. `what()` is one sentence for a person: what was being done, on which
/// file or operator, what was found and what was expected. In Python each class below is a class of the same
/// name in the package `msprobe`, all derived from `msprobe.Error`.
class MSPROBE_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;
};

/// The caller or the configuration is wrong. Python: also a ValueError.
class MSPROBE_API InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

/// A file is damaged, hostile or not what it claims to be. Python: also a ValueError.
class MSPROBE_API FormatError : public Error {
 public:
  /// `where` is a byte offset ("byte 10"), a line ("line 3") or a key ("\"shape\""); it may be empty.
  /// The text becomes `path: where: problem`.
  FormatError(const std::string& path, const std::string& where, const std::string& problem);
  ~FormatError() override;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The operating system refused. Python: also an OSError, with errno and filename set.
class MSPROBE_API IoError : public Error {
 public:
  /// `doing` says what was tried ("cannot write"); the system's text for `error_number` is appended.
  IoError(const std::string& doing, const std::string& path, int error_number);
  ~IoError() override;

  const std::string& path() const noexcept { return path_; }
  int error_number() const noexcept { return error_number_; }

 private:
  std::string path_;
  int error_number_;
};

/// Valid input that msprobe cannot handle: a dtype, a file version. Python: also a NotImplementedError.
class MSPROBE_API UnsupportedError : public Error {
 public:
  using Error::Error;
  ~UnsupportedError() override;
};

/// A bug of ours; please report it. Python: also a RuntimeError.
class MSPROBE_API InternalError : public Error {
 public:
  using Error::Error;
  ~InternalError() override;
};

}  // namespace msprobe
