// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/error.h"

#include <system_error>

namespace msprobe {
namespace {

std::string describe(const std::string& path, const std::string& where, const std::string& problem) {
  return where.empty() ? path + ": " + problem : path + ": " + where + ": " + problem;
}

}  // namespace

// The destructors are the key functions: the type information of each class lives here once, so that a class
// thrown in one shared library is the class caught in another.
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
FormatError::~FormatError() = default;
IoError::~IoError() = default;
UnsupportedError::~UnsupportedError() = default;
InternalError::~InternalError() = default;

FormatError::FormatError(const std::string& path, const std::string& where, const std::string& problem)
    : Error(describe(path, where, problem)), path_(path) {}

IoError::IoError(const std::string& doing, const std::string& path, int error_number)
    : Error(doing + " " + path + ": " + std::generic_category().message(error_number)),
      path_(path),
      error_number_(error_number) {}

}  // namespace msprobe
