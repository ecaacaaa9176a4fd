// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// A pickle is a program for a stack machine that builds a value. Opcodes: Lib/pickletools.py of CPython.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "msprobe/pt_file.h"

namespace msprobe::io {

/// What is wrong with a pickle, thrown by everything that works on one; whoever knows the file makes a
/// FormatError of it.
class PickleError : public std::runtime_error {
 public:
  PickleError(const std::string& problem) : std::runtime_error(problem) {}
};

/// Owns the values of one file. They stay where they are. Keeps account of memory, so that a small file
/// cannot ask for much: throws PickleError above 2 GiB.
class PickleValues {
 public:
  /// `extra_bytes`: what the content owns elsewhere.
  PtValue* add(PtValue::Content content, std::size_t extra_bytes = 0);

  template <typename T>
  PtValue* add_boxed(T content, std::size_t extra_bytes = 0) {
    return add(std::make_unique<T>(std::move(content)), sizeof(T) + extra_bytes);
  }

  /// For memory that no value of its own stands for.
  void charge(std::size_t bytes);

 private:
  std::deque<PtValue> values_;
  std::size_t left_ = std::size_t{2} << 30;
};

/// What the machine does not know itself. Both may throw PickleError.
struct PickleCalls {
  /// What the function or class `name` makes of `arguments`; null for an unknown one, which becomes a
  /// PtObject.
  std::function<PtValue*(std::string_view name, const PtTuple& arguments)> call;
  /// The object outside of the pickle that `id` names.
  std::function<PtValue*(const PtValue& id)> persistent;
};

/// The most values that walking through a pickle of `bytes` bytes may meet, shared ones each time: real files
/// share little, and a few bytes shall not keep a reader busy for long.
constexpr std::uint64_t most_steps(std::uint64_t bytes) {
  constexpr std::uint64_t kLeast = 1 << 16;
  constexpr std::uint64_t kMost = 1 << 24;
  constexpr std::uint64_t kPerByte = 64;
  return std::max(bytes, std::clamp(std::min(bytes, kMost) * kPerByte, kLeast, kMost));
}

/// Runs a pickle of protocol 2 to 5 and returns its value; in the result no value contains itself (PtValue).
/// Opcodes that only protocols 0 and 1 use, and those for extension registries and out-of-band buffers, are
/// refused. `where` names the pickle in messages. `length`, where it is not null, becomes the number of bytes
/// that the pickle has; others may follow.
///
/// Throws FormatError, naming the byte of the pickle.
const PtValue* run_pickle(std::span<const std::uint8_t> pickle, const std::string& path,
                          const std::string& where, PickleValues& values, const PickleCalls& calls,
                          std::size_t* length = nullptr);

}  // namespace msprobe::io
