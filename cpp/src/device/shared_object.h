// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace msprobe::device {

/// A library that is loaded while the program runs, and stays loaded.
class SharedObject {
 public:
  /// The first of `names` (file names or paths) that can be loaded. Throws UnsupportedError where none can.
  explicit SharedObject(std::span<const std::string> names);

  /// A function of the library, or of one that it needs itself. Throws UnsupportedError where there is none.
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace msprobe::device
